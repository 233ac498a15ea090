/* huggingface_write.c - writes a Hugging Face folder from a source of tensors.
 *
 * The headers, which depend only on the shapes, are written first, then the data, through one buffer. */
#include "interchange/huggingface.h"
#include "interchange/joined_experts.h"
#include "base/log.h"
#include "base/must.h"
#include "base/progress.h"
#include "base/files.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/staging.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

/* One file, which contains the tensors [from, to) of the source. */
typedef struct {
    int64_t from, to, bytes;
} shard;

typedef struct {
    const ce_huggingface_output *given;
    ce_source *source;
    char *folder; /* temporary folder, which is renamed at the end */
    int lock;     /* of the temporary folder, or -1 */
    shard *shards;
    int64_t count, total;
    char *buffer;
    ce_progress progress;
} writing;

static cs_dtype dtype_of(const writing *w, int64_t tensor)
{
    const ce_source_tensor *t = &w->source->tensors[tensor];
    return t->kept ? t->dtype : w->given->dtype;
}

static int64_t bytes_of(const writing *w, int64_t tensor)
{
    return ce_source_elements(&w->source->tensors[tensor]) * (int64_t)cs_dtype_bytes(dtype_of(w, tensor));
}

static cs_status deal(writing *w)
{
    w->shards = calloc((size_t)w->source->count + 1, sizeof *w->shards);
    if (!w->shards)
        return ce_fail(CS_NO_MEMORY, "out of memory for the list of files to write");
    for (int64_t i = 0; i < w->source->count; i++) {
        shard *last = &w->shards[w->count - (w->count > 0)];
        int64_t bytes = bytes_of(w, i);
        if (w->count == 0 || (!w->given->adapter && last->bytes + bytes > w->given->max_shard)) {
            last = &w->shards[w->count++];
            *last = (shard){ i, i, 0 };
        }
        last->to = i + 1;
        last->bytes += bytes;
        w->total += bytes;
    }
    return CS_OK;
}

static void name_of(char *name, size_t capacity, const writing *w, int64_t file)
{
    if (w->given->adapter)
        snprintf(name, capacity, "adapter_model.safetensors");
    else if (w->count == 1)
        snprintf(name, capacity, "model.safetensors");
    else
        snprintf(name, capacity, "model-%05lld-of-%05lld.safetensors", (long long)file + 1, (long long)w->count);
}

/* Builds the header of a file: 8 bytes of length, then JSON, padded so that the data are aligned. The caller frees
 * the header. */
static char *header_of(const writing *w, const shard *s, size_t *bytes)
{
    json_t *root = json_pack("{s{ss}}", "__metadata__", "format", "pt");
    int64_t begin = 0;
    for (int64_t i = s->from; i < s->to; i++) {
        const ce_source_tensor *t = &w->source->tensors[i];
        json_object_set_new(root, t->name,
                            json_pack("{sssos[II]}", "dtype", ce_safetensors_name(dtype_of(w, i)), "shape",
                                      ce_safetensors_numbers(t->shape, t->dims), "data_offsets", (json_int_t)begin,
                                      (json_int_t)(begin + bytes_of(w, i))));
        begin += bytes_of(w, i);
    }
    char *text = json_dumps(root, JSON_COMPACT);
    size_t length = (strlen(text) + 7) / 8 * 8;
    char *block = malloc(8 + length);
    json_decref(root);
    if (block) {
        memset(block + 8, ' ', length);
        memcpy(block + 8, text, strlen(text));
        for (int i = 0; i < 8; i++)
            block[i] = (char)(length >> (8 * i) & 255);
    }
    free(text);
    *bytes = 8 + length;
    return block;
}

static cs_status write_tensor(writing *w, int64_t tensor, int descriptor, int64_t offset, const char *path)
{
    cs_dtype dtype = dtype_of(w, tensor);
    size_t size = cs_dtype_bytes(dtype);
    int64_t whole = bytes_of(w, tensor) / (int64_t)size, max = CE_SOURCE_BUFFER / (int64_t)size;
    for (int64_t at = 0, next; at < whole; at = next) {
        next = at + max < whole ? at + max : whole;
        CE_TRY(w->source->read(w->source, tensor, (ce_range){ at, next }, w->buffer, dtype));
        CE_TRY(ce_files_write_at(descriptor, w->buffer, (size_t)(next - at) * size, offset + at * (int64_t)size, path));
        ce_progress_add(&w->progress, (next - at) * (int64_t)size);
    }
    return CS_OK;
}

