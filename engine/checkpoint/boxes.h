/* boxes.h - a contiguous range of a row-major tensor as axis-aligned boxes, and back.
 *
 * A range of a tensor of d dimensions is at most 2d - 1 boxes: partial rows at both ends and whole rows between, again
 * inside each partial row. Each of these boxes is itself contiguous. A box in general is not; but walking it in its own
 * row-major order only ever moves forward in the tensor's, so what a range cuts out of a box is a range of the box's
 * elements. */
#ifndef CS_CHECKPOINT_BOXES_H
#define CS_CHECKPOINT_BOXES_H

#include "base/range.h"
#include "cspeed/cspeed.h"

enum { CS_MAX_BOXES = 2 * CS_MAX_DIMS - 1 };

typedef struct {
    int32_t dims;
    int64_t offset[CS_MAX_DIMS], size[CS_MAX_DIMS];
} cs_box;

/* False when the product of the sizes, times `scale`, passes 2^63 - 1. */
bool cs_boxes_count(int64_t *count, const int64_t *shape, int dims, int64_t scale);

/* The boxes of `range`, in order; returns how many. */
int cs_boxes_split(cs_box *boxes, const int64_t *shape, int dims, cs_range range);

int64_t cs_boxes_volume(const cs_box *box);
/* Where in the tensor the box's element number `element` lies. */
int64_t cs_boxes_place(const cs_box *box, const int64_t *shape, int64_t element);
/* How many elements lie side by side in the tensor: a divisor of the volume. */
int64_t cs_boxes_run(const cs_box *box, const int64_t *shape);
/* The elements of the box that lie in `range` of the tensor. */
cs_range cs_boxes_cut(const cs_box *box, const int64_t *shape, cs_range range);
bool cs_boxes_overlap(const cs_box *a, const cs_box *b);

#endif
