/* token_cache.c - cache of tokenized texts: each host tokenizes a text once, and later runs reuse the token shards.
 *
 * Shards are written to a temporary folder under a lock, and the folder is renamed when they are complete. A run that
 * dies therefore leaves no incomplete shards in the cache. If several runs share a cache, one of them tokenizes a text
 * while the others wait. */
#include "base/must.h"
#include "input/loader.h"
#include "base/beat.h"
#include "base/log.h"
#include "base/plural.h"
#include "comm/collective_status.h"
#include "base/files.h"
#include "data/folder.h"
#include "data/packing.h"
#include "data/texts.h"
#include "input/token_cache_key.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { SHARD_TOKENS = 100000000, DIGITS = 16, JOB_BYTES = 128 };

/* ---- tokenizing ---- */

static void report(const ce_token_cache_key *self, const ce_packing_counts *counts)
{
    ce_log(CE_LOG_INFO,
           "tokens of %s: %" PRId64 " in %" PRId64 " document%s, %" PRId64
           " of them count in the loss, at most %" PRId64 " in a document; made in %.1f s",
           self->name, counts->train_tokens, counts->documents, ce_plural(counts->documents), counts->learnt,
           counts->longest, counts->seconds);
    ce_log(CE_LOG_INFO, "they are saved in %s, and every run with this cspeed.data.cache uses them", self->folder);
    if (counts->skipped > 0)
        ce_log(CE_LOG_WARNING,
               "%s: %" PRId64 " bad lines were left out (cspeed.data.skip_bad %" PRId64 "), %" PRId64
               " of them for what is not supported",
               self->name, counts->skipped, self->settings->skip_bad, counts->unsupported);
    if (counts->repaired > 0)
        ce_log(CE_LOG_WARNING, "%s: %" PRId64 " broken characters were not UTF-8 and became U+FFFD", self->name,
               counts->repaired);
}

/* Locks a folder of shards. Readers use LOCK_SH. Returns a descriptor, or -1 if another process holds a conflicting
 * lock or the folder is missing. */
static int hold(const char *folder, int lock)
{
    int held = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (held >= 0 && flock(held, lock | LOCK_NB) != 0) {
        close(held);
        held = -1;
    }
    return held;
}

static void drop(const ce_token_cache_key *self, const char *folder)
{
    char lock[4096];
    int held = hold(folder, LOCK_EX);
    /* Another run still reads these shards. The next run that tokenizes this text tries again to delete the shards. */
    if (held < 0)
        return;
    snprintf(lock, sizeof lock, "%s.lock", folder);
    if (ce_files_remove_tree(folder) == CS_OK && unlink(lock) == 0)
        ce_log(CE_LOG_INFO, "old tokens of %s are removed: %s", self->name, folder);
    close(held);
}

/* Deletes the incomplete shards of a run that died: no process has the lock of their folder. */
static void drop_part(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%.*s.lock", (int)(strlen(folder) - strlen(".part")), folder);
    int lock = open(path, O_RDWR | O_CLOEXEC);
    if (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0 && ce_files_remove_tree(folder) == CS_OK)
        ce_log(CE_LOG_INFO, "incomplete tokens of a run that was killed are removed: %s", folder);
    if (lock >= 0)
        close(lock);
}

/* Deletes incomplete shards, and shards of earlier states of the same texts. A run that starts later cannot use them. */
static void drop_older(const ce_token_cache_key *self)
{
    DIR *listing = opendir(self->settings->cache);
    for (const struct dirent *entry; listing && (entry = readdir(listing)) != NULL;) {
        CE_FREED char *folder = ce_files_join(self->settings->cache, entry->d_name);
        bool digits = strspn(entry->d_name, "0123456789abcdef") == DIGITS;
        if (digits && strcmp(entry->d_name + DIGITS, ".part") == 0)
            drop_part(folder);
        else if (digits && !entry->d_name[DIGITS] && ce_token_cache_key_is_older(self, folder))
            drop(self, folder);
    }
    if (listing)
        closedir(listing);
}

