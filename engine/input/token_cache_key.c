/* token_cache_key.c - cache key of a tokenized text, made of its files, the tokenizer, and values of cspeed.data. */
#include "base/must.h"
#include "input/token_cache_key.h"
#include "security/mac.h"
#include "chat/chat.h"
#include "base/files.h"
#include "data/texts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD "made_from.txt"

enum { RECORD_LIMIT = 1 << 26 };

/* ---- names and files of texts ---- */

static cs_status list_paths(ce_token_cache_key *self)
{
    cs_status status = ce_texts_list(&self->paths, self->name);
    if (status != CS_NOT_FOUND)
        return status;
    return ce_fail(status, "%s%s; cspeed.data names it", cs_error(),
                   ce_files_is_folder(self->name) ? ", nor token shards train-*.bin, as `cspeed pack` makes them" : "");
}

/* ---- the record ---- */

static cs_status record_file(FILE *out, const char *what, const char *path)
{
    struct stat facts;
    if (stat(path, &facts) != 0)
        return errno == ENOENT ? CS_NOT_FOUND : ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot read its size", path);
    fprintf(out, "%s %s, %lld bytes of %lld.%09ld\n", what, path, (long long)facts.st_size,
            (long long)facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
    return CS_OK;
}

/* Records the tokenizer's file, or the files of its folder that exist. A missing file is reported when it is read. */
static cs_status record_tokenizer(FILE *out, const char *path)
{
    static const char *const names[] = { "tokenizer.json",
                                         "vocab.json",
                                         "merges.txt",
                                         "tokenizer.model",
                                         "tokenizer_config.json",
                                         "chat_template.jinja",
                                         "chat_template.json",
                                         "additional_chat_templates/tool_use.jinja",
                                         "added_tokens.json",
                                         "special_tokens_map.json",
                                         "config.json" };
    cs_status status = CS_OK;
    if (!path)
        return fputs("tokenizer: bytes\n", out) < 0 ? CS_IO_ERROR : CS_OK;
    if (!ce_files_is_folder(path))
        status = record_file(out, "tokenizer", path);
    for (size_t i = 0; ce_files_is_folder(path) && i < sizeof names / sizeof *names && status != CS_IO_ERROR; i++) {
        CE_FREED char *file = ce_files_join(path, names[i]);
        status = record_file(out, "tokenizer", file);
    }
    return status == CS_NOT_FOUND ? CS_OK : status;
}

/* Records the chat template if it is a file, or may be one beside the tokenizer. A missing file is reported when it is
 * read. */
static cs_status record_template(FILE *out, const ce_token_cache_key *self)
{
    const char *name = self->settings->template, *colon = name ? strchr(name, ':') : NULL;
    CE_FREED char *beside = NULL;
    if (colon && self->tokenizer && !ce_chat_is_file(name))
        name = beside = ce_must_print("%s/additional_chat_templates/%s.jinja", self->tokenizer, colon + 1);
    cs_status status = name && (beside || ce_chat_is_file(name)) ? record_file(out, "template", name) : CS_OK;
    return status == CS_NOT_FOUND ? CS_OK : status;
}

static cs_status write_record(FILE *out, const ce_token_cache_key *self)
{
    CE_TRY(record_tokenizer(out, self->tokenizer));
    CE_TRY(record_template(out, self));
    for (size_t i = 0; i < self->paths.gl_pathc; i++)
        CE_TRY(record_file(out, "text", self->paths.gl_pathv[i]));
    return CS_OK;
}

/* Writes the absolute name of the text and the settings used. */
static void write_head(FILE *out, const ce_token_cache_key *self)
{
    const ce_settings *settings = self->settings;
    CE_FREED char *above = *self->name == '/' ? NULL : getcwd(NULL, 0);
    fprintf(out, "cspeed tokens, version 8\nof %s%s%s\nfield %s\ntemplate %s\nby %s\n", above ? above : "",
            above ? "/" : "", self->name, settings->field, settings->template ? settings->template : "none",
            self->tokenizer ? self->tokenizer : "bytes");
    if (settings->turns != CE_TURNS_AUTO)
        fprintf(out, "turns %d\n", settings->turns);
    if (ce_preference_is_on(self->engine))
        fputs("as pairs of answers\n", out);
    for (int i = 0; i < settings->columns.count; i++)
        fprintf(out, "%s in the column %s\n", settings->columns.key[i], settings->columns.name[i]);
    /* If skip_bad is 0, the record needs no line about skip_bad: a faulty line is then an error, and no shards are
     * made. */
    if (settings->skip_bad > 0)
        fprintf(out, "without up to %" PRId64 " bad lines\n", settings->skip_bad);
}

static cs_status make_record(ce_token_cache_key *self)
{
    size_t length;
    FILE *out = open_memstream(&self->record, &length);
    CE_ASSERT(out);
    write_head(out, self);
    fflush(out); /* fflush sets `length` */
    self->head = length;
    cs_status status = write_record(out, self);
    fclose(out);
    return status == CS_NOT_FOUND ? ce_fail(status, "%s: was removed while it was read", self->name) : status;
}

static void name_folder(ce_token_cache_key *self)
{
    static const unsigned char key[CE_MAC_BYTES];
    unsigned char tag[CE_MAC_BYTES];
    char digits[17];
    ce_mac_once(tag, key, &(struct iovec){ self->record, strlen(self->record) }, 1);
    for (int i = 0; i < 8; i++)
        snprintf(digits + 2 * i, 3, "%02x", tag[i]);
    self->folder = ce_files_join(self->settings->cache, digits);
}

/* Returns cspeed.data.tokenizer if it is set, otherwise the model's folder. If that folder has no tokenizer files and
 * the model has 256 tokens, as in an export of a model that was trained on bytes, returns NULL: every byte is a
 * token. */
static const char *find_tokenizer(const cs_engine *engine)
{
    const char *folder = engine->settings->model_path;
    if (engine->settings->tokenizer)
        return engine->settings->tokenizer;
    bool bytes = folder && engine->facts.vocabulary == 256 && !ce_files_holds_tokenizer(folder);
    return bytes ? NULL : folder;
}

cs_status ce_token_cache_key_open(ce_token_cache_key *self, const cs_engine *engine, const char *name)
{
    *self = (ce_token_cache_key){
        .engine = engine, .settings = engine->settings, .name = name, .tokenizer = find_tokenizer(engine)
    };
    CE_TRY(list_paths(self));
    CE_TRY(make_record(self));
    name_folder(self);
    return CS_OK;
}

void ce_token_cache_key_close(ce_token_cache_key *self)
{
    globfree(&self->paths);
    free(self->record);
    free(self->folder);
}

/* Reads the record in a folder of shards. *found is NULL if there are no complete shards; the caller frees it. */
static cs_status read_record(char **found, const char *folder)
{
    CE_FREED char *path = ce_files_join(folder, RECORD);
    size_t length;
    return ce_files_read(found, &length, path, RECORD_LIMIT);
}

cs_status ce_token_cache_key_find(const ce_token_cache_key *self, bool *done)
{
    char *found;
    cs_status status = read_record(&found, self->folder);
    *done = found && strcmp(found, self->record) == 0;
    free(found);
    return status != CS_IO_ERROR
               ? CS_OK
               : ce_fail(status, "%s; the tokens of %s are saved there; set cspeed.data.cache to another folder",
                         cs_error(), self->name);
}

bool ce_token_cache_key_is_older(const ce_token_cache_key *self, const char *folder)
{
    char *found;
    read_record(&found, folder);
    bool older = found && strncmp(found, self->record, self->head) == 0 && strcmp(found, self->record) != 0;
    free(found);
    return older;
}

cs_status ce_token_cache_key_sign(const ce_token_cache_key *self, const char *folder)
{
    CE_CLOSED(ce_token_cache_key_close) ce_token_cache_key now = { 0 };
    CE_FREED char *path = ce_files_join(folder, RECORD);
    CE_TRY(ce_token_cache_key_open(&now, self->engine, self->name));
    if (strcmp(now.record, self->record) != 0)
        return ce_fail(CS_BAD_FILE, "%s: changed while its tokens were made; start again when it is complete",
                       self->name);
    return ce_files_write(path, self->record, strlen(self->record));
}
