/* manifest.c - manifest.json, the commit record of a checkpoint: writes, parses and validates it. */
#include "checkpoint/manifest.h"
#include "base/crc.h"
#include "base/must.h"
#include "base/boxes.h"
#include "base/files.h"
#include "checkpoint/write_plan.h"
#include "checkpoint/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ZEROS "00000000"
enum { DIGITS = 8 };

bool ce_manifest_digits(uint32_t *value, const char *digits)
{
    if (!digits || strlen(digits) != DIGITS || strspn(digits, "0123456789abcdef") != DIGITS)
        return false;
    *value = (uint32_t)strtoul(digits, NULL, 16);
    return true;
}

/* Returns the offset of the digits of the manifest's own checksum, or 0 if the digits are not found. The first "crc32c"
 * in the text belongs to this checksum, because only the format and the version precede it. */
static size_t find_digits(const char *text, size_t length)
{
    static const char mark[] = "\"crc32c\": \"";
    const char *found = memmem(text, length, mark, sizeof mark - 1);
    size_t at = found ? (size_t)(found - text) + sizeof mark - 1 : 0;
    return found && length - at >= DIGITS ? at : 0;
}

static uint32_t text_crc(const char *text, size_t length, size_t digits)
{
    uint32_t crc = ce_crc32c(0, text, digits);
    crc = ce_crc32c(crc, ZEROS, DIGITS);
    return ce_crc32c(crc, text + digits + DIGITS, length - digits - DIGITS);
}

/* Returns a JSON object that describes a text file beside the manifest, {"file", "bytes", "crc32c"}, or null if `text`
 * is NULL. */
static json_t *describe_text(const char *file, const char *text)
{
    char digits[DIGITS + 1];
    if (!text)
        return json_null();
    snprintf(digits, sizeof digits, "%08x", (unsigned)ce_crc32c(0, text, strlen(text)));
    return json_pack("{s:s, s:I, s:s}", "file", file, "bytes", (json_int_t)strlen(text), "crc32c", digits);
}

static json_t *copy_or_empty(const json_t *value)
{
    return value ? json_deep_copy(value) : json_object();
}

static void stamp(char text[32])
{
    time_t now = time(NULL);
    struct tm date;
    gmtime_r(&now, &date);
    strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &date);
}

char *ce_manifest_text(const ce_checkpoint_content *content, const char *save_id, json_t *tensors, json_t *files)
{
    char created[32], digits[DIGITS + 1];
    stamp(created);
    json_t *root =
        json_pack("{s:s, s:i, s:s, s:s, s:s, s:I, s:s, s:o, s:O, s:o, s:O, s:o, s:o, s:O*, s:o}", "format",
                  "cspeed-checkpoint", "version", CE_MANIFEST_VERSION, "crc32c", ZEROS, "save_id", save_id, "tag",
                  content->tag, "step", (json_int_t)content->step, "created", created, "engine",
                  copy_or_empty(content->engine), "tensors", tensors, "aliases", copy_or_empty(content->aliases),
                  "files", files, "client_state", describe_text(CE_CLIENT_STATE_FILE, content->client_state), "config",
                  describe_text(CE_CONFIG_FILE, content->config_text), CE_LINE_KEY, content->line, "provenance",
                  copy_or_empty(content->provenance));
    char *text = root ? json_dumps(root, JSON_INDENT(1)) : NULL;
    json_decref(root);
    if (!text)
        ce_fatal(CS_NO_MEMORY, "checkpoint: no memory for the manifest");
    size_t length = strlen(text), at = find_digits(text, length);
    snprintf(digits, sizeof digits, "%08x", (unsigned)text_crc(text, length, at));
    memcpy(text + at, digits, DIGITS);
    return text;
}

static cs_status check_text(const char *text, size_t length, const char *path)
{
    char digits[DIGITS + 1] = { 0 };
    uint32_t wanted;
    size_t at = find_digits(text, length);
    if (at)
        memcpy(digits, text + at, DIGITS);
    if (!ce_manifest_digits(&wanted, digits))
        return ce_fail(CS_BAD_FILE,
                       "%s: no \"crc32c\" of eight digits: it is not the manifest of a checkpoint, or it is damaged",
                       path);
    if (text_crc(text, length, at) != wanted)
        return ce_fail(CS_BAD_FILE, "%s: its text has CRC32C %08x, not the %s it names: the manifest is damaged", path,
                       (unsigned)text_crc(text, length, at), digits);
    return CS_OK;
}

