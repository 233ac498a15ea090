/* save.c - the stages of a checkpoint save, and the deletion of old checkpoints. */
#include "checkpoint/save.h"
#include "base/must.h"
#include "base/crc.h"
#include "base/log.h"
#include "comm/collective_status.h"
#include "base/thread_pool.h"
#include "base/files.h"
#include "checkpoint/line.h"
#include "checkpoint/manifest.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

static cs_status make_id(char id[CE_SHARDFILE_ID])
{
    uint8_t byte[16];
    if (getrandom(byte, sizeof byte, 0) != sizeof byte)
        return ce_fail_errno(CS_IO_ERROR, errno,
                             "checkpoint: the system provides no random number for the identification of a save");
    byte[6] = (uint8_t)(0x40 | (byte[6] & 0x0f)); /* these two bytes mark a UUID of version 4 */
    byte[8] = (uint8_t)(0x80 | (byte[8] & 0x3f));
    for (int i = 0, at = 0; i < 16; i++)
        at += snprintf(id + at, (size_t)(CE_SHARDFILE_ID - at), "%s%02x",
                       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", byte[i]);
    return CS_OK;
}

/* Gathers the numbers of files and bytes that each rank writes, and computes their sums. */
static cs_status count_all(ce_save *s)
{
    ce_save_volume mine = { .bytes = s->plan.data_bytes };
    memcpy(mine.files, s->plan.files_in, sizeof mine.files);
    s->volumes = ce_must_alloc((size_t)s->size * sizeof *s->volumes);
    cs_comm_all_gather(s->comm, s->volumes, &mine, sizeof mine, CS_U8);
    for (int rank = 0; rank < s->size; rank++) {
        s->total.bytes += s->volumes[rank].bytes;
        for (int folder = 0; folder < CE_WRITE_PLAN_FOLDERS; folder++)
            s->total.files[folder] += s->volumes[rank].files[folder];
    }
    for (int folder = 0; folder < CE_WRITE_PLAN_FOLDERS; folder++)
        if (s->total.files[folder] > 99999)
            return ce_fail(CS_UNSUPPORTED, "checkpoint: %lld files would be in %s, and at most 99999 are possible",
                           (long long)s->total.files[folder], ce_write_plan_folders[folder]);
    return CS_OK;
}

/* The three times in a save at which damaged directories are renamed. NO_CHECKPOINT is the start of the save:
 * directories without a manifest are renamed, because they would block a save under their tag. TAG_IS_TAKEN is just
 * before the new checkpoint takes its tag: a damaged checkpoint with the same tag is renamed. THE_REST is after
 * `latest` names another checkpoint: all other damaged directories are renamed. */
typedef enum { NO_CHECKPOINT, TAG_IS_TAKEN, THE_REST } occasion;

static cs_status set_aside(const ce_save *s, occasion now)
{
    for (size_t i = 0; i < json_array_size(s->content->damaged); i++) {
        const char *name = json_string_value(json_array_get(s->content->damaged, i));
        CE_FREED char *path = ce_files_join(s->dir, name);
        occasion its = !ce_files_holds(path, CE_MANIFEST_FILE) ? NO_CHECKPOINT
                       : strcmp(name, s->staging.name) == 0    ? TAG_IS_TAKEN
                                                               : THE_REST;
        if (its == now)
            CE_TRY(ce_staging_set_aside(s->dir, name));
    }
    return CS_OK;
}

static cs_status make_staging(ce_save *s)
{
    CE_TRY(make_id(s->save_id));
    CE_TRY(set_aside(s, NO_CHECKPOINT));
    CE_TRY(ce_staging_open(&s->staging, s->dir, s->content->tag, s->save_id, s->total.bytes));
    for (int folder = 0; folder < CE_WRITE_PLAN_FOLDERS; folder++) {
        if (s->total.files[folder] == 0)
            continue;
        CE_FREED char *path = ce_files_join(s->staging.path, ce_write_plan_folders[folder]);
        CE_TRY(ce_files_make_directory(path));
    }
    return ce_files_sync_directory(s->staging.path);
}

/* Broadcasts the path of the staging directory and the save id from rank 0. */
static void share_staging(ce_save *s)
{
    size_t length = s->rank == 0 ? strlen(s->staging.path) : 0;
    s->path = s->staging.path;
    ce_collective_text(s->comm, &s->path, &length, 0);
    cs_comm_broadcast(s->comm, s->save_id, CE_SHARDFILE_ID, CS_U8, 0);
}

/* Returns a file's name, such as "weights/shard-00001-of-00003.safetensors". Files are numbered by rank, and within a
 * rank in the order of its write plan. */
static void file_name(char name[96], const ce_save *s, int rank, int folder, int64_t index)
{
    int64_t number = index + 1;
    for (int i = 0; i < rank; i++)
        number += s->volumes[i].files[folder];
    snprintf(name, 96, "%s/shard-%05lld-of-%05lld.safetensors", ce_write_plan_folders[folder], (long long)number,
             (long long)s->total.files[folder]);
}

/* A task of the thread pool: writes this rank's file number `index`. */
static cs_status write_file(void *argument, int64_t index)
{
    ce_save *s = argument;
    const ce_write_plan_file *file = &s->plan.files[index];
    int64_t before = 0;
    char name[96];
    for (int64_t i = 0; i < index; i++)
        before += s->plan.files[i].folder == file->folder;
    file_name(name, s, s->rank, file->folder, before);
    CE_FREED char *path = ce_files_join(s->path, name);
    return ce_shardfile_write(&s->records[index], path, file, s->save_id, s->content);
}

cs_status ce_save_write(ce_save *s)
{
    s->records = ce_must_alloc((size_t)s->plan.file_count * sizeof *s->records);
    CE_TRY(ce_thread_pool_run(s->content->writing.threads, s->plan.file_count, write_file, s));
    for (int folder = 0; folder < CE_WRITE_PLAN_FOLDERS; folder++) {
        if (s->plan.files_in[folder] == 0)
            continue;
        CE_FREED char *path = ce_files_join(s->path, ce_write_plan_folders[folder]);
        CE_TRY(ce_files_sync_directory(path));
    }
    return CS_OK;
}

/* Adds a file to the list in the manifest. Before that, rank 0 checks that the file exists with the length that the
 * writing rank reported. */
static cs_status list_file(const ce_save *s, json_t *files, const ce_shardfile_record *record, const char *name,
                           int writer)
{
    char digits[9];
    int64_t bytes = -1;
    CE_FREED char *path = ce_files_join(s->path, name);
    bool seen = ce_files_size(&bytes, path) == CS_OK && bytes == record->bytes;
    if (!seen)
        ce_fail(CS_IO_ERROR,
                "rank %d wrote %s, but rank 0 does not see this file: the folder must be on a file system that all "
                "hosts share",
                writer, path);
    snprintf(digits, sizeof digits, "%08x", (unsigned)record->header_crc);
    json_array_append_new(files, json_pack("{s:s, s:I, s:s, s:i}", "name", name, "bytes", (json_int_t)record->bytes,
                                           "header_crc32c", digits, "writer", writer));
    return seen ? CS_OK : CS_IO_ERROR;
}

static cs_status list_files(const ce_save *s, json_t *files, const ce_shardfile_record *records)
{
    for (int rank = 0; rank < s->size; rank++) {
        for (int folder = 0; folder < CE_WRITE_PLAN_FOLDERS; folder++) {
            for (int64_t i = 0; i < s->volumes[rank].files[folder]; i++) {
                char name[96];
                file_name(name, s, rank, folder, i);
                CE_TRY(list_file(s, files, records++, name, rank));
            }
        }
    }
    return CS_OK;
}

static cs_status write_text(const ce_save *s, const char *name, const char *text)
{
    if (!text)
        return CS_OK;
    CE_FREED char *path = ce_files_join(s->path, name);
    return ce_files_write(path, text, strlen(text));
}

/* Writes the manifest under a temporary name and renames it, so that a manifest that exists is complete. */
static cs_status write_manifest(ce_save *s, json_t *files)
{
    ce_line_shorten(s->content->line, s->dir);
    CE_FREED char *text = ce_manifest_text(s->content, s->save_id, s->coverage.tensors, files);
    CE_FREED char *path = ce_files_join(s->path, CE_MANIFEST_FILE);
    CE_FREED char *draft = ce_files_join(s->path, CE_MANIFEST_FILE ".tmp");
    cs_status status = ce_files_write(draft, text, strlen(text));
    if (status == CS_OK)
        status = ce_files_rename(draft, path);
    s->digest = ce_crc32c(0, text, strlen(text));
    return status;
}

void ce_save_gather(ce_save *s)
{
    CE_FREED int64_t *sizes = ce_must_alloc((size_t)s->size * sizeof *sizes);
    size_t bytes = (size_t)s->plan.file_count * sizeof *s->records;
    s->all = (ce_shardfile_record *)(void *)ce_collective_gather(s->comm, sizes, s->records, bytes);
}

static cs_status commit(ce_save *s)
{
    json_auto_t *files = json_array();
    CE_TRY(list_files(s, files, s->all));
    CE_TRY(write_text(s, CE_CLIENT_STATE_FILE, s->content->client_state));
    CE_TRY(write_text(s, CE_CONFIG_FILE, s->content->config_text));
    CE_TRY(write_manifest(s, files));
    CE_TRY(set_aside(s, TAG_IS_TAKEN));
    return ce_staging_commit(&s->staging);
}

/* ---- deleting old checkpoints ---- */

static bool is_own(const ce_catalog_item *item)
{
    char name[CE_TAG_BYTES];
    return ce_tag_escape(name, item->tag) == CS_OK && strcmp(name, item->name) == 0;
}

/* Returns true if the checkpoint is kept whatever its age. */
static bool is_kept(const ce_checkpoint_content *content, const char *latest, const ce_catalog_item *item)
{
    return strcmp(item->name, latest) == 0 || (content->keep_step > 0 && item->step == content->keep_step) ||
           (content->keep_every > 0 && item->step % content->keep_every == 0);
}

static cs_status prune_catalog(const ce_catalog *catalog, const char *dir, const char *latest,
                               const ce_checkpoint_content *content)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < catalog->count; i++) {
        const ce_catalog_item *item = &catalog->items[i];
        if (!is_own(item) || ce_line_is_abandoned(item))
            continue;
        if (kept++ < content->keep_last || is_kept(content, latest, item))
            continue;
        CE_TRY(ce_staging_discard(dir, item->name));
    }
    return CS_OK;
}

