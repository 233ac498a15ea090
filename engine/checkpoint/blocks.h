/* blocks.h - the blocks of a shard's chunks, each under one checksum. */
#ifndef CS_CHECKPOINT_BLOCKS_H
#define CS_CHECKPOINT_BLOCKS_H

#include "checkpoint/chunks.h"

/* Block number `index` of a chunk of manifest->files[chunk->file], open as `descriptor`. */
typedef struct {
    const cs_manifest *manifest;
    const cs_chunks *chunks;
    const cs_chunk *chunk;
    int64_t index;
    int descriptor;
    const char *path;
} cs_block;

int64_t cs_blocks_count(const cs_block *block); /* of the chunk */
size_t cs_blocks_bytes(const cs_block *block);  /* of this block: CS_SHARDFILE_BLOCK but for the last */

/* Puts it into `buffer`, held to its checksum. */
cs_status cs_blocks_read(void *buffer, const cs_block *block);

/* The same in parts, of which the reader sums up the checksum: the bytes behind `offset`, then the judgement.
 * CS_BAD_FILE names file, tensor and block when its checksum is another. */
cs_status cs_blocks_part(void *buffer, const cs_block *block, size_t offset, size_t bytes);
cs_status cs_blocks_judge(const cs_block *block, uint32_t crc);

/* Only looks whether it is whole: where the system can, in the page cache itself, without a copy. */
cs_status cs_blocks_check(const cs_block *block);

#endif
