/* piece.h - the elements of a piece (checkpoint.h): which boxes of the tensor they are, and where they are in memory.
 * Private to this folder. */
#ifndef CE_CHECKPOINT_PIECE_H
#define CE_CHECKPOINT_PIECE_H

#include "checkpoint/checkpoint.h"

ce_box
ce_piece_part(const ce_piece *piece); /* Returns the box in which the piece lies, also if it is the whole tensor. */
/* Divides the piece into boxes of the tensor, in the order of the piece's elements, and writes them to `boxes`, which has
 * room for CE_MAX_BOXES. Returns the number of boxes. Each box is contiguous in memory, unless the piece has a pitch. */
int ce_piece_boxes(ce_box *boxes, const ce_piece *piece);

/* Returns the address of element number `element` of the piece's part, which must be in piece->range. Sets *run, unless it
 * is NULL, to the number of elements from there that are contiguous in memory. */
char *ce_piece_at(const ce_piece *piece, int64_t element, int64_t *run);
/* Copies the elements `elements` of the piece's part, which must be in piece->range, to contiguous host memory.
 * `device_copy` is NULL if the piece is in host memory. */
void ce_piece_fetch(void *to, const ce_piece *piece, ce_range elements, const ce_checkpoint_device_copy *device_copy);

#endif