static cs_status fill(const ce_token_cache_key *self, const char *part)
{
    const ce_settings *settings = self->settings;
    ce_packing_counts counts;
    ce_packing_settings how = { .paths = self->paths.gl_pathv,
                                .path_count = (int)self->paths.gl_pathc,
                                .output = part,
                                .tokenizer = self->tokenizer,
                                .field = settings->field,
                                .columns = settings->columns,
                                .chat = settings->template,
                                .turns = settings->turns,
                                .pairs = ce_preference_is_on(self->engine),
                                .skip_bad = settings->skip_bad,
                                .by_name = true,
                                .shard_tokens = SHARD_TOKENS };
    if (how.pairs) /* A shard must not end between the two answers of a pair. */
        how.shard_tokens = INT64_MAX - 1;
    ce_log(CE_LOG_INFO, "making tokens of %s with %s", self->name,
           self->tokenizer ? self->tokenizer : "one token for each byte");
    CE_TRY(ce_packing_run(&how, &counts));
    CE_TRY(ce_token_cache_key_sign(self, part));
    CE_TRY(ce_files_sync_directory(part));
    /* The folder is removed: it may contain files of another program, or damaged shards. */
    CE_TRY(ce_files_remove_tree(self->folder));
    CE_TRY(ce_files_rename(part, self->folder));
    report(self, &counts);
    drop_older(self);
    return ce_files_sync_directory(settings->cache);
}

/* Returns true if the process that owns the lock belongs to this job: it runs on another host that sees the folder. */
static bool is_our_job(int lock)
{
    char owner[JOB_BYTES] = "";
    const char *job = getenv("CSPEED_JOB_ID");
    return pread(lock, owner, sizeof owner - 1, 0) > 0 && job && strcmp(owner, job) == 0;
}

/* Writes the job into the locked file, for is_our_job. The name is only for messages, so errors are ignored. */
static void name_owner(int lock)
{
    const char *job = getenv("CSPEED_JOB_ID");
    if (ftruncate(lock, 0) == 0 && job && strlen(job) < JOB_BYTES && pwrite(lock, job, strlen(job), 0) < 0)
        ce_log(CE_LOG_DEBUG, "the name of the job could not be written into the lock file: %s", strerror(errno));
}

/* Waits for the lock, which the kernel releases when the process that owns it ends. While it waits, the function tells
 * the launcher's watchdog that this rank is alive. */
static cs_status wait_for_lock(int lock, const char *path)
{
    static const struct timespec pause = { 0, 100000000 };
    for (int64_t waits = 0; flock(lock, LOCK_EX | LOCK_NB) != 0; waits++) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot lock it; set cspeed.data.cache to another folder",
                                 path);
        ce_beat_touch();
        if (waits % 100 == 0)
            ce_log(CE_LOG_INFO, "%s: another %s makes these tokens; waiting for it", path,
                   is_our_job(lock) ? "host of this job" : "run");
        nanosleep(&pause, NULL);
    }
    name_owner(lock);
    return CS_OK;
}

static cs_status make_locked(const ce_token_cache_key *self, int lock, const char *path)
{
    bool done;
    CE_TRY(wait_for_lock(lock, path));
    CE_TRY(ce_token_cache_key_find(self, &done));
    if (done)
        return CS_OK;
    CE_FREED char *part = ce_must_print("%s.part", self->folder);
    cs_status status = ce_files_remove_tree(part); /* A run that died may have left this folder. */
    if (status == CS_OK)
        status = fill(self, part);
    /* After a failure the incomplete shards are deleted, and cs_error() is set to the message of this failure again. */
    if (status != CS_OK) {
        char why[4096];
        snprintf(why, sizeof why, "%s", cs_error());
        ce_files_remove_tree(part);
        ce_fail(status, "%s", why);
    }
    return status;
}