static cs_status write_data(writing *w, const shard *s, int descriptor, const char *path)
{
    size_t bytes;
    char *header = header_of(w, s, &bytes);
    if (!header)
        return ce_fail(CS_NO_MEMORY, "out of memory for the header of %s", path);
    cs_status status = ce_files_write_at(descriptor, header, bytes, 0, path);
    int64_t offset = (int64_t)bytes;
    free(header);
    for (int64_t i = s->from; i < s->to && status == CS_OK; i++) {
        status = write_tensor(w, i, descriptor, offset, path);
        offset += bytes_of(w, i);
    }
    if (status == CS_OK && fsync(descriptor) != 0)
        status = ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot be flushed to the disk", path);
    return status;
}

static cs_status write_shard(writing *w, int64_t file)
{
    char name[64];
    name_of(name, sizeof name, w, file);
    char *path = ce_files_join(w->folder, name);
    int descriptor = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor < 0) {
        cs_status status = ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot be made", path);
        free(path);
        return status;
    }
    cs_status status = write_data(w, &w->shards[file], descriptor, path);
    close(descriptor);
    free(path);
    return status;
}

static cs_status write_shards(writing *w)
{
    cs_status status = CS_OK;
    ce_progress_begin(&w->progress, "writing", NULL, w->total);
    for (int64_t file = 0; file < w->count && status == CS_OK; file++)
        status = write_shard(w, file);
    ce_progress_end(&w->progress);
    return status;
}

static cs_status write_json(const writing *w, const char *name, json_t *value)
{
    char *path = ce_files_join(w->folder, name);
    char *text = json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    size_t length = text ? strlen(text) : 0;
    if (text)
        text[length] = '\n'; /* the line break replaces the terminating NUL */
    cs_status status =
        text ? ce_files_write(path, text, length + 1) : ce_fail(CS_NO_MEMORY, "out of memory for the text of %s", path);
    free(text);
    free(path);
    return status;
}

static cs_status write_index(const writing *w)
{
    json_t *map = json_object();
    char name[64];
    if (w->count < 2) {
        json_decref(map);
        return CS_OK;
    }
    for (int64_t file = 0; file < w->count; file++) {
        name_of(name, sizeof name, w, file);
        for (int64_t i = w->shards[file].from; i < w->shards[file].to; i++)
            json_object_set_new(map, w->source->tensors[i].name, json_string(name));
    }
    json_t *root = json_pack("{s{sI}so}", "metadata", "total_size", (json_int_t)w->total, "weight_map", map);
    cs_status status = write_json(w, "model.safetensors.index.json", root);
    json_decref(root);
    return status;
}

/* Sets GPT-2's bos_token_id and eos_token_id to null if they are missing and the vocabulary has no token 50256. If the
 * keys were missing, transformers would use their default, 50256, and print a warning. */
static void name_no_ends(json_t *config)
{
    static const char *const keys[] = { "bos_token_id", "eos_token_id" };
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const json_t *tokens = json_object_get(config, "vocab_size");
    if (!type || strcmp(type, "gpt2") != 0 || !tokens || json_integer_value(tokens) > 50256)
        return;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_object_get(config, keys[i]))
            json_object_set_new(config, keys[i], json_null());
}

/* Writes ds_config.json, the configuration of the training, in place of config.json. */
static cs_status write_training(const writing *w)
{
    CE_FREED char *path = ce_files_join(w->folder, CE_CONFIG_FILE);
    return w->given->training ? ce_files_write(path, w->given->training, strlen(w->given->training)) : CS_OK;
}

