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
    ce_range own;  /* those of them for which this rank alone answers: all, unless sharding is hybrid */
    void *home;    /* compute type: the whole row, or this rank's part */
    void *whole;   /* the whole row, if it always exists: `home` itself, or the row that contains `home`; else NULL */
    void *sum;     /* reduced gradient: the whole row, or this rank's part */
    void *master;  /* the whole row or the part, as stage.optim says; inside `home` if types are equal */
    void *slots[CS_OPTIM_SLOTS];
    float *norms; /* all norms' parameters, one after another; NULL: they are in `home` */
    int users;    /* number of users of the gathered row */
    int gathers;  /* how often the row was gathered; the dry run reads it */
    ce_row *value_row, *grad_row;
    ce_event gathered;
    void *reducing; /* the row that the queued reduce_part reads, and the micro-batch of that row */
    ce_micro micro;
    ce_event reduced;
};

/* True during the dry run: nothing is fetched, sent or allocated, and pools only count. */
bool ce_part_dry(const ce_shard *shard);
/* True if masters are the values themselves: the types are equal, or the parameters are frozen. */
bool ce_part_one_copy(const ce_shard *shard);
cs_dtype ce_part_masters(const ce_shard *shard); /* the type of `master` */
cs_stream *ce_part_stream(const ce_shard *shard, ce_stream_role role);
/* ce_stream_follow for the streams of these two roles. */
void ce_part_follow(const ce_shard *shard, ce_stream_role later, ce_stream_role earlier);

int64_t ce_part_from(const ce_shard *shard);   /* index in the row of the first element of master and slots */
int64_t ce_part_count(const ce_shard *shard);  /* number of elements of master and slots */
ce_range ce_part_moved(const ce_shard *shard); /* the range of the row that master and slots hold */
ce_range ce_part_own(const ce_shard *shard, const ce_unit_entry *entry); /* the parameter's part of ce_part_moved */

cs_dtype ce_gradient_across_type(ce_precision types); /* gradient.c: in which groups add their gradients */
const char *ce_part_name(const ce_shard *shard);      /* the unit's, for a trace */

/* Address of element number `element` of the row in each buffer. */
void *ce_part_at(void *row, cs_dtype dtype, int64_t element);
void *ce_part_home(const ce_shard *shard, int64_t element);
void *ce_part_sum(const ce_shard *shard, int64_t element);
void *ce_part_master(const ce_shard *shard, int64_t element);
void *ce_part_slot(const ce_shard *shard, int slot, int64_t element);

#endif
