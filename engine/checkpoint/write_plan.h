/* write_plan.h - what a rank writes: its pieces cut into boxes, and the boxes dealt to files.
 *
 * A file holds at most one box of a tensor, because PyTorch's reader of sharded safetensors takes a key for one box; a
 * rank writes as many files as its most divided tensor has boxes (three at most for a range of a matrix), the larger
 * boxes first. */
#ifndef CS_CHECKPOINT_WRITE_PLAN_H
#define CS_CHECKPOINT_WRITE_PLAN_H

#include "checkpoint/boxes.h"
#include "checkpoint/checkpoint.h"

enum { CS_WRITE_PLAN_WEIGHTS, CS_WRITE_PLAN_OPTIM, CS_WRITE_PLAN_FOLDERS };
extern const char *const cs_write_plan_folders[CS_WRITE_PLAN_FOLDERS];

typedef struct {
    const cs_piece *piece;
    cs_box box;
    const char *data; /* the box's elements, which lie side by side */
    int64_t count;    /* of elements */
    int folder;
    int file; /* of this rank in the folder, from 0 */
} cs_write_plan_chunk;

/* One file to write: `count` chunks, by size of an element (largest first), then by name. */
typedef struct {
    const cs_write_plan_chunk *chunks;
    int64_t count;
    int folder;
    int64_t data_bytes;
} cs_write_plan_file;

typedef struct {
    cs_write_plan_chunk *chunks;
    int64_t chunk_count;
    cs_write_plan_file *files;
    int64_t file_count, files_in[CS_WRITE_PLAN_FOLDERS];
    int64_t data_bytes;
} cs_write_plan;

/* CS_BAD_CONFIG when a piece makes no sense by itself. The pieces are borrowed. */
cs_status cs_write_plan_check(const cs_piece *pieces, int64_t count);
int cs_write_plan_folder(const char *folder); /* -1: no such folder */

/* `empty` are tensors without elements that this rank writes for all. */
void cs_write_plan_open(cs_write_plan *plan, const cs_piece *pieces, int64_t count, const cs_piece *empty,
                        int64_t empty_count);
void cs_write_plan_close(cs_write_plan *plan);

#endif
