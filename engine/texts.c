/* texts.c - texts that cspeed.data names, as token shards: made once on each host, and found again by later runs.
 *
 * Shards are made in a folder beside their place, under a lock, and moved there when they are whole: a run that dies
 * leaves nothing that is taken for more, and of several runs on one cache one makes them and the others wait. */
#include "texts.h"
#include "base/log.h"
#include "base/mac.h"
#include "checkpoint/agree.h"
#include "checkpoint/files.h"
#include "data/packing.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RECORD "made_from.txt"

enum { RECORD_LIMIT = 1 << 26, SHARD_TOKENS = 100000000 };

static const char *const endings[] = { ".jsonl", ".txt" };
enum { ENDINGS = sizeof endings / sizeof *endings };

/* One name of cspeed.data on its way. */
typedef struct {
    const cs_settings *settings;
    const char        *name; /* as given */
    const char        *tokenizer;
    glob_t             paths;
    char              *record; /* what decides whether shards are the same */
    char              *folder; /* where they are or will be               */
} prepared;

/* ---- which names are texts, and of which files ---- */

static bool is_folder(const char *name)
{
    struct stat facts;
    return stat(name, &facts) == 0 && S_ISDIR(facts.st_mode);
}

static bool is_text(const char *name)
{
    size_t length = strlen(name);
    for (int i = 0; i < ENDINGS; i++)
        if (length > strlen(endings[i]) && strcmp(name + length - strlen(endings[i]), endings[i]) == 0)
            return true;
    return is_folder(name);
}

static cs_status look(prepared *self, const char *pattern, bool more)
{
    int outcome = glob(pattern, more ? GLOB_APPEND : 0, NULL, &self->paths);
    if (outcome == 0 || outcome == GLOB_NOMATCH)
        return CS_OK;
    return cs_fail(outcome == GLOB_NOSPACE ? CS_NO_MEMORY : CS_IO_ERROR, "%s: cannot look for these files", pattern);
}

static cs_status list_paths(prepared *self)
{
    char pattern[4096];
    bool folder = is_folder(self->name);
    for (int i = 0; i < (folder ? ENDINGS : 1); i++) {
        snprintf(pattern, sizeof pattern, folder ? "%s/*%s" : "%s", self->name, endings[i]);
        CS_TRY(look(self, pattern, i > 0));
    }
    if (self->paths.gl_pathc > 0)
        return CS_OK;
    if (!folder)
        return cs_fail(CS_NOT_FOUND, "%s: no such file; cspeed.data names it", self->name);
    return cs_fail(CS_NOT_FOUND, "%s: no text, .jsonl or .txt, in this folder; of token shards name the files, "
                   "%s/train-*.bin", self->name, self->name);
}

/* ---- the record ---- */

