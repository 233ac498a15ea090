/* cudnn_pieces.c - runs one cuDNN plan on several pieces of an attention, if a plan for the whole attention needs too
 * much workspace.
 *
 * Samples are independent, and so are key heads with the query heads that share them; a piece therefore computes the
 * same bits as the whole. Pieces have equal sizes, so that one plan serves all of them, and run one after the other in
 * the same workspace. */
#include "base/status.h"
#include "device/cuda/cudnn.h"

/* Returns the smallest divisor of `count` that is at least `min`, or `count` if there is no such divisor. */
static int64_t divisor(int64_t count, int64_t min)
{
    int64_t parts = min;
    while (parts < count && count % parts != 0)
        parts++;
    return parts < count ? parts : count;
}

static bool is_smallest(const ce_cudnn_shape *piece)
{
    return piece->samples == 1 && piece->keys == 1;
}

/* Divides a piece into at least `min` smaller pieces: by samples, whose rows are contiguous, and by heads too if there
 * are too few samples. */
static void cut(ce_cudnn_shape *piece, int64_t min)
{
    int64_t by_samples = divisor(piece->samples, min);
    int64_t by_heads = divisor(piece->keys, ce_divide_up(min, by_samples));
    piece->samples /= by_samples;
    piece->queries /= by_heads;
    piece->keys /= by_heads;
}

cs_status ce_cudnn_pieces_open(ce_cudnn_plan *plan, const ce_cudnn_library *library, const ce_cudnn_target *target,
                               const ce_cudnn_shape *whole, ce_cudnn_bound bound)
{
    ce_cudnn_shape piece = *whole;
    for (;;) {
        int64_t max = is_smallest(&piece) ? bound.max_smallest : bound.max;
        cs_status status = ce_cudnn_plan_open(plan, library, target, &piece, max);
        if (status == CS_OK || plan->workspace == 0 || is_smallest(&piece))
            return status;
        cut(&piece, max > 0 ? ce_divide_up(plan->workspace, max) : piece.samples * piece.keys);
    }
}

int64_t ce_cudnn_pieces(const ce_cudnn_plan *plan, const ce_cudnn_shape *whole)
{
    return whole->samples / plan->shape.samples * (whole->keys / plan->shape.keys);
}

void *ce_cudnn_piece_address(const ce_cudnn_plan *plan, const ce_cudnn_shape *whole, int64_t index,
                             ce_cudnn_number number, void *first)
{
    int64_t by_heads = whole->keys / plan->shape.keys, queries = plan->shape.queries, keys = plan->shape.keys;
    int64_t sample = index / by_heads * plan->shape.samples, part = index % by_heads;
    int64_t wide = (whole->queries + 2 * whole->keys) * whole->width, narrow = whole->queries * whole->width;
    char *at = first;
    if (!first)
        return NULL; /* the plan, for forward or for backward, does not have this input or output */
    switch (number) {
    case CE_CUDNN_Q:
    case CE_CUDNN_DQ:
        return at + (sample * whole->length * wide + part * queries * whole->width) * 2;
    case CE_CUDNN_K:
    case CE_CUDNN_V:
    case CE_CUDNN_DK:
    case CE_CUDNN_DV:
        return at + (sample * whole->length * wide + part * keys * whole->width) * 2;
    case CE_CUDNN_Y:
    case CE_CUDNN_DY:
        return at + (sample * whole->length * narrow + part * queries * whole->width) * 2;
    case CE_CUDNN_LSE:
    case CE_CUDNN_DELTA:
        return at + (sample * whole->queries + part * queries) * whole->length * (int64_t)sizeof(float);
    default:
        return first; /* the address is of a number in host memory, which is the same for all pieces */
    }
}