/* Deletes complete checkpoints of dir. If `keep_last` is 0, nothing is deleted. Six kinds of checkpoints are kept: the
 * `keep_last` newest checkpoints; if `keep_every` is not 0, those whose step is a multiple of `keep_every`; those of the
 * step `keep_step`; the checkpoint that dir/latest names; checkpoints of abandoned branches (line.h); and checkpoints whose directory the
 * user has renamed, so that the name of the directory is not the escaped form of the tag. */
static cs_status prune(const char *dir, const ce_checkpoint_content *content)
{
    char latest[CE_TAG_BYTES];
    CE_CLOSED(ce_catalog_close) ce_catalog catalog = { 0 };
    if (content->keep_last <= 0)
        return CS_OK;
    CE_TRY(ce_catalog_latest(latest, dir));
    CE_TRY(ce_catalog_open(&catalog, dir));
    ce_line_follow(&catalog, dir, latest);
    return prune_catalog(&catalog, dir, latest, content);
}

/* ---- commit ---- */

cs_status ce_save_commit(ce_save *s)
{
    if (s->rank != 0)
        return CS_OK;
    CE_TRY(commit(s));
    if (s->content->line)
        ce_line_add(s->content->line, s->content->tag, s->digest);
    bool aside = set_aside(s, THE_REST) == CS_OK;
    if (!aside)
        ce_log(CE_LOG_WARNING, "no old checkpoint is removed this time, because a damaged one could not be renamed: %s",
               cs_error());
    ce_staging_close(&s->staging);
    s->path = NULL;
    if (aside && prune(s->dir, s->content) != CS_OK)
        ce_log(CE_LOG_WARNING, "an old checkpoint could not be removed, and the next save tries again: %s", cs_error());
    return CS_OK;
}

