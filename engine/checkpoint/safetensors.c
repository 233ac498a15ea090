/* safetensors.c - parses the header of a safetensors file. The file begins with a number N of 64 bits and N bytes of
 * JSON; the data follow. */
#include "checkpoint/safetensors.h"
#include "base/must.h"
#include "base/files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    int64_t bits;
} types[] = {
    { "BOOL", 8 },        { "F4", 4 },          { "F6_E2M3", 6 }, { "F6_E3M2", 6 }, { "U8", 8 },   { "I8", 8 },
    { "F8_E5M2", 8 },     { "F8_E4M3", 8 },     { "F8_E8M0", 8 }, { "I16", 16 },    { "U16", 16 }, { "F16", 16 },
    { "F8_E4M3FNUZ", 8 }, { "F8_E5M2FNUZ", 8 }, { "BF16", 16 },   { "I32", 32 },    { "U32", 32 }, { "F32", 32 },
    { "C64", 64 },        { "F64", 64 },        { "I64", 64 },    { "U64", 64 },
};

static const char *const own_types[] = {
    [CS_F32] = "F32", [CS_BF16] = "BF16", [CS_F16] = "F16", [CS_I32] = "I32", [CS_I64] = "I64", [CS_U8] = "U8",
};

json_t *ce_safetensors_numbers(const int64_t *numbers, int count)
{
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, json_integer(numbers[i]));
    return list;
}

const char *ce_safetensors_name(cs_dtype dtype)
{
    return own_types[dtype];
}

bool ce_safetensors_dtype(cs_dtype *dtype, const char *name)
{
    for (size_t i = 0; i < sizeof own_types / sizeof *own_types; i++) {
        if (strcmp(own_types[i], name) == 0) {
            *dtype = (cs_dtype)i;
            return true;
        }
    }
    return false;
}

cs_status ce_safetensors_header_bytes(int64_t *bytes, const uint8_t *start, size_t start_bytes, int64_t file_bytes,
                                      const char *path)
{
    uint64_t length = 0;
    if (file_bytes < 8 || start_bytes < 8)
        return ce_fail(CS_BAD_FILE,
                       "%s: it has %lld bytes; a safetensors file begins with 8 bytes that are the length of its "
                       "header",
                       path, (long long)file_bytes);
    for (int i = 7; i >= 0; i--)
        length = length << 8 | start[i];
    if (length > CE_SAFETENSORS_MAX_HEADER)
        return ce_fail(CS_BAD_FILE,
                       "%s: a header of %llu bytes; at most %d are allowed: not a safetensors file, or damaged", path,
                       (unsigned long long)length, CE_SAFETENSORS_MAX_HEADER);
    *bytes = 8 + (int64_t)length;
    if (*bytes > file_bytes)
        return ce_fail(CS_BAD_FILE,
                       "%s: a header of %llu bytes in a file of %lld: the file is truncated, or it is not a "
                       "safetensors file",
                       path, (unsigned long long)length, (long long)file_bytes);
    return CS_OK;
}

/* Returns true if the text has the number "-0". The caller refuses a header with this number: JSON allows "-0" and the
 * parser reads it as 0, but no writer writes a count or an offset in this form. */
static bool has_negative_zero(const char *text, size_t length)
{
    bool inside = false;
    for (size_t i = 0; i + 1 < length; i++) {
        if (inside && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            inside = !inside;
        else if (!inside && text[i] == '-' && text[i + 1] == '0')
            return i + 2 == length || !strchr(".eE", text[i + 2]);
    }
    return false;
}

static bool read_count(int64_t *count, const json_t *value)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *count = json_integer_value(value);
    return true;
}

/* Computes the number of bytes of a tensor. The factors are multiplied from left to right, as in the reference reader,
 * so that the product overflows for the same shapes. */
static bool bytes_of(int64_t *bytes, const ce_safetensors_entry *entry)
{
    int64_t bits = 0, count = 1;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, entry->dtype) == 0)
            bits = types[i].bits;
    for (int i = 0; i < entry->dims; i++)
        if (__builtin_mul_overflow(count, entry->shape[i], &count))
            return false;
    if (bits == 0 || __builtin_mul_overflow(count, bits, &count) || count % 8 != 0)
        return false;
    *bytes = count / 8;
    return true;
}

static cs_status read_shape(ce_safetensors_entry *entry, int64_t *shape, const json_t *list, const char *path)
{
    if (!json_is_array(list) || json_array_size(list) > CE_SAFETENSORS_MAX_DIMS)
        return ce_fail(CS_BAD_FILE, "%s: tensor %s: \"shape\" must be a list of at most %d numbers", path, entry->key,
                       CE_SAFETENSORS_MAX_DIMS);
    entry->dims = (int)json_array_size(list);
    entry->shape = shape;
    for (int i = 0; i < entry->dims; i++)
        if (!read_count(&shape[i], json_array_get(list, (size_t)i)))
            return ce_fail(CS_BAD_FILE,
                           "%s: tensor %s: \"shape\" has an element that is not a whole number of 0 or more", path,
                           entry->key);
    return CS_OK;
}

