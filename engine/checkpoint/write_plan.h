/* write_plan.h - what a rank writes: its pieces cut into boxes, and the boxes dealt to files.
 *
 * A file holds at most one box of a tensor, because PyTorch's reader of sharded safetensors takes a key for one box; a
 * rank writes as many files as its most divided tensor has boxes (three at most for a range of a matrix), the larger
 * boxes first. */
#ifndef CS_CHECKPOINT_OUTLINE_H
#define CS_CHECKPOINT_OUTLINE_H

#include "checkpoint/boxes.h"
#include "checkpoint/checkpoint.h"

enum { CS_OUTLINE_WEIGHTS, CS_OUTLINE_OPTIM, CS_OUTLINE_FOLDERS };
extern const char *const cs_outline_folders[CS_OUTLINE_FOLDERS];

typedef struct {
    const cs_piece *piece;
    cs_box box;
    const char *data; /* the box's elements, which lie side by side */
    int64_t count;    /* of elements */
    int folder;
    int file; /* of this rank in the folder, from 0 */
} cs_outline_chunk;

/* One file to write: `count` chunks, by size of an element (largest first), then by name. */
typedef struct {
    const cs_outline_chunk *chunks;
    int64_t count;
    int folder;
    int64_t data_bytes;
} cs_outline_file;

typedef struct {
    cs_outline_chunk *chunks;
    int64_t chunk_count;
    cs_outline_file *files;
    int64_t file_count, files_in[CS_OUTLINE_FOLDERS];
    int64_t data_bytes;
} cs_outline;

/* CS_BAD_CONFIG when a piece makes no sense by itself. The pieces are borrowed. */
cs_status cs_outline_check(const cs_piece *pieces, int64_t count);
int cs_outline_folder(const char *folder); /* -1: no such folder */

/* `empty` are tensors without elements that this rank writes for all. */
void cs_outline_open(cs_outline *outline, const cs_piece *pieces, int64_t count, const cs_piece *empty,
                     int64_t empty_count);
void cs_outline_close(cs_outline *outline);

#endif