static cs_status record_file(FILE *out, const char *what, const char *path)
{
    struct stat facts;
    if (stat(path, &facts) != 0)
        return errno == ENOENT ? CS_NOT_FOUND : cs_fail_errno(CS_IO_ERROR, errno, "%s: cannot read its size", path);
    fprintf(out, "%s %s, %lld bytes of %lld.%09ld\n", what, path, (long long)facts.st_size,
            (long long)facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
    return CS_OK;
}

/* A folder's own, of which it need not have all; or the one file. What is missing is said when it is to be read. */
static cs_status record_tokenizer(FILE *out, const char *path)
{
    static const char *const names[] = { "tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json",
                                         "chat_template.jinja" };
    cs_status                status  = CS_OK;
    if (!path)
        return fputs("tokenizer: bytes\n", out) < 0 ? CS_IO_ERROR : CS_OK;
    if (!is_folder(path))
        status = record_file(out, "tokenizer", path);
    for (size_t i = 0; is_folder(path) && i < sizeof names / sizeof *names && status != CS_IO_ERROR; i++) {
        char *file = cs_files_join(path, names[i]);
        status     = record_file(out, "tokenizer", file);
        free(file);
    }
    return status == CS_NOT_FOUND ? CS_OK : status;
}

static cs_status write_record(FILE *out, const prepared *self)
{
    const cs_settings *settings = self->settings;
    fprintf(out, "cspeed tokens, version 1\nfield %s\ntemplate %s\n", settings->field,
            settings->template ? settings->template : "none");
    CS_TRY(record_tokenizer(out, self->tokenizer));
    for (size_t i = 0; i < self->paths.gl_pathc; i++)
        CS_TRY(record_file(out, "text", self->paths.gl_pathv[i]));
    return CS_OK;
}

static cs_status make_record(prepared *self)
{
    size_t length;
    FILE  *out = open_memstream(&self->record, &length);
    if (!out)
        return cs_fail(CS_NO_MEMORY, "%s: no memory to describe it", self->name);
    cs_status status = write_record(out, self);
    fclose(out);
    return status == CS_NOT_FOUND ? cs_fail(status, "%s: went away while it was read", self->name) : status;
}

static void name_folder(prepared *self)
{
    static const unsigned char key[CS_MAC_BYTES];
    unsigned char              tag[CS_MAC_BYTES];
    char                       digits[17];
    cs_mac_once(tag, key, &(struct iovec){ self->record, strlen(self->record) }, 1);
    for (int i = 0; i < 8; i++)
        snprintf(digits + 2 * i, 3, "%02x", tag[i]);
    self->folder = cs_files_join(self->settings->cache, digits);
}

static cs_status prepare(prepared *self, const cs_settings *settings, const char *name)
{
    *self = (prepared){ .settings  = settings,
                        .name      = name,
                        .tokenizer = settings->tokenizer ? settings->tokenizer : settings->model_path };
    CS_TRY(list_paths(self));
    CS_TRY(make_record(self));
    name_folder(self);
    return CS_OK;
}

static void forget(prepared *self)
{
    globfree(&self->paths);
    free(self->record);
    free(self->folder);
}

/* Whole shards of just this: what else may lie under the name is no cache of ours. */
static bool is_there(const prepared *self)
{
    char     *path = cs_files_join(self->folder, RECORD), *found = NULL;
    size_t    length;
    cs_status status = cs_files_read(&found, &length, path, RECORD_LIMIT);
    bool      there  = status == CS_OK && strcmp(found, self->record) == 0;
    free(found);
    free(path);
    return there;
}

/* ---- making ---- */

static void tell(const prepared *self, const cs_packing_counts *counts)
{
    cs_log(CS_LOG_INFO, "tokens of %s: %" PRId64 " of %" PRId64 " documents, %" PRId64 " of them learnt, in %.1f s",
           self->name, counts->train_tokens, counts->documents, counts->learnt, counts->seconds);
    cs_log(CS_LOG_INFO, "they are kept in %s", self->folder);
    if (counts->repaired > 0)
        cs_log(CS_LOG_WARNING, "%s: %" PRId64 " broken characters were not UTF-8 and became U+FFFD", self->name,
               counts->repaired);
}

static cs_status fill(const prepared *self, const char *part)
{
    const cs_settings  *settings = self->settings;
    cs_packing_counts   counts;
    cs_packing_settings how = { .paths        = self->paths.gl_pathv,
                                .path_count   = (int)self->paths.gl_pathc,
                                .output       = part,
                                .tokenizer    = self->tokenizer,
                                .field        = settings->field,
                                .chat         = settings->template,
                                .by_name      = true,
                                .shard_tokens = SHARD_TOKENS };
    char               *record = cs_files_join(part, RECORD);
    cs_log(CS_LOG_INFO, "making tokens of %s with %s, once for all runs that read it", self->name,
           self->tokenizer ? self->tokenizer : "a token a byte");
    cs_status status = cs_packing_run(&how, &counts);
    if (status == CS_OK)
        status = cs_files_write(record, self->record, strlen(self->record));
    free(record);
    CS_TRY(status);
    CS_TRY(cs_files_remove_tree(self->folder)); /* of another program, or damaged */
    CS_TRY(cs_files_rename(part, self->folder));
    tell(self, &counts);
    return cs_files_sync_directory(settings->cache);
}

/* The lock ends with the process that holds it. */
static cs_status wait_for_lock(int lock, const char *path)
{
    static const struct timespec pause = { 0, 100000000 };
    for (int64_t waits = 0; flock(lock, LOCK_EX | LOCK_NB) != 0; waits++) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return cs_fail_errno(CS_IO_ERROR, errno, "%s: cannot lock it; cspeed.data.cache names another folder",
                                 path);
        if (waits % 100 == 0)
            cs_log(CS_LOG_INFO, "%s: another run makes these tokens; waiting for it", path);
        nanosleep(&pause, NULL);
    }
    return CS_OK;
}

