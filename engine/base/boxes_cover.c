/* boxes_cover.c - the proof that boxes cover a tensor exactly once.
 *
 * The tensor is divided into slabs along its first dimension, such that each box has either all indices of a slab or
 * none. The boxes that have a slab must cover it in the other dimensions, which is the same question with one dimension
 * less. Boxes are sorted by their first index, so the boxes of a slab follow from those of the slab before it. */
#include "base/boxes.h"
#include "base/must.h"

#include <stdlib.h>

typedef struct {
    int64_t from, to; /* the indices of the box in the dimension that is being divided */
    const ce_box *box;
} side;

typedef struct {
    const int64_t *shape;
    int dims;
    int64_t stride[CS_MAX_DIMS];
    side *sides[CS_MAX_DIMS + 1]; /* for each dimension, room for all boxes: those of the slab that is examined */
    side *open[CS_MAX_DIMS];      /* for each dimension, room for all boxes: those that have the next slab */
} sweep;

static int by_from(const void *one, const void *other)
{
    const side *a = one, *b = other;
    return (a->from > b->from) - (a->from < b->from);
}

/* Removes the boxes that end at index `at` from `open`, and adds those that begin there; *next is the first box of
 * `sides` that has not begun. Returns the new number of boxes in `open`, and sets *to to the end of the slab that begins
 * at `at` and ends at most at `length`. */
static int64_t move_on(side *open, int64_t count, const side *sides, int64_t total, int64_t *next, int64_t at,
                       int64_t length, int64_t *to)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < count; i++)
        if (open[i].to > at)
            open[kept++] = open[i];
    while (*next < total && sides[*next].from <= at)
        open[kept++] = sides[(*next)++];
    *to = *next < total ? sides[*next].from : length;
    for (int64_t i = 0; i < kept; i++)
        *to = open[i].to < *to ? open[i].to : *to;
    return kept;
}

/* Checks that the `count` boxes of s->sides[dim] cover, in the dimensions from `dim`, each index exactly once. `place`
 * is the position of the first element of the slab. */
static ce_boxes_fault cover(sweep *s, int dim, int64_t count, int64_t place)
{
    side *sides = s->sides[dim];
    if (dim == s->dims || dim == CS_MAX_DIMS)
        return (ce_boxes_fault){ { place, place + (count != 1) }, count > 1 };
    for (int64_t i = 0; i < count; i++) {
        sides[i].from = sides[i].box->offset[dim];
        sides[i].to = sides[i].from + sides[i].box->size[dim];
    }
    qsort(sides, (size_t)count, sizeof *sides, by_from);
    int64_t next = 0, held = 0, length = s->shape[dim];
    for (int64_t at = 0, to; at < length; at = to) {
        held = move_on(s->open[dim], held, sides, count, &next, at, length, &to);
        for (int64_t i = 0; i < held; i++)
            s->sides[dim + 1][i] = s->open[dim][i];
        int64_t from = place + at * s->stride[dim];
        if (held == 0)
            return (ce_boxes_fault){ { from, place + to * s->stride[dim] }, false };
        ce_boxes_fault fault = cover(s, dim + 1, held, from);
        /* In the last dimension a slab is a run of elements. */
        if (ce_range_length(fault.elements) > 0 && dim + 1 == s->dims)
            fault.elements.to = place + to;
        if (ce_range_length(fault.elements) > 0)
            return fault;
    }
    return (ce_boxes_fault){ { place, place }, false };
}

ce_boxes_fault ce_boxes_cover(const ce_box *boxes, int64_t count, const int64_t *shape, int dims)
{
    sweep s = { .shape = shape, .dims = dims };
    int64_t stride = 1, used = 0;
    size_t bytes = ((size_t)count + 1) * sizeof(side);
    for (int i = dims - 1; i >= 0; i--) {
        s.stride[i] = stride;
        stride *= shape[i];
        s.open[i] = ce_must_alloc(bytes);
    }
    for (int i = 0; i <= dims; i++)
        s.sides[i] = ce_must_alloc(bytes);
    for (int64_t i = 0; i < count; i++)
        if (ce_boxes_volume(&boxes[i]) > 0)
            s.sides[0][used++].box = &boxes[i];
    ce_boxes_fault fault = { 0 };
    if (stride > 0) /* otherwise the tensor has no element */
        fault = cover(&s, 0, used, 0);
    for (int i = 0; i <= dims; i++)
        free(s.sides[i]);
    for (int i = 0; i < dims; i++)
        free(s.open[i]);
    return fault;
}
