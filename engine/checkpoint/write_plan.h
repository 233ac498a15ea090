/* write_plan.h - the plan of what a rank writes: the rank's pieces are divided into boxes, and the boxes are
 * distributed to files. A box is an axis-aligned part of a tensor (boxes.h); a chunk is one box in a file.
 *
 * A file has at most one box of each tensor, because PyTorch's reader of sharded safetensors expects one box for each
 * key. So if a rank has three boxes of a tensor, it writes three files into the tensor's folder. A range of a matrix
 * has at most three boxes; a matrix that tensor parallelism cuts into q, k and v has up to nine. The first file gets
 * the largest box of each tensor. */
#ifndef CE_CHECKPOINT_WRITE_PLAN_H
#define CE_CHECKPOINT_WRITE_PLAN_H

#include "checkpoint/piece.h"

enum { CE_WRITE_PLAN_WEIGHTS, CE_WRITE_PLAN_OPTIM, CE_WRITE_PLAN_FOLDERS };
extern const char *const ce_write_plan_folders[CE_WRITE_PLAN_FOLDERS];

/* Returns an error unless a tensor of a checkpoint may have this name. */
cs_status ce_write_plan_check_name(const char *name);

typedef struct {
    const ce_piece *piece;
    ce_box box;
    ce_range elements; /* the box's elements, as elements of the piece's part */
    int64_t count;     /* number of elements in the box */
    int folder;
    int file; /* number of the file, counted from 0 among this rank's files in the folder */
} ce_write_plan_chunk;

/* One file to write. It has `count` chunks (boxes), sorted by the size of their elements, largest first, and then by
 * the name of the tensor. */
typedef struct {
    const ce_write_plan_chunk *chunks;
    int64_t count;
    int folder;
    int64_t data_bytes;
} ce_write_plan_file;

typedef struct {
    ce_write_plan_chunk *chunks;
    int64_t chunk_count;
    ce_write_plan_file *files;
    int64_t file_count, files_in[CE_WRITE_PLAN_FOLDERS];
    int64_t data_bytes;
} ce_write_plan;

/* Checks each piece by itself. Returns CS_BAD_CONFIG for an invalid name, folder, shape or range. */
cs_status ce_write_plan_check(const ce_piece *pieces, int64_t count);
int ce_write_plan_folder(const char *folder); /* returns the index of the folder, or -1 if there is no such folder */

/* Plans the files of this rank. `empty` are the tensors without elements, which this rank writes for all ranks. The
 * pieces are borrowed until ce_write_plan_close. */
void ce_write_plan_open(ce_write_plan *plan, const ce_piece *pieces, int64_t count, const ce_piece *empty,
                        int64_t empty_count);
void ce_write_plan_close(ce_write_plan *plan);

#endif
