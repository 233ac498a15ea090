/* boxes.h - axis-aligned boxes of a row-major tensor: ranges of elements as boxes, intersections, and the proof that
 * boxes cover a tensor exactly once.
 *
 * A range of a tensor with d dimensions is divided into at most 2d - 1 boxes: whole rows, and a partial row at either
 * end, which is divided in the same way. Each of these boxes is contiguous. A box in general is not contiguous, but its
 * elements in its own row-major order have ascending positions in the tensor. Therefore the intersection of a box with
 * a range of the tensor is a range of the box's elements. */
#ifndef CE_BASE_BOXES_H
#define CE_BASE_BOXES_H

#include "base/range.h"
#include "cspeed/cspeed.h"

enum { CE_MAX_BOXES = 2 * CS_MAX_DIMS - 1 };

typedef struct {
    int32_t dims;
    int64_t offset[CS_MAX_DIMS], size[CS_MAX_DIMS];
} ce_box;

/* Sets *count to the number of elements of the shape. Returns false if this number times `scale` exceeds 2^63 - 1. */
bool ce_boxes_count(int64_t *count, const int64_t *shape, int dims, int64_t scale);

/* Divides a range of elements, in row-major order, into boxes, and writes them to `boxes` in ascending order. `boxes`
 * must have room for CE_MAX_BOXES. Returns the number of boxes. */
int ce_boxes_split(ce_box *boxes, const int64_t *shape, int dims, ce_range range);

int64_t ce_boxes_volume(const ce_box *box);
/* Returns the position (row-major index) in the tensor of the box's element number `element`. */
int64_t ce_boxes_place(const ce_box *box, const int64_t *shape, int64_t element);
/* Returns the number of consecutive elements of the box that are also consecutive in the tensor. The box's volume is a
 * multiple of this number. */
int64_t ce_boxes_run(const ce_box *box, const int64_t *shape);
/* Returns the range of the box's elements that are inside `range`, a range of the tensor's elements. The result counts
 * the box's elements in the row-major order of the box. */
ce_range ce_boxes_cut(const ce_box *box, const int64_t *shape, ce_range range);

/* Returns true if the boxes, which are in one tensor, have common elements, and sets *both to the box of these elements. */
bool ce_boxes_meet(ce_box *both, const ce_box *a, const ce_box *b);
/* Returns the box with offsets that count from the beginning of `outer`, in which the box lies. Together with
 * outer->size as the shape, it is a box of the tensor that has the elements of `outer`. */
ce_box ce_boxes_within(const ce_box *box, const ce_box *outer);
ce_box ce_boxes_whole(const int64_t *shape, int dims); /* Returns the box of all elements of a tensor. */

/* Elements of a tensor that are not in exactly one of some boxes. */
typedef struct {
    ce_range
        elements; /* consecutive positions (row-major indices) in the tensor; empty if there are no such elements */
    bool twice;   /* true: several boxes have these elements; false: no box has them */
} ce_boxes_fault;
/* Checks that boxes, which are in the tensor, cover each of its elements exactly once. Returns the first elements for
 * which this does not hold. If the boxes lie in a grid, the work is proportional to their number. */
ce_boxes_fault ce_boxes_cover(const ce_box *boxes, int64_t count, const int64_t *shape, int dims);

#endif