static cs_status check_client_state(const char *text)
{
    json_error_t why;
    size_t length = text ? strlen(text) : 0;
    json_t *value = text ? json_loadb(text, length, JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &why) : NULL;
    json_decref(value);
    if (text && !value)
        return ce_fail(CS_BAD_CONFIG,
                       "checkpoint: the client state is not JSON text (line %d, column %d: %s), and nothing was "
                       "written; a plain text is JSON as a string in quotes",
                       why.line, why.column, why.text);
    if (length > CE_MANIFEST_LIMIT)
        return ce_fail(CS_BAD_CONFIG,
                       "checkpoint: a client state of %zu bytes; at most %d are allowed, and nothing was written",
                       length, CE_MANIFEST_LIMIT);
    return CS_OK;
}

static cs_status check_content(const ce_checkpoint_content *content)
{
    if (!content->tag)
        return ce_fail(CS_BAD_CONFIG, "checkpoint: the tag is missing");
    json_t *tag = json_string(content->tag);
    json_decref(tag);
    if (!tag)
        return ce_fail(CS_BAD_CONFIG, "checkpoint: the tag is not UTF-8");
    CE_TRY(check_client_state(content->client_state));
    return ce_write_plan_check(content->pieces, content->piece_count);
}

static cs_status open_all(ce_save *s)
{
    const ce_checkpoint_content *content = s->content;
    cs_status status = CS_OK;
    CE_TRY(ce_collective_status(s->comm, check_content(content)));
    CE_TRY(ce_coverage_open(&s->coverage, s->comm, content->pieces, content->piece_count));
    ce_write_plan_open(&s->plan, content->pieces, content->piece_count, s->coverage.empty, s->coverage.empty_count);
    CE_TRY(count_all(s));
    if (s->rank == 0)
        status = make_staging(s);
    CE_TRY(ce_collective_status(s->comm, status));
    share_staging(s);
    return CS_OK;
}

