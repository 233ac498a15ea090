/* tokens_write.c - writes token shard files. */
#include "data/tokens_form.h"
#include "data/tokens.h"
#include "base/must.h"
#include "checkpoint/staging.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

struct ce_tokens_writer {
    FILE *file;
    char *path, *temporary;
    ce_tokens_header header;
    uint64_t *starts;
    size_t start_capacity;
    bool masked;            /* True if some token is not a target. */
    unsigned char *learnt;  /* The mask has one bit for each token. */
    uint64_t mask_capacity; /* capacity of the mask, in tokens */
};

static cs_status put(ce_tokens_writer *writer, const void *bytes, size_t size)
{
    if (size > 0 && fwrite(bytes, 1, size, writer->file) != size)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot write", writer->temporary);
    return CS_OK;
}

static void free_writer(ce_tokens_writer *writer)
{
    if (writer->file)
        fclose(writer->file);
    free(writer->path);
    free(writer->temporary);
    free(writer->starts);
    free(writer->learnt);
    free(writer);
}

void ce_tokens_remove_temporary(const char *path)
{
    CE_FREED char *name = ce_must_print("%s.tmp", path);
    if (!ce_staging_is_locked(name))
        unlink(name);
}

static cs_status build_writer(ce_tokens_writer *writer, const char *path, int64_t vocab_size)
{
    writer->path = ce_must_copy(path);
    writer->temporary = ce_must_print("%s.tmp", path);
    if (ce_staging_is_locked(writer->temporary))
        return ce_fail(CS_IO_ERROR, "another process writes %s: wait until it has ended, or name another folder", path);
    unlink(writer->temporary);
    writer->file = fopen(writer->temporary, "wex");
    if (!writer->file)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot create this file", writer->temporary);
    flock(fileno(writer->file), LOCK_EX | LOCK_NB); /* an error is ignored: some file systems have no locks */
    memcpy(writer->header.magic, CE_TOKENS_MAGIC, sizeof writer->header.magic);
    writer->header.version = 1;
    writer->header.token_bytes = vocab_size <= 65536 ? 2 : 4;
    writer->header.vocab_size = (uint64_t)vocab_size;
    return put(writer, &writer->header, sizeof writer->header);
}

cs_status ce_tokens_create(ce_tokens_writer **writer, const char *path, int64_t vocab_size)
{
    *writer = NULL;
    if (vocab_size < 1 || vocab_size > CE_TOKENS_MAX_VOCAB)
        return ce_fail(CS_BAD_CONFIG, "%s: vocabulary size is %" PRId64 ", not 1 to %d", path, vocab_size,
                       CE_TOKENS_MAX_VOCAB);
    ce_tokens_writer *made = ce_must_alloc(sizeof *made);
    cs_status status = build_writer(made, path, vocab_size);
    if (status == CS_OK)
        *writer = made;
    else
        ce_tokens_abandon(made);
    return status;
}

/* Writes up to CHUNK tokens in the token size of the file. The caller has checked the tokens. */
enum { CHUNK = 4096 };

static cs_status put_chunk(ce_tokens_writer *writer, const int32_t *tokens, int64_t count)
{
    uint16_t narrow[CHUNK];
    if (writer->header.token_bytes == 4)
        return put(writer, tokens, (size_t)count * sizeof *tokens);
    for (int64_t i = 0; i < count; i++)
        narrow[i] = (uint16_t)tokens[i];
    return put(writer, narrow, (size_t)count * sizeof *narrow);
}

/* Appends the mask bits of the next `count` tokens. */
static void put_mask(ce_tokens_writer *writer, const bool *learnt, int64_t count)
{
    uint64_t first = writer->header.count, end = first + (uint64_t)count;
    if (end > writer->mask_capacity) {
        uint64_t capacity = 2 * end / 64 * 64 + 64;
        writer->learnt = ce_must_resize(writer->learnt, capacity / 8);
        memset(writer->learnt + writer->mask_capacity / 8, 0, (capacity - writer->mask_capacity) / 8);
        writer->mask_capacity = capacity;
    }
    for (uint64_t i = first; i < end; i++) {
        bool is_learnt = !learnt || learnt[i - first];
        writer->learnt[i / 8] |= (unsigned char)(is_learnt << i % 8);
        writer->masked |= !is_learnt;
    }
}

cs_status ce_tokens_append_masked(ce_tokens_writer *writer, const int32_t *tokens, const bool *learnt, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (uint64_t)tokens[i] >= writer->header.vocab_size)
            return ce_fail(CS_BAD_FILE, "%s: token %" PRId32 " is not in a vocabulary of %" PRIu64, writer->path,
                           tokens[i], writer->header.vocab_size);
    put_mask(writer, learnt, count);
    for (int64_t from = 0; from < count; from += CHUNK)
        CE_TRY(put_chunk(writer, tokens + from, count - from < CHUNK ? count - from : CHUNK));
    writer->header.count += (uint64_t)count;
    return CS_OK;
}

void ce_tokens_document(ce_tokens_writer *writer)
{
    CE_MUST_HOLD(writer->starts, writer->start_capacity, writer->header.documents + 1);
    writer->starts[writer->header.documents++] = writer->header.count;
}

/* Writes the folder's entry for the file to the disk. A renamed file survives a crash of the process. Once the file and
 * the folder are on the disk, the file also survives a crash of the machine. */
static void sync_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    CE_FREED char *folder = slash ? ce_must_copy_part(path, (size_t)(slash - path) + 1) : ce_must_copy(".");
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file >= 0) {
        fsync(file);
        close(file);
    }
}

static cs_status complete(ce_tokens_writer *writer)
{
    static const char zeros[8];
    ce_tokens_header *header = &writer->header;
    uint64_t end = sizeof *header + header->count * header->token_bytes;
    header->index_offset = (uint64_t)ce_round_up((int64_t)end, 8);
    CE_TRY(put(writer, zeros, header->index_offset - end));
    CE_TRY(put(writer, writer->starts, header->documents * sizeof *writer->starts));
    if (writer->masked) {
        header->mask_offset = header->index_offset + header->documents * sizeof *writer->starts;
        CE_TRY(put(writer, writer->learnt, ce_tokens_mask_bytes(header)));
    }
    if (fseeko(writer->file, 0, SEEK_SET) != 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot seek to its header", writer->temporary);
    CE_TRY(put(writer, header, sizeof *header));
    if (fflush(writer->file) != 0 || fsync(fileno(writer->file)) != 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot write", writer->temporary);
    if (rename(writer->temporary, writer->path) != 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot be renamed to its final name", writer->path);
    sync_folder(writer->path);
    return CS_OK;
}

cs_status ce_tokens_finish(ce_tokens_writer *writer)
{
    cs_status status = complete(writer);
    if (status == CS_OK)
        free_writer(writer);
    else
        ce_tokens_abandon(writer);
    return status;
}

void ce_tokens_abandon(ce_tokens_writer *writer)
{
    if (!writer)
        return;
    if (writer->file)
        unlink(writer->temporary);
    free_writer(writer);
}