static cs_status make(const ce_token_cache_key *self)
{
    if (ce_files_make_directories(self->settings->cache) != CS_OK)
        return ce_fail(CS_IO_ERROR, "%s; the tokens of %s are saved there; set cspeed.data.cache to another folder",
                       cs_error(), self->name);
    CE_FREED char *path = ce_must_print("%s.lock", self->folder);
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (lock < 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot make this file; set cspeed.data.cache to another folder",
                             path);
    cs_status status = make_locked(self, lock, path);
    close(lock);
    return status;
}

/* ---- all names of a split ---- */

static cs_status make_one(const cs_engine *engine, const char *name)
{
    CE_CLOSED(ce_token_cache_key_close) ce_token_cache_key self = { 0 };
    bool done = false;
    CE_TRY(ce_token_cache_key_open(&self, engine, name));
    CE_TRY(ce_token_cache_key_find(&self, &done));
    if (!done)
        return make(&self);
    ce_log(CE_LOG_INFO, "tokens of %s are read from %s, where an earlier run saved them", name, self.folder);
    return CS_OK;
}

static cs_status find_one(const char **found, int *held, const cs_engine *engine, const char *name)
{
    ce_token_cache_key self;
    cs_status status = ce_token_cache_key_open(&self, engine, name);
    bool done = false;
    if (status == CS_OK)
        *held = hold(self.folder, LOCK_SH);
    if (status == CS_OK)
        status = ce_token_cache_key_find(&self, &done);
    if (status == CS_OK && !done)
        status = ce_fail(CS_NOT_FOUND,
                         "%s: the tokens that another rank of this host made are missing; set cspeed.data.cache to a "
                         "folder that both ranks see",
                         self.folder);
    if (status == CS_OK) {
        char quoted[8192];
        ce_folder_quote(quoted, sizeof quoted, self.folder);
        *found = ce_files_join(quoted, "train-*.bin");
    } else if (*held >= 0) {
        close(*held);
    }
    ce_token_cache_key_close(&self);
    return status;
}

static cs_status find_all(ce_token_cache *cache, const cs_engine *engine, const char *const *given, int count)
{
    cache->names = ce_must_alloc((size_t)count * sizeof *cache->names);
    cache->held = ce_must_alloc((size_t)count * sizeof *cache->held);
    for (; cache->count < count; cache->count++) {
        const char *name = given[cache->count];
        if (ce_preference_is_on(engine) && !ce_texts_is_text(name))
            return ce_fail(CS_BAD_CONFIG,
                           "cspeed.data: %s: with cspeed.dpo, files of prompt, chosen and rejected (.jsonl) "
                           "are needed, not token shards",
                           name);
        cache->held[cache->count] = -1;
        if (ce_texts_is_text(name))
            CE_TRY(find_one(&cache->names[cache->count], &cache->held[cache->count], engine, name));
        else
            cache->names[cache->count] = ce_must_copy(name);
    }
    return CS_OK;
}

cs_status ce_token_cache_open(ce_token_cache *cache, cs_engine *engine, const char *const *given, int count)
{
    cs_status status = CS_OK;
    *cache = (ce_token_cache){ 0 };
    for (int i = 0; i < count && status == CS_OK && engine->world.local_rank == 0; i++)
        if (ce_texts_is_text(given[i]))
            status = make_one(engine, given[i]);
    CE_TRY(ce_collective_status(engine->comm, status));
    status = ce_collective_status(engine->comm, find_all(cache, engine, given, count));
    if (status != CS_OK)
        ce_token_cache_close(cache);
    return status;
}

void ce_token_cache_close(ce_token_cache *cache)
{
    for (int i = 0; i < cache->count; i++) {
        free((void *)(uintptr_t)cache->names[i]);
        if (cache->held[i] >= 0)
            close(cache->held[i]);
    }
    free(cache->names);
    free(cache->held);
    *cache = (ce_token_cache){ 0 };
}
