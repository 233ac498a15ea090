/* reader.c - all ranks open one checkpoint directory: manifest, headers, client state.
 *
 * Rank 0 reads the manifest; the headers are divided among the ranks. Each text is read from the file system once and
 * broadcast. */
#include "checkpoint/reader.h"
#include "checkpoint/not_found.h"
#include "comm/collective_status.h"
#include "checkpoint/audit.h"
#include "base/files.h"
#include "checkpoint/safetensors.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

/* Reads the manifest's text on rank 0 and checks that the files that it lists exist. */
static cs_status read_manifest(char **text, size_t *length, const char *directory)
{
    CE_CLOSED(ce_manifest_close) ce_manifest manifest = { 0 };
    CE_FREED char *path = ce_files_join(directory, CE_MANIFEST_FILE);
    cs_status status = ce_files_read(text, length, path, CE_MANIFEST_LIMIT);
    if (status == CS_NOT_FOUND)
        status = ce_not_found_manifest(directory);
    if (status == CS_OK)
        status = ce_manifest_parse(&manifest, *text, *length, path);
    if (status == CS_OK)
        status = ce_manifest_check_files(&manifest, directory);
    return status;
}

static cs_status share_manifest(ce_checkpoint_reader *reader, cs_comm *comm)
{
    CE_FREED char *text = NULL;
    size_t length = 0;
    cs_status status = CS_OK;
    if (cs_comm_rank(comm) == 0)
        status = read_manifest(&text, &length, reader->path);
    status = ce_collective_status(comm, status);
    if (status == CS_OK) {
        ce_collective_text(comm, &text, &length, 0);
        status = ce_collective_status(comm, ce_manifest_parse(&reader->manifest, text, length, reader->path));
    }
    return status;
}

typedef struct {
    char *text;
    size_t bytes;
} block;

/* Reads the header blocks of this rank's share of the files. */
static cs_status read_blocks(block *blocks, const ce_checkpoint_reader *reader, cs_comm *comm)
{
    for (int64_t i = cs_comm_rank(comm); i < reader->manifest.file_count; i += cs_comm_size(comm)) {
        const ce_manifest_file *file = &reader->manifest.files[i];
        CE_FREED char *path = ce_files_join(reader->path, file->name);
        int64_t bytes;
        cs_status status = ce_safetensors_load(&blocks[i].text, &blocks[i].bytes, &bytes, path);
        status = ce_manifest_file_status(file, path, status, bytes);
        CE_TRY(status);
    }
    return CS_OK;
}

static cs_status add_blocks(ce_checkpoint_reader *reader, cs_comm *comm, block *blocks)
{
    cs_status status = CS_OK;
    for (int64_t i = 0; i < reader->manifest.file_count; i++) {
        ce_collective_text(comm, &blocks[i].text, &blocks[i].bytes, (int)(i % cs_comm_size(comm)));
        if (status == CS_OK)
            status =
                ce_chunks_add(&reader->chunks, &reader->manifest, i, blocks[i].text, blocks[i].bytes, reader->path);
        free(blocks[i].text);
        blocks[i].text = NULL;
    }
    if (status == CS_OK)
        status = ce_chunks_check(&reader->chunks, &reader->manifest, reader->path);
    return ce_collective_status(comm, status);
}

static cs_status share_headers(ce_checkpoint_reader *reader, cs_comm *comm)
{
    CE_FREED block *blocks = ce_must_alloc((size_t)reader->manifest.file_count * sizeof *blocks);
    cs_status status = ce_collective_status(comm, read_blocks(blocks, reader, comm));
    if (status == CS_OK)
        status = add_blocks(reader, comm, blocks);
    for (int64_t i = 0; i < reader->manifest.file_count; i++)
        free(blocks[i].text);
    return status;
}

static cs_status share_client_state(ce_checkpoint_reader *reader, cs_comm *comm)
{
    size_t length = 0;
    cs_status status = CS_OK;
    if (reader->manifest.client_state.bytes < 0)
        return CS_OK;
    if (cs_comm_rank(comm) == 0)
        status = ce_manifest_read_text(&reader->client_state, &length, &reader->manifest, reader->path,
                                       CE_CLIENT_STATE_FILE);
    CE_TRY(ce_collective_status(comm, status));
    ce_collective_text(comm, &reader->client_state, &length, 0);
    return CS_OK;
}

static void keep_first(void *to, const char *sentence)
{
    char **first = to;
    if (!*first)
        *first = ce_must_copy(sentence);
}

/* Verifies all blocks of this rank's share of the files, before any block is used. */
static cs_status verify_blocks(const ce_checkpoint_reader *reader, cs_comm *comm)
{
    CE_FREED char *first = NULL;
    ce_audit audit = { .fault = keep_first, .to = &first };
    ce_audit_shards(&audit, &reader->manifest, reader->path, cs_comm_rank(comm), cs_comm_size(comm));
    cs_status status =
        audit.faults == 0 ? CS_OK : ce_fail(audit.refused == audit.faults ? CS_IO_ERROR : CS_BAD_FILE, "%s", first);
    return status;
}

cs_status ce_reader_open(ce_checkpoint_reader *reader, cs_comm *comm, const char *dir, const char *name)
{
    reader->path = ce_files_join(dir, name);
    CE_TRY(share_manifest(reader, comm));
    CE_TRY(share_headers(reader, comm));
    if (reader->reading.verify == CE_VERIFY_FULL)
        CE_TRY(ce_collective_status(comm, verify_blocks(reader, comm)));
    return share_client_state(reader, comm);
}

void ce_reader_close(ce_checkpoint_reader *reader)
{
    ce_manifest_close(&reader->manifest);
    ce_chunks_close(&reader->chunks);
    free(reader->client_state);
    free(reader->path);
    *reader = (ce_checkpoint_reader){ .reading = reader->reading, .search = reader->search };
}
