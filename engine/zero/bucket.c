/* bucket.c - buckets of gradients: consecutive units whose sums are adjacent in memory, so that one all-reduce adds the
 * gradients of all of them. The sum of an element over ranks does not depend on the bucket that contains the element.
 * Unless reduce_bucket_size is larger, each unit is a bucket, so that its reduction overlaps with the backward of the
 * next unit. With DeepSpeed's default of 5e8 elements, most models would be reduced at once, after the whole backward.
 *
 * If gradients are reduced by a reduce-scatter, the parts that one rank gets of several units are not adjacent in the
 * buffer that is sent, so every unit is a bucket by itself. */
#include "zero/zero.h"
#include "base/must.h"

#include <stdlib.h>

bool ce_bucket_joins(const ce_zero *zero)
{
    return zero->stage.optim == CE_REPLICATED || (zero->stage.grads == CE_SHARDED && zero->replicas > 1);
}

/* Returns the number of elements of the unit's gradient sum on this rank. */
static int64_t held(const ce_zero *zero, const cs_unit *unit)
{
    return ce_stage_share(zero, zero->stage.grads, ce_stage_padded(zero, unit->length));
}

int ce_bucket_first(const ce_zero *zero, const cs_model *model, int last, int64_t *elements)
{
    int64_t max = ce_bucket_joins(zero) ? zero->bucket_elements : 0;
    int first = last;
    *elements = held(zero, model->units[last]);
    while (first > 0 && *elements + held(zero, model->units[first - 1]) <= max)
        *elements += held(zero, model->units[--first]);
    return first;
}

ce_bucket *ce_bucket_open(const ce_zero *zero, const cs_model *model)
{
    size_t width = cs_dtype_bytes(zero->precision.sums);
    ce_bucket *buckets = ce_must_alloc((size_t)model->total * sizeof *buckets);
    for (int last = model->count - 1, first; last >= 0; last = first - 1) {
        int64_t elements;
        first = ce_bucket_first(zero, model, last, &elements);
        char *sum = elements ? cs_comm_alloc(zero->comm, (size_t)elements * width) : NULL;
        int lowest = last;
        for (int i = first; i <= last; i++)
            if (held(zero, model->units[i]) > 0 && i < lowest)
                lowest = i;
        for (int i = first; i <= last; i++) {
            buckets[i] = (ce_bucket){ .sum = sum, .elements = elements, .completes = i == lowest };
            if (sum)
                sum += (size_t)held(zero, model->units[i]) * width;
        }
    }
    return buckets;
}
