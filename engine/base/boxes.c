/* boxes.c - axis-aligned boxes of a row-major tensor: ranges of elements as boxes, and intersections. */
#include "base/boxes.h"

bool ce_boxes_count(int64_t *count, const int64_t *shape, int dims, int64_t scale)
{
    int64_t bytes = scale;
    *count = 1;
    for (int i = 0; i < dims; i++)
        if (__builtin_mul_overflow(*count, shape[i], count) || __builtin_mul_overflow(bytes, shape[i], &bytes))
            return false;
    return true;
}

static void strides_of(int64_t *strides, const int64_t *shape, int dims)
{
    int64_t stride = 1;
    for (int i = dims - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= shape[i];
    }
}

int ce_boxes_split(ce_box *boxes, const int64_t *shape, int dims, ce_range range)
{
    int64_t strides[CS_MAX_DIMS];
    int count = 0;
    strides_of(strides, shape, dims);
    for (int64_t at = range.from; at < range.to; count++) {
        ce_box *box = &boxes[count];
        /* A slice of a dimension has one index of this dimension, and all indices of the dimensions after it. `level`
         * becomes the first dimension for which a slice begins at element `at` and ends inside the range. */
        int level = 0;
        while (level + 1 < dims && (at % strides[level] != 0 || at + strides[level] > range.to))
            level++;
        box->dims = dims;
        int64_t rest = at;
        for (int i = 0; i < dims; i++) {
            box->offset[i] = rest / strides[i];
            box->size[i] = i < level ? 1 : shape[i];
            rest %= strides[i];
        }
        if (dims == 0)
            return 1;
        int64_t left = shape[level] - box->offset[level], wanted = (range.to - at) / strides[level];
        box->size[level] = left < wanted ? left : wanted;
        at += box->size[level] * strides[level];
    }
    return count;
}

int64_t ce_boxes_volume(const ce_box *box)
{
    int64_t volume = 1;
    for (int i = 0; i < box->dims; i++)
        volume *= box->size[i];
    return volume;
}

int64_t ce_boxes_place(const ce_box *box, const int64_t *shape, int64_t element)
{
    int64_t place = 0, stride = 1;
    for (int i = box->dims - 1; i >= 0; i--) {
        place += (box->offset[i] + element % box->size[i]) * stride;
        element /= box->size[i];
        stride *= shape[i];
    }
    return place;
}

int64_t ce_boxes_run(const ce_box *box, const int64_t *shape)
{
    int64_t run = 1;
    for (int i = box->dims - 1; i >= 0; i--) {
        run *= box->size[i];
        if (box->size[i] != shape[i])
            break;
    }
    return run;
}

/* Returns the index of the first element of the box whose position in the tensor is at least `place`, or the number of
 * the box's elements if there is no such element. Uses a binary search. */
static int64_t first_behind(const ce_box *box, const int64_t *shape, int64_t place)
{
    int64_t low = 0, high = ce_boxes_volume(box);
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (ce_boxes_place(box, shape, middle) < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

ce_range ce_boxes_cut(const ce_box *box, const int64_t *shape, ce_range range)
{
    ce_range cut = { first_behind(box, shape, range.from), first_behind(box, shape, range.to) };
    return cut.from < cut.to ? cut : (ce_range){ cut.from, cut.from };
}

bool ce_boxes_meet(ce_box *both, const ce_box *a, const ce_box *b)
{
    both->dims = a->dims;
    for (int i = 0; i < a->dims; i++) {
        ce_range common = ce_range_overlap((ce_range){ a->offset[i], a->offset[i] + a->size[i] },
                                           (ce_range){ b->offset[i], b->offset[i] + b->size[i] });
        both->offset[i] = common.from;
        both->size[i] = ce_range_length(common);
    }
    return ce_boxes_volume(both) > 0;
}

ce_box ce_boxes_within(const ce_box *box, const ce_box *outer)
{
    ce_box inside = *box;
    for (int i = 0; i < box->dims; i++)
        inside.offset[i] -= outer->offset[i];
    return inside;
}

ce_box ce_boxes_whole(const int64_t *shape, int dims)
{
    ce_box whole = { .dims = dims };
    for (int i = 0; i < dims; i++)
        whole.size[i] = shape[i];
    return whole;
}