/* Returns true if the name has the form "FOLDER/shard-00001-of-00002.safetensors", with any numbers of five digits. */
static bool is_shard_name(const char *name)
{
    for (int i = 0; i < CE_WRITE_PLAN_FOLDERS; i++) {
        char expected[96];
        int number, total;
        size_t folder = strlen(ce_write_plan_folders[i]);
        if (strncmp(name, ce_write_plan_folders[i], folder) != 0 ||
            sscanf(name + folder, "/shard-%5d-of-%5d.", &number, &total) != 2)
            continue;
        snprintf(expected, sizeof expected, "%s/shard-%05d-of-%05d.safetensors", ce_write_plan_folders[i], number,
                 total);
        if (number >= 1 && number <= total && strcmp(name, expected) == 0)
            return true;
    }
    return false;
}

static cs_status read_file(ce_manifest_file *file, const json_t *value, const char *path)
{
    const json_t *bytes = json_object_get(value, "bytes");
    file->name = json_string_value(json_object_get(value, "name"));
    file->bytes = json_integer_value(bytes);
    if (!file->name || !is_shard_name(file->name))
        return ce_fail(CS_BAD_FILE, "%s: files: \"%.200s\" is not the name of a shard", path,
                       file->name ? file->name : "");
    if (!json_is_integer(bytes) || file->bytes < 0 ||
        !ce_manifest_digits(&file->header_crc, json_string_value(json_object_get(value, "header_crc32c"))))
        return ce_fail(CS_BAD_FILE, "%s: files: %s: \"bytes\" or \"header_crc32c\" is missing or wrong", path,
                       file->name);
    return CS_OK;
}

static cs_status read_tensor(ce_manifest_tensor *tensor, const char *name, const json_t *value, const char *path)
{
    const json_t *shape = json_object_get(value, "shape");
    const char *dtype = json_string_value(json_object_get(value, "dtype"));
    int64_t count;
    const char *folder = json_string_value(json_object_get(value, "folder"));
    tensor->name = name;
    tensor->folder = folder ? ce_write_plan_folder(folder) : CE_WRITE_PLAN_WEIGHTS;
    if (tensor->folder < 0)
        return ce_fail(CS_BAD_FILE, "%s: tensors: %s: \"%.20s\" is not a folder of a checkpoint", path, name, folder);
    tensor->dims = (int32_t)json_array_size(shape);
    if (!dtype || !ce_safetensors_dtype(&tensor->dtype, dtype))
        return ce_fail(CS_BAD_FILE, "%s: tensors: %s: the type \"%.20s\" is unknown", path, name, dtype ? dtype : "");
    if (!json_is_array(shape) || json_array_size(shape) > CS_MAX_DIMS)
        return ce_fail(CS_BAD_FILE, "%s: tensors: %s: \"shape\" must be a list of at most %d numbers", path, name,
                       CS_MAX_DIMS);
    for (int i = 0; i < tensor->dims; i++) {
        const json_t *size = json_array_get(shape, (size_t)i);
        tensor->shape[i] = json_integer_value(size);
        if (!json_is_integer(size) || tensor->shape[i] < 0)
            return ce_fail(CS_BAD_FILE,
                           "%s: tensors: %s: \"shape\" has an element that is not a whole number of 0 or more", path,
                           name);
    }
    if (!ce_boxes_count(&count, tensor->shape, tensor->dims, (int64_t)cs_dtype_bytes(tensor->dtype)))
        return ce_fail(CS_BAD_FILE, "%s: tensors: %s: more bytes than a file can have", path, name);
    return CS_OK;
}

static int by_name(const void *one, const void *other)
{
    return strcmp(((const ce_manifest_tensor *)one)->name, ((const ce_manifest_tensor *)other)->name);
}