/* Writes config.json. The data type of the weights is written under the key's old name and its new name. */
static cs_status write_config(const writing *w)
{
    static const char *const names[] = { [CS_F32] = "float32", [CS_BF16] = "bfloat16", [CS_F16] = "float16" };
    if (w->given->adapter)
        return write_json(w, "adapter_config.json", w->given->config);
    if (!w->given->config)
        return write_training(w);
    json_t *config = json_deep_copy(w->given->config);
    json_object_set_new(config, "torch_dtype", json_string(names[w->given->dtype]));
    json_object_set_new(config, "dtype", json_string(names[w->given->dtype]));
    name_no_ends(config);
    cs_status status = write_json(w, "config.json", config);
    json_decref(config);
    return status;
}

/* Copies a file of the folder `from` under the name `name`. A missing file is no error. */
static cs_status copy_file(const writing *w, const char *from, const char *file, const char *name)
{
    char *source = ce_files_join(from, file), *to = ce_files_join(w->folder, name), *text = NULL;
    const json_t *instead = json_object_get(w->given->files, name);
    size_t length = json_string_length(instead);
    cs_status status = instead ? CS_OK : ce_files_read(&text, &length, source, 1 << 30);
    if (instead)
        status = ce_files_write(to, json_string_value(instead), length);
    else if (status == CS_OK)
        status = ce_files_write(to, text, length);
    else if (status == CS_NOT_FOUND)
        status = CS_OK;
    free(text);
    free(source);
    free(to);
    return status;
}

/* Copies the files of the tokenizer, but not its template if the training had one of its own. If `path` is a file, this
 * file is the only one with a vocabulary. */
static cs_status copy_tokenizer(const writing *w, const char *path)
{
    static const char *const names[] = { "tokenizer.json",
                                         "vocab.json",
                                         "merges.txt",
                                         "tokenizer.model",
                                         "tokenizer_config.json",
                                         "special_tokens_map.json",
                                         "added_tokens.json",
                                         "chat_template.jinja",
                                         "chat_template.json" };
    enum { VOCABULARIES = 4, TEMPLATES = 2 };
    size_t count = sizeof names / sizeof *names - (w->given->chat ? TEMPLATES : 0);
    bool whole = ce_files_is_folder(path);
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    char *folder = whole ? strdup(path) : slash ? strndup(path, (size_t)(slash - path)) : strdup(".");
    cs_status status = folder ? CS_OK : ce_fail(CS_NO_MEMORY, "out of memory for a folder's name");
    for (size_t i = whole ? 0 : VOCABULARIES; i < count && status == CS_OK; i++)
        status = copy_file(w, folder, names[i], names[i]);
    if (status == CS_OK && !whole)
        status = copy_file(w, folder, slash ? slash + 1 : path,
                           dot && strcmp(dot, ".model") == 0 ? "tokenizer.model" : "tokenizer.json");
    free(folder);
    return status;
}

/* Copies the templates of other names than "default", unless the training had a template of its own. */
static cs_status copy_templates(const writing *w, const char *tokenizer)
{
    static const char *const names[] = { "tool_use.jinja", "rag.jinja" };
    char *from = ce_files_join(tokenizer, "additional_chat_templates");
    char *to = ce_files_join(w->folder, "additional_chat_templates");
    cs_status status = CS_OK;
    bool there = !w->given->chat && ce_files_is_folder(from);
    if (there)
        status = ce_files_make_directories(to);
    for (size_t i = 0; i < sizeof names / sizeof *names && there && status == CS_OK; i++) {
        char *name = ce_files_join("additional_chat_templates", names[i]);
        status = copy_file(w, tokenizer, name, name);
        free(name);
    }
    free(from);
    free(to);
    return status;
}

/* Writes generation_config.json, which other programs read: that of the base model, with the ids of the tokens that end
 * an answer. */
static cs_status write_generation(const writing *w)
{
    json_t *config, *ids = json_array();
    cs_status status = ce_huggingface_ends(ids, &config, w->given->beside, w->given->config);
    ce_huggingface_add_ends(ids, w->given->ends);
    json_object_set(config, "eos_token_id", json_array_size(ids) == 1 ? json_array_get(ids, 0) : ids);
    if (status == CS_OK)
        status = write_json(w, "generation_config.json", config);
    json_decref(ids);
    json_decref(config);
    return status;
}

