/* part.h - what a shard is made of, and where an element of the row lies in each of its forms. For the files of this
 * room alone: shard.c, gradient.c, apply.c. */
#ifndef CS_ZERO_PART_H
#define CS_ZERO_PART_H

#include "zero/zero.h"

struct cs_shard {
    const cs_zero *zero;
    cs_unit *unit;
    cs_pool *values_pool, *grads_pool;
    int64_t padded;
    cs_range part; /* of the row this rank owns                            */
    void *home;    /* compute dtype: the whole row, or this rank's part      */
    void *sum;     /* reduced gradient: the whole row, or the part           */
    void *master;  /* by the optimizer's place; inside home if of one type   */
    void *slots[CS_OPTIM_SLOTS];
    float *norms; /* whole, one parameter of a norm behind the other; NULL: home has them */
    int users;    /* of the gathered whole                                */
    cs_row *value_row, *grad_row;
    cs_event gathered;
    void *reducing; /* the row that reduce_part works on */
    cs_micro micro; /* and of which micro-batch          */
    cs_event reduced;
};

/* While the engine measures nothing is fetched, sent or allocated; pools count. */
bool cs_part_dry(const cs_shard *shard);
cs_stream *cs_part_stream(const cs_shard *shard, cs_stream_role role);

int64_t cs_part_from(const cs_shard *shard);   /* the row's element at which master and slots begin */
int64_t cs_part_count(const cs_shard *shard);  /* elements they hold                                */
cs_range cs_part_moved(const cs_shard *shard); /* both                                              */
cs_range cs_part_own(const cs_shard *shard, const cs_unit_entry *entry); /* of them, a parameter's  */

/* Element `element` of the row in each form. */
void *cs_part_at(void *row, cs_dtype dtype, int64_t element);
void *cs_part_home(const cs_shard *shard, int64_t element);
void *cs_part_sum(const cs_shard *shard, int64_t element);
void *cs_part_master(const cs_shard *shard, int64_t element);
void *cs_part_slot(const cs_shard *shard, int slot, int64_t element);

#endif