static cs_status read_tensors(ce_manifest *manifest, const char *path)
{
    json_t *tensors = json_object_get(manifest->root, "tensors"), *value;
    const char *name;
    if (!json_is_object(tensors))
        return ce_fail(CS_BAD_FILE, "%s: \"tensors\" is missing or no object", path);
    manifest->tensors = ce_must_alloc(json_object_size(tensors) * sizeof *manifest->tensors);
    json_object_foreach (tensors, name, value)
        CE_TRY(read_tensor(&manifest->tensors[manifest->tensor_count++], name, value, path));
    qsort(manifest->tensors, (size_t)manifest->tensor_count, sizeof *manifest->tensors, by_name);
    return CS_OK;
}

/* Reads the list of files. A file that is listed twice is an error, so that the work of reading is bounded by the
 * number of files that exist. */
static cs_status read_files(ce_manifest *manifest, const char *path)
{
    const json_t *files = json_object_get(manifest->root, "files");
    if (!json_is_array(files))
        return ce_fail(CS_BAD_FILE, "%s: \"files\" is missing or no list", path);
    json_auto_t *seen = json_object();
    cs_status status = CS_OK;
    manifest->files = ce_must_alloc(json_array_size(files) * sizeof *manifest->files);
    for (size_t i = 0; i < json_array_size(files) && status == CS_OK; i++) {
        ce_manifest_file *file = &manifest->files[manifest->file_count++];
        status = read_file(file, json_array_get(files, i), path);
        if (status == CS_OK && json_object_get(seen, file->name))
            status = ce_fail(CS_BAD_FILE, "%s: files: %s is listed twice", path, file->name);
        else if (status == CS_OK && __builtin_add_overflow(manifest->bytes, file->bytes, &manifest->bytes))
            status = ce_fail(CS_BAD_FILE, "%s: files: more bytes than a file system can have", path);
        else if (status == CS_OK)
            json_object_set_new(seen, file->name, json_true());
    }
    return status;
}

static cs_status read_note(ce_manifest_note *note, const ce_manifest *manifest, const char *key, const char *name,
                           const char *path)
{
    const json_t *about = json_object_get(manifest->root, key), *bytes = json_object_get(about, "bytes");
    note->bytes = -1;
    if (!about || json_is_null(about))
        return CS_OK;
    const char *file = json_string_value(json_object_get(about, "file"));
    note->bytes = json_integer_value(bytes);
    if (!file || strcmp(file, name) != 0 || !json_is_integer(bytes) || note->bytes < 0 ||
        note->bytes > CE_MANIFEST_LIMIT ||
        !ce_manifest_digits(&note->crc, json_string_value(json_object_get(about, "crc32c"))))
        return ce_fail(CS_BAD_FILE, "%s: \"%s\" does not describe %s", path, key, name);
    return CS_OK;
}

#define MAX_EXACT                                                                                                      \
    (INT64_C(1) << 53) /* above this number, JSON readers that use double do not represent integers exactly */

/* The type and bounds of a member of the manifest's "engine". A member that is absent is not checked. */
typedef struct {
    const char *section, *key;
    json_type type;
    int64_t min, greatest; /* bounds of an integer */
} engine_row;

static const engine_row engine_rows[] = {
    { NULL, "global_step", JSON_INTEGER, 0, MAX_EXACT },
    { NULL, "samples", JSON_INTEGER, 0, MAX_EXACT },
    { NULL, "tokens", JSON_INTEGER, 0, MAX_EXACT },
    { NULL, "skipped_steps", JSON_INTEGER, 0, MAX_EXACT },
    { "loss_scale", "kind", JSON_STRING, 0, 0 },
    { "loss_scale", "scale", JSON_REAL, 0, 0 },
    { "loss_scale", "hysteresis", JSON_INTEGER, -MAX_EXACT, MAX_EXACT },
    { "loss_scale", "iteration", JSON_INTEGER, 0, MAX_EXACT },
    { "loss_scale", "last_overflow", JSON_INTEGER, -1, MAX_EXACT },
    { "optimizer", "type", JSON_STRING, 0, 0 },
    { "optimizer", "step", JSON_INTEGER, 0, MAX_EXACT },
    { "lr_scheduler", "last_step", JSON_INTEGER, 0, MAX_EXACT },
    { "rng", "seed", JSON_INTEGER, INT64_MIN, INT64_MAX },
    { "data", "windows", JSON_INTEGER, 0, MAX_EXACT },
    { "data", "mark", JSON_STRING, 0, 0 },
    { "data", "position", JSON_INTEGER, 0, MAX_EXACT },
};

