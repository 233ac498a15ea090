/* audit.c - verifies every byte of a checkpoint against its checksums. */
#include "checkpoint/audit.h"
#include "base/must.h"
#include "checkpoint/blocks.h"
#include "base/progress.h"
#include "base/thread_pool.h"
#include "base/files.h"
#include "checkpoint/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Counts a failed status as a fault and reports its message. Checking then continues. */
static bool good(ce_audit *audit, cs_status status)
{
    if (status == CS_OK)
        return true;
    audit->faults++;
    audit->refused += status == CS_IO_ERROR;
    audit->fault(audit->to, cs_error());
    return false;
}

/* All blocks of one file, and the message of each damaged block. */
typedef struct {
    ce_block *blocks;
    char **faults;
    bool *refused; /* for each block: whether the system refused the read */
    int64_t count;
    ce_progress *progress;
} block_list;

/* A task of the thread pool: checks block number `index`. It returns CS_OK for a damaged block too, so that the other
 * blocks are still checked. */
static cs_status check_block(void *argument, int64_t index)
{
    const block_list *s = argument;
    cs_status status = ce_blocks_check(&s->blocks[index]);
    ce_progress_add(s->progress, (int64_t)ce_blocks_bytes(&s->blocks[index]));
    if (status == CS_OK)
        return CS_OK;
    s->refused[index] = status == CS_IO_ERROR;
    s->faults[index] = ce_must_copy(cs_error());
    return CS_OK;
}

static void list_blocks(block_list *s, ce_block block)
{
    const ce_chunks *chunks = block.chunks;
    for (int64_t i = 0; i < chunks->count; i++) {
        block.chunk = &chunks->chunks[i];
        s->count += ce_blocks_count(&block);
    }
    s->blocks = ce_must_alloc((size_t)s->count * sizeof *s->blocks);
    s->faults = ce_must_alloc((size_t)s->count * sizeof *s->faults);
    s->refused = ce_must_alloc((size_t)s->count * sizeof *s->refused);
    int64_t at = 0;
    for (int64_t i = 0; i < chunks->count; i++) {
        block.chunk = &chunks->chunks[i];
        for (block.index = 0; block.index < ce_blocks_count(&block); block.index++)
            s->blocks[at++] = block;
    }
}

static void check_blocks(ce_audit *audit, const ce_manifest *manifest, const ce_chunks *chunks, const char *path,
                         ce_progress *progress)
{
    block_list all = { .progress = progress };
    ce_block block = { .manifest = manifest, .chunks = chunks, .path = path };
    if (!good(audit, ce_files_open(&block.descriptor, path)))
        return;
    list_blocks(&all, block);
    ce_thread_pool_run(audit->threads, all.count, check_block, &all);
    for (int64_t i = 0; i < all.count; i++)
        if (all.faults[i]) {
            audit->faults++;
            audit->refused += all.refused[i];
            audit->fault(audit->to, all.faults[i]);
            free(all.faults[i]);
        }
    audit->blocks += all.count;
    free(all.blocks);
    free(all.refused);
    free(all.faults);
    close(block.descriptor);
}

static void check_file(ce_audit *audit, const ce_manifest *manifest, int64_t index, const char *directory,
                       ce_progress *progress)
{
    const ce_manifest_file *file = &manifest->files[index];
    CE_CLOSED(ce_chunks_close) ce_chunks chunks = { 0 };
    CE_FREED char *path = ce_files_join(directory, file->name);
    CE_FREED char *header = NULL;
    size_t header_bytes;
    int64_t bytes;
    cs_status status = ce_safetensors_load(&header, &header_bytes, &bytes, path);
    status = ce_manifest_file_status(file, path, status, bytes);
    audit->files++;
    audit->bytes += bytes;
    if (status == CS_OK)
        status = ce_chunks_add(&chunks, manifest, index, header, header_bytes, directory);
    ce_progress_add(progress, status == CS_OK ? (int64_t)header_bytes : file->bytes);
    if (good(audit, status))
        check_blocks(audit, manifest, &chunks, path, progress);
}

void ce_audit_shards(ce_audit *audit, const ce_manifest *manifest, const char *directory, int part, int parts)
{
    ce_progress progress;
    int64_t bytes = 0;
    for (int64_t i = part; i < manifest->file_count; i += parts)
        bytes += manifest->files[i].bytes;
    ce_progress_begin(&progress, "verifying", NULL, bytes);
    for (int64_t i = part; i < manifest->file_count; i += parts)
        check_file(audit, manifest, i, directory, &progress);
    ce_progress_end(&progress);
}

/* Checks that the boxes in the headers of all shards cover each tensor exactly once. */
static cs_status check_coverage(const ce_manifest *manifest, const char *directory)
{
    CE_CLOSED(ce_chunks_close) ce_chunks chunks = { 0 };
    for (int64_t i = 0; i < manifest->file_count; i++) {
        CE_FREED char *path = ce_files_join(directory, manifest->files[i].name);
        CE_FREED char *header = NULL;
        size_t header_bytes;
        int64_t bytes;
        CE_TRY(ce_safetensors_load(&header, &header_bytes, &bytes, path));
        CE_TRY(ce_chunks_add(&chunks, manifest, i, header, header_bytes, directory));
    }
    return ce_chunks_check(&chunks, manifest, directory);
}

void ce_audit_directory(ce_audit *audit, const char *directory)
{
    static const char *const texts[] = { CE_CLIENT_STATE_FILE, CE_CONFIG_FILE };
    ce_manifest manifest;
    if (good(audit, ce_manifest_load(&manifest, directory))) {
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            CE_FREED char *text = NULL;
            size_t length;
            good(audit, ce_manifest_read_text(&text, &length, &manifest, directory, texts[i]));
        }
        ce_audit_shards(audit, &manifest, directory, 0, 1);
        if (audit->faults == 0)
            good(audit, check_coverage(&manifest, directory));
    }
    ce_manifest_close(&manifest);
}
