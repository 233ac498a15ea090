/* part.h - struct ce_shard, and the address of an element of the row in each of its buffers. Private to this folder. */
#ifndef CS_ZERO_PART_H
#define CS_ZERO_PART_H

#include "zero/zero.h"

struct ce_shard {
    const ce_zero *zero;
    cs_unit *unit;
    ce_pool *values_pool, *grads_pool;
    int64_t padded;
    ce_range part; /* this rank's elements of the row */
    void *home;    /* compute type: the whole row, or this rank's part */
    void *whole;   /* the whole row, if it exists always: `home`, or what `home` is a part of; else NULL */
    void *sum;     /* reduced gradient: the whole row, or this rank's part */
    void *master;  /* the whole row or the part, as stage.optim says; inside `home` if types are equal */
    void *slots[CS_OPTIM_SLOTS];
    float *norms; /* all norms' parameters, one after another; NULL: they are in `home` */
    int users;    /* of the gathered row */
    int gathers;  /* how often the row was gathered; the dry run reads it */
    ce_row *value_row, *grad_row;
    ce_event gathered;
    void *reducing; /* the row that the queued reduce_part reads, and its micro-batch */
    ce_micro micro;
    ce_event reduced;
};

/* True during the dry run: nothing is fetched, sent or allocated, and pools only count. */
bool ce_part_dry(const ce_shard *shard);
cs_stream *ce_part_stream(const ce_shard *shard, ce_stream_role role);
void ce_part_follow(const ce_shard *shard, ce_stream_role later, ce_stream_role earlier); /* ce_stream_follow of both */

int64_t ce_part_from(const ce_shard *shard);   /* index in the row of the first element of master and slots */
int64_t ce_part_count(const ce_shard *shard);  /* number of elements of master and slots */
ce_range ce_part_moved(const ce_shard *shard); /* the range of both */
ce_range ce_part_own(const ce_shard *shard, const ce_unit_entry *entry); /* a parameter's elements of that range */

const char *ce_part_name(const ce_shard *shard); /* the unit's, for a trace */

/* Address of element number `element` of the row in each buffer. */
void *ce_part_at(void *row, cs_dtype dtype, int64_t element);
void *ce_part_home(const ce_shard *shard, int64_t element);
void *ce_part_sum(const ce_shard *shard, int64_t element);
void *ce_part_master(const ce_shard *shard, int64_t element);
void *ce_part_slot(const ce_shard *shard, int slot, int64_t element);

#endif
