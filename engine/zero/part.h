/* part.h - struct cs_shard, and the address of an element of the row in each of its buffers. Private to this folder. */
#ifndef CS_ZERO_PART_H
#define CS_ZERO_PART_H

#include "zero/zero.h"

struct cs_shard {
    const cs_zero *zero;
    cs_unit *unit;
    cs_pool *values_pool, *grads_pool;
    int64_t padded;
    cs_range part; /* this rank's elements of the row */
    void *home;    /* compute type: the whole row, or this rank's part */
    void *sum;     /* reduced gradient: the whole row, or this rank's part */
    void *master;  /* the whole row or the part, as stage.optim says; inside `home` if types are equal */
    void *slots[CS_OPTIM_SLOTS];
    float *norms; /* all norms' parameters, one after another; NULL: they are in `home` */
    int users;    /* of the gathered row */
    cs_row *value_row, *grad_row;
    cs_event gathered;
    void *reducing; /* the row that the queued reduce_part reads, and its micro-batch */
    cs_micro micro;
    cs_event reduced;
};

/* True during the dry run: nothing is fetched, sent or allocated, and pools only count. */
bool cs_part_dry(const cs_shard *shard);
cs_stream *cs_part_stream(const cs_shard *shard, cs_stream_role role);
void cs_part_follow(const cs_shard *shard, cs_stream_role later, cs_stream_role earlier); /* cs_stream_follow of both */

int64_t cs_part_from(const cs_shard *shard);   /* index in the row of the first element of master and slots */
int64_t cs_part_count(const cs_shard *shard);  /* number of elements of master and slots */
cs_range cs_part_moved(const cs_shard *shard); /* the range of both */
cs_range cs_part_own(const cs_shard *shard, const cs_unit_entry *entry); /* a parameter's elements of that range */

/* Address of element number `element` of the row in each buffer. */
void *cs_part_at(void *row, cs_dtype dtype, int64_t element);
void *cs_part_home(const cs_shard *shard, int64_t element);
void *cs_part_sum(const cs_shard *shard, int64_t element);
void *cs_part_master(const cs_shard *shard, int64_t element);
void *cs_part_slot(const cs_shard *shard, int slot, int64_t element);

#endif