static cs_status make_locked(const prepared *self, int lock, const char *path)
{
    CS_TRY(wait_for_lock(lock, path));
    if (is_there(self))
        return CS_OK;
    char *part;
    if (asprintf(&part, "%s.part", self->folder) < 0)
        return cs_fail(CS_NO_MEMORY, "out of memory for a name");
    cs_status status = cs_files_remove_tree(part); /* of a run that died */
    if (status == CS_OK)
        status = fill(self, part);
    free(part);
    return status;
}

static cs_status make(const prepared *self)
{
    char *path;
    if (cs_files_make_directories(self->settings->cache) != CS_OK)
        return cs_fail(CS_IO_ERROR, "%s; tokens of %s are to be kept there, cspeed.data.cache names another folder",
                       cs_error(), self->name);
    if (asprintf(&path, "%s.lock", self->folder) < 0)
        return cs_fail(CS_NO_MEMORY, "out of memory for a name");
    int       lock   = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    cs_status status = CS_OK;
    if (lock < 0)
        status = cs_fail_errno(CS_IO_ERROR, errno, "%s: cannot make this file; cspeed.data.cache names another folder",
                               path);
    else
        status = make_locked(self, lock, path);
    if (lock >= 0)
        close(lock);
    free(path);
    return status;
}

/* ---- all names ---- */

static cs_status make_one(const cs_settings *settings, const char *name)
{
    prepared  self;
    cs_status status = prepare(&self, settings, name);
    if (status == CS_OK && is_there(&self))
        cs_log(CS_LOG_INFO, "tokens of %s: in %s, as they were made before", name, self.folder);
    else if (status == CS_OK)
        status = make(&self);
    forget(&self);
    return status;
}

static cs_status find_one(const char **found, const cs_settings *settings, const char *name)
{
    prepared  self;
    cs_status status = prepare(&self, settings, name);
    if (status == CS_OK && !is_there(&self))
        status = cs_fail(CS_NOT_FOUND, "%s: the tokens that another rank of this host made are not there; "
                         "cspeed.data.cache is to name a folder that both see", self.folder);
    if (status == CS_OK)
        *found = cs_files_join(self.folder, "train-*.bin");
    forget(&self);
    return status;
}

static cs_status find_all(cs_texts *texts, const cs_settings *settings, const char *const *given, int count)
{
    texts->names = calloc((size_t)count, sizeof *texts->names);
    if (!texts->names)
        return cs_fail(CS_NO_MEMORY, "out of memory for a list of %d names", count);
    for (; texts->count < count; texts->count++) {
        const char *name = given[texts->count];
        if (is_text(name))
            CS_TRY(find_one(&texts->names[texts->count], settings, name));
        else
            texts->names[texts->count] = strdup(name);
    }
    return CS_OK;
}

cs_status cs_texts_open(cs_texts *texts, cs_engine *engine, const char *const *given, int count)
{
    cs_status status = CS_OK;
    *texts           = (cs_texts){ 0 };
    for (int i = 0; i < count && status == CS_OK && engine->world.local_rank == 0; i++)
        if (is_text(given[i]))
            status = make_one(engine->settings, given[i]);
    CS_TRY(cs_agree_status(engine->comm, status));
    status = cs_agree_status(engine->comm, find_all(texts, engine->settings, given, count));
    if (status != CS_OK)
        cs_texts_close(texts);
    return status;
}

void cs_texts_close(cs_texts *texts)
{
    for (int i = 0; i < texts->count; i++)
        free((void *)(uintptr_t)texts->names[i]);
    free(texts->names);
    *texts = (cs_texts){ 0 };
}
