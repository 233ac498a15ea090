/* traffic.h - how many bytes a rank sends in a collective, computed without calling it. */
#ifndef CE_COMM_TRAFFIC_H
#define CE_COMM_TRAFFIC_H

#include "cspeed/comm.h"

/* The place of a rank in a group of ranks. Ranks of one host have consecutive numbers in the group. */
typedef struct {
    int size, index; /* number of ranks of the group, and this rank's number in it */
    int first, here; /* the ranks of this rank's host: the number of the first of them, and how many they are */
    bool even;       /* true: each host has as many ranks of the group as this host */
} ce_traffic_group;

/* `bytes` and `between_hosts` of cs_comm_traffic after one call of the collective CE_BEAT_ALL_REDUCE (with CS_SUM),
 * CE_BEAT_REDUCE_SCATTER or CE_BEAT_ALL_GATHER. */
cs_comm_traffic ce_traffic_of(const ce_traffic_group *group, int what, int64_t count, cs_dtype dtype);

/* Returns true if the collectives of TCP among these ranks are hierarchical. */
bool ce_traffic_is_hierarchical(const ce_traffic_group *group);

#endif
