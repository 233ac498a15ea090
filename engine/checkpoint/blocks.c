/* blocks.c - reads and verifies the blocks of a shard, each of which has its own CRC32C. */
#include "checkpoint/blocks.h"
#include "base/must.h"
#include "base/crc.h"
#include "base/files.h"
#include "checkpoint/shardfile.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int64_t chunk_bytes(const ce_block *block)
{
    return block->chunk->count * (int64_t)cs_dtype_bytes(block->manifest->tensors[block->chunk->tensor].dtype);
}

int64_t ce_blocks_count(const ce_block *block)
{
    return (chunk_bytes(block) + CE_SHARDFILE_BLOCK - 1) / CE_SHARDFILE_BLOCK;
}

size_t ce_blocks_bytes(const ce_block *block)
{
    int64_t left = chunk_bytes(block) - block->index * CE_SHARDFILE_BLOCK;
    return (size_t)(left < CE_SHARDFILE_BLOCK ? left : CE_SHARDFILE_BLOCK);
}

static int64_t first_byte(const ce_block *block)
{
    return block->chunk->offset + block->index * CE_SHARDFILE_BLOCK;
}

cs_status ce_blocks_verify(const ce_block *block, uint32_t crc)
{
    uint32_t wanted = block->chunks->crcs[block->chunk->crc + block->index];
    int64_t from = first_byte(block);
    if (crc == wanted)
        return CS_OK;
    return ce_fail(CS_BAD_FILE,
                   "%s: block %lld of tensor %s (bytes %lld to %lld of the file) has CRC32C %08x where the header "
                   "says %08x: the file is damaged",
                   block->path, (long long)block->index, block->manifest->tensors[block->chunk->tensor].name,
                   (long long)from, (long long)from + (long long)ce_blocks_bytes(block), (unsigned)crc,
                   (unsigned)wanted);
}

cs_status ce_blocks_read_part(void *buffer, const ce_block *block, size_t offset, size_t bytes)
{
    return ce_files_read_at(block->descriptor, buffer, bytes, first_byte(block) + (int64_t)offset, block->path);
}

cs_status ce_blocks_read(void *buffer, const ce_block *block)
{
    size_t bytes = ce_blocks_bytes(block);
    CE_TRY(ce_blocks_read_part(buffer, block, 0, bytes));
    return ce_blocks_verify(block, ce_crc32c(0, buffer, bytes));
}

/* Computes the checksum of a block through a memory mapping. MADV_POPULATE_READ reports a page that cannot be read;
 * without it such a page would end the process by SIGBUS. Returns false if mapping or reading failed. */
static bool map_and_sum(uint32_t *crc, const ce_block *block)
{
    size_t bytes = ce_blocks_bytes(block), lead = (size_t)(first_byte(block) % sysconf(_SC_PAGESIZE));
    char *map =
        mmap(NULL, lead + bytes, PROT_READ, MAP_SHARED, block->descriptor, (off_t)(first_byte(block) - (int64_t)lead));
    if (map == MAP_FAILED)
        return false;
    madvise(map, lead + bytes, MADV_SEQUENTIAL); /* the result is ignored, because this is only a hint to read ahead */
    bool there = madvise(map, lead + bytes, MADV_POPULATE_READ) == 0;
    if (there)
        *crc = ce_crc32c(0, map + lead, bytes);
    munmap(map, lead + bytes);
    return there;
}

cs_status ce_blocks_check(const ce_block *block)
{
    uint32_t crc;
    if (map_and_sum(&crc, block))
        return ce_blocks_verify(block, crc);
    CE_FREED void *buffer = ce_must_alloc(ce_blocks_bytes(block));
    return ce_blocks_read(buffer, block);
}