/* Writes what is needed beside the weights to generate as the training's run does. */
static cs_status write_beside(const writing *w)
{
    const ce_huggingface_output *given = w->given;
    const char *tokenizer = given->tokenizer ? given->tokenizer : given->beside;
    CE_TRY(tokenizer ? copy_tokenizer(w, tokenizer) : CS_OK);
    CE_TRY(tokenizer ? copy_templates(w, tokenizer) : CS_OK);
    if (given->chat) {
        char *path = ce_files_join(w->folder, "chat_template.jinja");
        cs_status status = ce_files_write(path, given->chat, strlen(given->chat));
        free(path);
        CE_TRY(status);
    }
    if (json_array_size(given->ends) > 0)
        return write_generation(w);
    return given->beside ? copy_file(w, given->beside, "generation_config.json", "generation_config.json") : CS_OK;
}

/* If the folder has no tokenizer, reports this and the reason. */
static void report_tokenizer(const ce_huggingface_output *output)
{
    if (output->adapter || !output->config)
        return;
    bool bytes = json_integer_value(json_object_get(output->config, "vocab_size")) == 256;
    if (!ce_files_holds_tokenizer(output->folder))
        ce_log(CE_LOG_INFO, "%s has no tokenizer: %s", output->folder,
               bytes ? "the tokens of this model are bytes, 0 to 255"
                     : "the files of the model's tokenizer are unknown; copy them there");
}

static cs_status write_all(writing *w)
{
    w->buffer = malloc(CE_SOURCE_BUFFER);
    if (!w->buffer)
        return ce_fail(CS_NO_MEMORY, "out of memory for writing %s", w->given->folder);
    CE_TRY(deal(w));
    CE_TRY(write_shards(w));
    CE_TRY(write_index(w));
    CE_TRY(write_config(w));
    CE_TRY(write_beside(w));
    CE_TRY(ce_files_sync_directory(w->folder));
    CE_TRY(ce_files_rename(w->folder, w->given->folder));
    report_tokenizer(w->given);
    return CS_OK;
}

/* Makes a temporary folder next to the target folder, and locks it. Its name is the target's path, without slashes at
 * the end, followed by a suffix. What a killed process has left there is removed first. */
static cs_status make_folder(writing *w)
{
    size_t length = strlen(w->given->folder);
    while (length > 1 && w->given->folder[length - 1] == '/')
        length--;
    if (asprintf(&w->folder, "%.*s.cspeed-tmp", (int)length, w->given->folder) < 0)
        ce_fatal(CS_NO_MEMORY, "out of memory for a folder's name");
    bool taken = ce_staging_is_locked(w->folder);
    if (!taken) {
        CE_TRY(ce_files_remove_tree(w->folder));
        CE_TRY(ce_files_make_directories(w->folder));
        CE_TRY(ce_files_open(&w->lock, w->folder));
        taken = flock(w->lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK; /* some file systems have no locks */
    }
    if (!taken)
        return CS_OK;
    if (w->lock >= 0) /* the cleanup must not remove what the other process writes */
        close(w->lock);
    w->lock = -1;
    return ce_fail(CS_IO_ERROR, "another process writes %s in %s: wait for its end, or name another folder",
                   w->given->folder, w->folder);
}

cs_status ce_huggingface_write(const ce_huggingface_output *output, ce_source *source)
{
    writing w = { .given = output, .source = source, .lock = -1 };
    if (ce_files_exists(output->folder))
        return ce_fail(CS_BAD_CONFIG, "%s exists already: name a new folder", output->folder);
    ce_joined_experts(source);
    cs_status status = make_folder(&w);
    if (status == CS_OK)
        status = write_all(&w);
    if (status != CS_OK && w.lock >= 0) { /* The cleanup must not overwrite the message of the failure. */
        char *why = strdup(cs_error());
        if (ce_files_remove_tree(w.folder) != CS_OK || why)
            ce_fail(status, "%s", why ? why : "out of memory");
        free(why);
    }
    if (w.lock >= 0)
        close(w.lock);
    free(w.shards);
    free(w.buffer);
    free(w.folder);
    return status;
}
