/* shards.c - writes a sequence of token shards of limited size. */
#include "data/shards.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = 64 }; /* size of the buffer for a shard's name without its folder */

cs_status ce_shards_folder(const char *path, size_t *made)
{
    char part[4096 - NAME_BYTES];
    *made = 0;
    if (strlen(path) >= sizeof part || !*path)
        return ce_fail(CS_BAD_CONFIG, "--output: the name of a folder has 1 to %zu bytes", sizeof part - 1);
    for (const char *end = path; *end;) {
        end = strchrnul(end + 1, '/');
        snprintf(part, sizeof part, "%.*s", (int)(end - path), path);
        if (mkdir(part, 0777) == 0)
            *made = *made ? *made : (size_t)(end - path);
        else if (errno != EEXIST)
            return ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot make this folder", part);
    }
    return CS_OK;
}

void ce_shards_remove_folder(const char *path, size_t made)
{
    char part[4096];
    for (size_t length = strlen(path); made && length >= made; length--)
        if (!path[length] || path[length] == '/') {
            snprintf(part, sizeof part, "%.*s", (int)length, path);
            rmdir(part);
        }
}

static void shard_path(char path[4096], const ce_shards *shards, int64_t number)
{
    if (shards->limit < INT64_MAX)
        snprintf(path, 4096, "%s/%s-%05" PRId64 ".bin", shards->folder, shards->name, number);
    else
        snprintf(path, 4096, "%s/%s.bin", shards->folder, shards->name);
}

static cs_status end_shard(ce_shards *shards)
{
    char path[4096];
    ce_tokens_writer *writer = shards->writer;
    shards->writer = NULL;
    if (!writer)
        return CS_OK;
    shard_path(path, shards, shards->shards - 1);
    ce_places_remove(path); /* those of an earlier shard of this name */
    CE_TRY(ce_tokens_finish(writer));
    shards->complete++;
    return ce_places_write(&shards->places, path);
}

/* Ends a full shard and begins the next one, so that the open shard has space for another token. `within` is true if
 * the token belongs to a document that has tokens already. */
static cs_status make_room(ce_shards *shards, bool within)
{
    char path[4096];
    if (shards->writer && shards->in_shard < shards->limit)
        return CS_OK;
    bool repeats = within && shards->writer && shards->limit > 1;
    CE_TRY(end_shard(shards));
    shard_path(path, shards, shards->shards++);
    shards->in_shard = repeats;
    shards->documents = 0;
    CE_TRY(ce_tokens_create(&shards->writer, path, shards->vocab_size));
    if (repeats)
        ce_places_add(&shards->places, 0, shards->text, shards->line);
    return ce_tokens_append_masked(shards->writer, &shards->last, NULL, repeats);
}

cs_status ce_shards_document(ce_shards *shards, int64_t length, const char *text, int64_t line)
{
    if (shards->in_shard > 0 && length > shards->limit - shards->in_shard)
        CE_TRY(end_shard(shards));
    CE_TRY(make_room(shards, false));
    shards->text = text;
    shards->line = line;
    ce_places_add(&shards->places, ++shards->documents, text, line);
    ce_tokens_document(shards->writer);
    return CS_OK;
}

cs_status ce_shards_append(ce_shards *shards, const int32_t *tokens, const bool *learnt, int64_t count)
{
    for (int64_t done = 0; done < count;) {
        CE_TRY(make_room(shards, true));
        int64_t left = shards->limit - shards->in_shard, part = count - done < left ? count - done : left;
        CE_TRY(ce_tokens_append_masked(shards->writer, tokens + done, learnt ? learnt + done : NULL, part));
        shards->last = tokens[done + part - 1];
        shards->in_shard += part;
        shards->total += part;
        done += part;
    }
    return CS_OK;
}

/* Removes a shard, what a killed process has left of it, and its places. Returns false if there was no shard. */
static bool remove_shard(const ce_shards *shards, int64_t number)
{
    char path[4096];
    shard_path(path, shards, number);
    ce_places_remove(path);
    ce_tokens_remove_temporary(path);
    return unlink(path) == 0;
}

cs_status ce_shards_finish(ce_shards *shards)
{
    CE_TRY(end_shard(shards));
    if (shards->limit < INT64_MAX || shards->shards == 0)
        for (int64_t stale = shards->shards; remove_shard(shards, stale);)
            stale++;
    return CS_OK;
}

void ce_shards_remove(ce_shards *shards)
{
    ce_places_free(&shards->places);
    ce_tokens_abandon(shards->writer);
    shards->writer = NULL;
    for (int64_t i = 0; i < shards->complete; i++)
        remove_shard(shards, i);
}