static cs_status read_entry(ce_safetensors_entry *entry, int64_t *shape, const char *key, const json_t *value,
                            const char *path)
{
    int64_t bytes;
    entry->key = key;
    if (strlen(key) > CE_SAFETENSORS_MAX_NAME)
        return ce_fail(CS_BAD_FILE, "%s: a tensor name of %zu bytes (%.60s...); at most %d are allowed", path,
                       strlen(key), key, CE_SAFETENSORS_MAX_NAME);
    if (!json_is_object(value))
        return ce_fail(CS_BAD_FILE, "%s: tensor %s is not described by an object", path, key);
    entry->dtype = json_string_value(json_object_get(value, "dtype"));
    if (!entry->dtype)
        return ce_fail(CS_BAD_FILE, "%s: tensor %s: \"dtype\" is missing or no string", path, key);
    CE_TRY(read_shape(entry, shape, json_object_get(value, "shape"), path));
    const json_t *offsets = json_object_get(value, "data_offsets");
    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !read_count(&entry->begin, json_array_get(offsets, 0)) || !read_count(&entry->end, json_array_get(offsets, 1)))
        return ce_fail(CS_BAD_FILE, "%s: tensor %s: \"data_offsets\" must be two whole numbers of 0 or more", path,
                       key);
    if (!bytes_of(&bytes, entry))
        return ce_fail(CS_BAD_FILE,
                       "%s: tensor %s: the type %s is unknown, or that many elements have no whole number of bytes",
                       path, key, entry->dtype);
    if (entry->end < entry->begin || entry->end - entry->begin != bytes)
        return ce_fail(CS_BAD_FILE, "%s: tensor %s needs %lld bytes, but its place is from byte %lld to byte %lld",
                       path, key, (long long)bytes, (long long)entry->begin, (long long)entry->end);
    return CS_OK;
}

static int by_begin(const void *one, const void *other)
{
    const ce_safetensors_entry *a = one, *b = other;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

static cs_status check_metadata(const json_t *metadata, const char *path)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return ce_fail(CS_BAD_FILE, "%s: \"__metadata__\" is not an object", path);
    json_object_foreach ((json_t *)(uintptr_t)metadata, key, value)
        if (!json_is_string(value))
            return ce_fail(CS_BAD_FILE, "%s: \"__metadata__\": %s is not a string", path, key);
    return CS_OK;
}

/* Checks that the tensors leave no gaps, do not overlap, and end where the file ends. */
static cs_status check_tiling(const ce_safetensors *header, int64_t data_bytes, const char *path)
{
    int64_t end = 0;
    for (int64_t i = 0; i < header->count; i++) {
        const ce_safetensors_entry *entry = &header->entries[i];
        if (entry->begin != end)
            return ce_fail(CS_BAD_FILE,
                           "%s: tensor %s begins at byte %lld and should begin at byte %lld: tensors overlap or "
                           "leave a gap",
                           path, entry->key, (long long)entry->begin, (long long)end);
        end = entry->end;
    }
    if (end != data_bytes)
        return ce_fail(CS_BAD_FILE,
                       "%s: %lld bytes of data where the header describes %lld: the file was truncated or extended",
                       path, (long long)data_bytes, (long long)end);
    return CS_OK;
}

static void take_memory(ce_safetensors *header)
{
    size_t numbers = 1;
    const char *key;
    json_t *value;
    json_object_foreach (header->root, key, value)
        numbers += json_array_size(json_object_get(value, "shape"));
    header->entries = ce_must_alloc((json_object_size(header->root) + 1) * sizeof *header->entries);
    header->shapes = ce_must_alloc(numbers * sizeof *header->shapes);
}

cs_status ce_safetensors_parse(ce_safetensors *header, const char *text, size_t length, int64_t data_bytes,
                               const char *path)
{
    *header = (ce_safetensors){ 0 };
    header->root = ce_json_strict(text, length);
    if (!header->root)
        return ce_fail(CS_BAD_FILE, "%s: header: %s", path, cs_error());
    if (!json_is_object(header->root) || has_negative_zero(text, length))
        return ce_fail(CS_BAD_FILE, "%s: header: %s", path,
                       json_is_object(header->root) ? "a number -0" : "not an object");
    take_memory(header);
    int64_t *shape = header->shapes;
    const char *key;
    json_t *value;
    json_object_foreach (header->root, key, value) {
        if (strcmp(key, "__metadata__") == 0) {
            header->metadata = json_is_null(value) ? NULL : value;
            continue;
        }
        ce_safetensors_entry *entry = &header->entries[header->count++];
        CE_TRY(read_entry(entry, shape, key, value, path));
        shape += entry->dims;
    }
    if (header->metadata)
        CE_TRY(check_metadata(header->metadata, path));
    qsort(header->entries, (size_t)header->count, sizeof *header->entries, by_begin);
    return check_tiling(header, data_bytes, path);
}

void ce_safetensors_close(ce_safetensors *header)
{
    json_decref(header->root);
    free(header->entries);
    free(header->shapes);
    *header = (ce_safetensors){ 0 };
}

static cs_status load_open(char **block, size_t *block_bytes, int64_t file_bytes, int descriptor, const char *path)
{
    uint8_t start[8] = { 0 };
    int64_t bytes;
    size_t start_bytes = file_bytes < 8 ? (size_t)file_bytes : 8;
    CE_TRY(ce_files_read_at(descriptor, start, start_bytes, 0, path));
    CE_TRY(ce_safetensors_header_bytes(&bytes, start, start_bytes, file_bytes, path));
    *block_bytes = (size_t)bytes;
    *block = ce_must_alloc(*block_bytes);
    return ce_files_read_at(descriptor, *block, *block_bytes, 0, path);
}

cs_status ce_safetensors_load(char **block, size_t *block_bytes, int64_t *file_bytes, const char *path)
{
    int descriptor;
    *block = NULL;
    CE_TRY(ce_files_size(file_bytes, path));
    CE_TRY(ce_files_open(&descriptor, path));
    cs_status status = load_open(block, block_bytes, *file_bytes, descriptor, path);
    close(descriptor);
    return status;
}