cs_status ce_save_open(ce_save *s, cs_comm *comm, const char *dir, const ce_checkpoint_content *content)
{
    *s = (ce_save){ .comm = comm,
                    .rank = cs_comm_rank(comm),
                    .size = cs_comm_size(comm),
                    .dir = dir,
                    .content = content,
                    .staging.lock = -1 };
    return open_all(s);
}

void ce_save_close(ce_save *s)
{
    if (s->rank == 0)
        ce_staging_close(&s->staging);
    else
        free(s->path);
    ce_coverage_close(&s->coverage);
    ce_write_plan_close(&s->plan);
    free(s->volumes);
    free(s->records);
    free(s->all);
}

cs_status ce_checkpoint_save(cs_comm *comm, const char *dir, const ce_checkpoint_content *content)
{
    ce_save s;
    cs_status status = ce_save_open(&s, comm, dir, content);
    if (status == CS_OK)
        status = ce_collective_status(comm, ce_save_write(&s));
    if (status == CS_OK) {
        ce_save_gather(&s);
        status = ce_collective_status(comm, ce_save_commit(&s));
    }
    /* The message of cs_error() is copied, because the cleanup below may overwrite it. */
    CE_FREED char *why = status == CS_OK ? NULL : ce_must_copy(cs_error());
    ce_save_close(&s);
    if (status != CS_OK)
        ce_fail(status, "%s", why);
    return status;
}
