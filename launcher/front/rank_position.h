/* rank_position.h - the position of a rank, from its last progress record: the training step, the unit that the rank
 * computes, and the collective in which it waits. */
#ifndef CL_RANK_POSITION_H
#define CL_RANK_POSITION_H

#include "front/front.h"

#include <stdio.h>

enum { CL_RANK_POSITION_BYTES = 384 };

bool cl_rank_position_is_known(const cl_worker *worker); /* Returns true if the rank has sent a progress record. */

/* Returns the last meaningful progress record of a rank: a record that was sent while the rank was being ended is
 * ignored if there is an earlier one. */
const cl_link_beat *cl_rank_position_beat(const cl_worker *worker);
/* Prints the collective in which the rank waits, with the axis of its group: "all_reduce (tp)". Two threads of a rank may
 * wait: "all_reduce (tp) and reduce_scatter (dp_shard)". Returns false and prints "" if the rank does not wait. */
bool cl_rank_position_waits(const cl_worker *worker, char text[CL_RANK_POSITION_BYTES]);
/* Prints what the rank computes, such as "backward of unit 12 (model.layers.11), micro-batch 2"; "" if it is not known. */
void cl_rank_position_work(const cl_worker *worker, char text[CL_RANK_POSITION_BYTES]);

/* Prints the position of a rank, for example "step 12, forward of unit 3 (model.layers.2), waiting in all_reduce". Prints
 * "not known" if the rank has sent no progress record. */
void cl_rank_position_print(const cl_worker *worker, char text[CL_RANK_POSITION_BYTES]);

/* Returns how many nanoseconds ago the rank reached its position; -1: the rank has sent no progress record. */
int64_t cl_rank_position_age(const cl_worker *worker, int64_t now);

/* Prints one row for each position, with all ranks that share it: "ranks 0,2-7: step 12, waiting in all_reduce". If
 * `now` is not 0, the row ends with the longest time that one of these ranks has been at the position: " (612 s)". Rank
 * `without` is omitted; -1 omits no rank. The first row begins with `lead`, the others with `indent`. */
void cl_rank_position_table(const cl_front *front, const char *lead, const char *indent, int without, int64_t now,
                            FILE *out);

/* Prints the name of a rank, such as "rank 11 (worker-2, local 3, slot 3, pid 48812)". If the job uses only this
 * machine, the name is shorter: "rank 1 (pid 12)". */
void cl_rank_position_name(const cl_front *front, int rank, FILE *out);

/* Returns the name of the host on which the rank runs. */
const char *cl_rank_position_host(const cl_front *front, int rank);

#endif