static cs_status check_engine_row(const json_t *engine, const engine_row *row, const char *path)
{
    const json_t *section = row->section ? json_object_get(engine, row->section) : engine;
    const json_t *value = json_object_get(section, row->key);
    if (section && !json_is_object(section))
        return ce_fail(CS_BAD_FILE, "%s: engine: \"%s\" is not an object", path, row->section);
    if (!value)
        return CS_OK;
    if (row->type == JSON_STRING && !json_is_string(value))
        return ce_fail(CS_BAD_FILE, "%s: engine: %s: \"%s\" is not a string", path, row->section, row->key);
    if (row->type == JSON_REAL && !(json_number_value(value) > 0))
        return ce_fail(CS_BAD_FILE, "%s: engine: %s: \"%s\" is not a number above 0", path, row->section, row->key);
    json_int_t number = json_integer_value(value);
    if (row->type == JSON_INTEGER && (!json_is_integer(value) || number < row->min || number > row->greatest))
        return ce_fail(CS_BAD_FILE, "%s: engine: \"%s\" is not a whole number from %lld to %lld", path, row->key,
                       (long long)row->min, (long long)row->greatest);
    return CS_OK;
}

static cs_status check_engine(const ce_manifest *manifest, const char *path)
{
    const json_t *engine = json_object_get(manifest->root, "engine");
    if (!json_is_object(engine))
        return ce_fail(CS_BAD_FILE, "%s: \"engine\" is missing or no object", path);
    for (size_t i = 0; i < sizeof engine_rows / sizeof *engine_rows; i++)
        CE_TRY(check_engine_row(engine, &engine_rows[i], path));
    return CS_OK;
}

/* Checks the list of ancestors. `line` is NULL for manifests that older versions wrote. */
static cs_status check_line(const json_t *line, const char *path)
{
    size_t i;
    json_t *entry;
    uint32_t digest;
    if (line && !json_is_array(line))
        return ce_fail(CS_BAD_FILE, "%s: \"" CE_LINE_KEY "\" is not a list", path);
    json_array_foreach (line, i, entry)
        if (!json_is_string(json_object_get(entry, "tag")) ||
            !ce_manifest_digits(&digest, json_string_value(json_object_get(entry, "crc32c"))))
            return ce_fail(CS_BAD_FILE, "%s: " CE_LINE_KEY ": entry %zu has no \"tag\" or no \"crc32c\"", path, i);
    return CS_OK;
}

static cs_status read_head(ce_manifest *manifest, const char *path)
{
    const json_t *version = json_object_get(manifest->root, "version"), *step = json_object_get(manifest->root, "step");
    const char *format = json_string_value(json_object_get(manifest->root, "format"));
    manifest->tag = json_string_value(json_object_get(manifest->root, "tag"));
    manifest->save_id = json_string_value(json_object_get(manifest->root, "save_id"));
    manifest->step = json_integer_value(step);
    if (!format || strcmp(format, "cspeed-checkpoint") != 0 || !json_is_integer(version))
        return ce_fail(CS_BAD_FILE, "%s: not the manifest of a checkpoint", path);
    if (json_integer_value(version) < 1)
        return ce_fail(CS_BAD_FILE, "%s: there is no format version %lld", path,
                       (long long)json_integer_value(version));
    if (json_integer_value(version) > CE_MANIFEST_VERSION)
        return ce_fail(CS_UNSUPPORTED, "%s: format version %lld, and this program reads up to %d; use a newer one",
                       path, (long long)json_integer_value(version), CE_MANIFEST_VERSION);
    if (!manifest->tag || !manifest->tag[0] || !manifest->save_id || !json_is_integer(step) || manifest->step < 0 ||
        manifest->step > MAX_EXACT)
        return ce_fail(CS_BAD_FILE, "%s: \"tag\", \"save_id\" or \"step\" is missing or wrong", path);
    return check_line(json_object_get(manifest->root, CE_LINE_KEY), path);
}

