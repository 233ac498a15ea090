/* blocks.c - the blocks of a shard's chunks, each under one checksum. */
#include "checkpoint/blocks.h"
#include "base/crc.h"
#include "checkpoint/files.h"
#include "checkpoint/shardfile.h"

static int64_t chunk_bytes(const cs_block *block)
{
    return block->chunk->count * (int64_t)cs_dtype_bytes(block->manifest->tensors[block->chunk->tensor].dtype);
}

int64_t cs_blocks_count(const cs_block *block)
{
    return (chunk_bytes(block) + CS_SHARDFILE_BLOCK - 1) / CS_SHARDFILE_BLOCK;
}

size_t cs_blocks_bytes(const cs_block *block)
{
    int64_t left = chunk_bytes(block) - block->index * CS_SHARDFILE_BLOCK;
    return (size_t)(left < CS_SHARDFILE_BLOCK ? left : CS_SHARDFILE_BLOCK);
}

cs_status cs_blocks_read(void *buffer, const cs_block *block, bool verify)
{
    size_t  bytes = cs_blocks_bytes(block);
    int64_t from  = block->chunk->offset + block->index * CS_SHARDFILE_BLOCK;
    CS_TRY(cs_files_read_at(block->descriptor, buffer, bytes, from, block->path));
    uint32_t wanted = block->chunks->crcs[block->chunk->crc + block->index];
    uint32_t crc    = verify ? cs_crc32c(0, buffer, bytes) : wanted;
    if (crc == wanted)
        return CS_OK;
    return cs_fail(CS_BAD_FILE,
                   "%s: block %lld of tensor %s (bytes %lld to %lld of the file) has CRC32C %08x where the header "
                   "says %08x: the file is damaged",
                   block->path, (long long)block->index, block->manifest->tensors[block->chunk->tensor].name,
                   (long long)from, (long long)from + (long long)bytes, (unsigned)crc, (unsigned)wanted);
}
