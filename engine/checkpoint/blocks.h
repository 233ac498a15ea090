/* blocks.h - reads and verifies the blocks of a shard: each chunk is divided into blocks of CE_SHARDFILE_BLOCK bytes,
 * each with its own CRC32C. */
#ifndef CE_CHECKPOINT_BLOCKS_H
#define CE_CHECKPOINT_BLOCKS_H

#include "checkpoint/chunks.h"

/* Block number `index` of `chunk`. `descriptor` is the open file manifest->files[chunk->file], and `path` the name of
 * this file in messages. All pointers are borrowed. */
typedef struct {
    const ce_manifest *manifest;
    const ce_chunks *chunks;
    const ce_chunk *chunk;
    int64_t index;
    int descriptor;
    const char *path;
} ce_block;

int64_t ce_blocks_count(const ce_block *block); /* returns the number of blocks of the chunk */
/* Returns the bytes of the block: CE_SHARDFILE_BLOCK, or less for the last block of the chunk. */
size_t ce_blocks_bytes(const ce_block *block);

/* Reads the whole block into `buffer` and verifies its checksum. */
cs_status ce_blocks_read(void *buffer, const ce_block *block);

/* Read and verify a block in parts. ce_blocks_read_part reads `bytes` bytes from `offset` of the block. The caller
 * computes the CRC32C of all parts in order. ce_blocks_verify compares this CRC with the block's CRC in the header, and
 * returns CS_BAD_FILE if they differ; the message names file, tensor and block. */
cs_status ce_blocks_read_part(void *buffer, const ce_block *block, size_t offset, size_t bytes);
cs_status ce_blocks_verify(const ce_block *block, uint32_t crc);

/* Verifies the checksum of a block without returning the block's data. Reads through a memory mapping if the system
 * allows a mapping, so that the data is not copied out of the page cache. */
cs_status ce_blocks_check(const ce_block *block);

#endif