cs_status ce_manifest_parse(ce_manifest *manifest, const char *text, size_t length, const char *path)
{
    *manifest = (ce_manifest){ 0 };
    CE_TRY(check_text(text, length, path));
    manifest->root = ce_json_strict(text, length);
    if (!manifest->root)
        return ce_fail(CS_BAD_FILE, "%s: %s", path, cs_error());
    manifest->digest = ce_crc32c(0, text, length);
    CE_TRY(read_head(manifest, path));
    CE_TRY(read_tensors(manifest, path));
    CE_TRY(read_files(manifest, path));
    CE_TRY(check_engine(manifest, path));
    CE_TRY(read_note(&manifest->config, manifest, "config", CE_CONFIG_FILE, path));
    return read_note(&manifest->client_state, manifest, "client_state", CE_CLIENT_STATE_FILE, path);
}

cs_status ce_manifest_load(ce_manifest *manifest, const char *directory)
{
    CE_FREED char *path = ce_files_join(directory, CE_MANIFEST_FILE);
    CE_FREED char *text = NULL;
    size_t length;
    *manifest = (ce_manifest){ 0 };
    CE_TRY(ce_files_read(&text, &length, path, CE_MANIFEST_LIMIT));
    return ce_manifest_parse(manifest, text, length, path);
}

void ce_manifest_close(ce_manifest *manifest)
{
    json_decref(manifest->root);
    free(manifest->tensors);
    free(manifest->files);
    *manifest = (ce_manifest){ 0 };
}

const ce_manifest_tensor *ce_manifest_find(const ce_manifest *manifest, const char *name)
{
    ce_manifest_tensor wanted = { .name = name };
    if (manifest->tensor_count == 0)
        return NULL;
    return bsearch(&wanted, manifest->tensors, (size_t)manifest->tensor_count, sizeof wanted, by_name);
}

cs_status ce_manifest_read_text(char **text, size_t *length, const ce_manifest *manifest, const char *directory,
                                const char *file)
{
    const ce_manifest_note *note = strcmp(file, CE_CONFIG_FILE) == 0 ? &manifest->config : &manifest->client_state;
    *text = NULL;
    *length = 0;
    if (note->bytes < 0)
        return CS_OK;
    CE_FREED char *path = ce_files_join(directory, file);
    cs_status status = ce_files_read(text, length, path, CE_MANIFEST_LIMIT);
    uint32_t crc = status == CS_OK ? ce_crc32c(0, *text, *length) : 0;
    if (status == CS_NOT_FOUND)
        status = ce_fail(CS_BAD_FILE, "%s is missing, though the manifest lists it", path);
    else if (status == CS_OK && (int64_t)*length != note->bytes)
        status =
            ce_fail(CS_BAD_FILE, "%s has %zu bytes where the manifest says %lld: the file was truncated or extended",
                    path, *length, (long long)note->bytes);
    else if (status == CS_OK && crc != note->crc)
        status = ce_fail(CS_BAD_FILE, "%s has CRC32C %08x where the manifest says %08x: it is damaged", path,
                         (unsigned)crc, (unsigned)note->crc);
    if (status == CS_OK)
        return CS_OK;
    free(*text);
    *text = NULL;
    return status;
}

cs_status ce_manifest_file_status(const ce_manifest_file *file, const char *path, cs_status status, int64_t bytes)
{
    if (status == CS_NOT_FOUND)
        return ce_fail(CS_BAD_FILE, "%s is missing, though the manifest lists it", path);
    if (status == CS_OK && bytes != file->bytes)
        return ce_fail(CS_BAD_FILE,
                       "%s has %lld bytes where the manifest says %lld: the file was truncated or extended", path,
                       (long long)bytes, (long long)file->bytes);
    return status;
}

cs_status ce_manifest_check_files(const ce_manifest *manifest, const char *directory)
{
    for (int64_t i = 0; i < manifest->file_count; i++) {
        const ce_manifest_file *file = &manifest->files[i];
        CE_FREED char *path = ce_files_join(directory, file->name);
        int64_t bytes = 0;
        cs_status status = ce_files_size(&bytes, path);
        status = ce_manifest_file_status(file, path, status, bytes);
        CE_TRY(status);
    }
    return CS_OK;
}
