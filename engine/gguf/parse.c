/* parse.c - the header of a GGUF file. All numbers are little-endian:
 *
 *     "GGUF", version, number of tensors, number of keys
 *     for each key: name, type, value
 *     for each tensor: name, number of dimensions, dimensions from the inner one, type, offset
 *     the elements, from the next multiple of general.alignment on, where the offsets count from
 *
 * A name or a text is its length in 8 bytes and its bytes. */
#include "gguf/gguf.h"
#include "base/half.h"
#include "base/input.h"
#include "base/must.h"
#include "base/names.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { VERSION = 3, ALIGNMENT = 32, MAX_ALIGNMENT = 1 << 20, MAX_DEPTH = 4, HEADER = 4 + 4 + 8 + 8 };
enum { STRING = 8, ARRAY = 9, VALUE_TYPES = 13 };

/* The types of values: bytes, and the least bytes that an element of an array has. */
static const struct {
    int bytes;
    enum { UNSIGNED, SIGNED, REAL, TRUTH, OTHER } kind;
} value_types[VALUE_TYPES] = { { 1, UNSIGNED }, { 1, SIGNED }, { 2, UNSIGNED }, { 2, SIGNED }, { 4, UNSIGNED },
                               { 4, SIGNED },   { 4, REAL },   { 1, TRUTH },    { 8, OTHER },  { 12, OTHER },
                               { 8, UNSIGNED }, { 8, SIGNED }, { 8, REAL } };

typedef struct {
    const uint8_t *bytes;
    size_t size, at;
    const char *path;
    char what[CE_GGUF_NAME + 16]; /* what is being read: "key NAME" or "tensor NAME" */
    ce_gguf_file *file;
} reading;

static cs_status __attribute__((format(printf, 3, 4))) bad(const reading *r, cs_status status, const char *format, ...)
{
    char why[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    return ce_fail(status, "%s%s: %s, byte %zu: %s", status == CS_UNSUPPORTED ? "not supported: " : "", r->path,
                   r->what, r->at, why);
}

/* ---- numbers and texts ---- */

static cs_status number(reading *r, int bytes, uint64_t *value)
{
    *value = 0;
    if (r->size - r->at < (size_t)bytes)
        return bad(r, CS_BAD_FILE, "the file ends here: the download or the copy is incomplete");
    for (int i = 0; i < bytes; i++)
        *value |= (uint64_t)r->bytes[r->at + (size_t)i] << (8 * i);
    r->at += (size_t)bytes;
    return CS_OK;
}

static cs_status text(reading *r, const char **start, size_t *length)
{
    uint64_t count;
    CE_TRY(number(r, 8, &count));
    if (count > r->size - r->at)
        return bad(r, CS_BAD_FILE, "a text of %llu bytes, and only %zu bytes follow", (unsigned long long)count,
                   r->size - r->at);
    *start = (const char *)r->bytes + r->at;
    *length = (size_t)count;
    r->at += *length;
    return CS_OK;
}

/* Reads the name of a key or a tensor, and sets r->what. */
static cs_status read_name(reading *r, const char *kind, int64_t index, char name[CE_GGUF_NAME])
{
    const char *start = "";
    size_t length = 0;
    snprintf(r->what, sizeof r->what, "%s %lld", kind, (long long)index);
    CE_TRY(text(r, &start, &length));
    if (length == 0 || length >= CE_GGUF_NAME)
        return bad(r, CS_BAD_FILE, "a name of %zu bytes; it has 1 to %d", length, CE_GGUF_NAME - 1);
    for (size_t i = 0; i < length; i++)
        if (start[i] <= ' ' || start[i] > '~')
            return bad(r, CS_BAD_FILE, "its name has a character that is no printable ASCII character");
    snprintf(name, CE_GGUF_NAME, "%.*s", (int)length, start);
    snprintf(r->what, sizeof r->what, "%s %s", kind, name);
    return CS_OK;
}

/* ---- values ---- */

static cs_status read_text(reading *r, json_t **value)
{
    const char *start = "";
    size_t length = 0;
    CE_TRY(text(r, &start, &length));
    if (length && memchr(start, 0, length))
        return bad(r, CS_UNSUPPORTED, "a text with a NUL byte");
    *value = json_stringn(start, length);
    return *value ? CS_OK : bad(r, CS_BAD_FILE, "a text that is no UTF-8");
}

static cs_status read_value(reading *r, uint64_t type, int depth, json_t **value);

static cs_status read_array(reading *r, int depth, json_t **value)
{
    uint64_t type, count;
    CE_TRY(number(r, 4, &type));
    CE_TRY(number(r, 8, &count));
    if (type >= VALUE_TYPES || depth == MAX_DEPTH)
        return bad(r, CS_BAD_FILE, "an array of the unknown type %llu, or arrays in arrays", (unsigned long long)type);
    if (count > (r->size - r->at) / (size_t)value_types[type].bytes)
        return bad(r, CS_BAD_FILE, "an array of %llu elements, and only %zu bytes follow", (unsigned long long)count,
                   r->size - r->at);
    *value = json_array();
    for (uint64_t i = 0; i < count; i++) {
        json_t *element = NULL;
        cs_status status = read_value(r, type, depth + 1, &element);
        if (status != CS_OK) {
            json_decref(*value);
            *value = NULL;
            return status;
        }
        json_array_append_new(*value, element);
    }
    return CS_OK;
}

static cs_status read_value(reading *r, uint64_t type, int depth, json_t **value)
{
    uint64_t bits;
    double real;
    if (type >= VALUE_TYPES)
        return bad(r, CS_BAD_FILE, "a value of the unknown type %llu", (unsigned long long)type);
    if (type == STRING)
        return read_text(r, value);
    if (type == ARRAY)
        return read_array(r, depth, value);
    int bytes = value_types[type].bytes;
    CE_TRY(number(r, bytes, &bits));
    switch (value_types[type].kind) {
    case REAL:
        memcpy(&real, &bits, sizeof real);
        *value = json_real(bytes == 8 ? real : (double)ce_bits_float((uint32_t)bits));
        return *value ? CS_OK : bad(r, CS_BAD_FILE, "a number that is not finite");
    case TRUTH:
        *value = json_boolean(bits);
        return CS_OK;
    case SIGNED:
        *value = json_integer((int64_t)(bits << (64 - 8 * bytes)) >> (64 - 8 * bytes));
        return CS_OK;
    default:
        if (bits > INT64_MAX)
            return bad(r, CS_BAD_FILE, "the number %llu is too large", (unsigned long long)bits);
        *value = json_integer((json_int_t)bits);
        return CS_OK;
    }
}

static cs_status read_key(reading *r, int64_t index)
{
    char name[CE_GGUF_NAME];
    uint64_t type;
    json_t *value = NULL;
    CE_TRY(read_name(r, "key", index, name));
    if (json_object_get(r->file->keys, name))
        return bad(r, CS_BAD_FILE, "the file has this key twice");
    CE_TRY(number(r, 4, &type));
    CE_TRY(read_value(r, type, 0, &value));
    json_object_set_new(r->file->keys, name, value);
    return CS_OK;
}

/* ---- tensors ---- */

/* Reads the dimensions; their product is below 2^62. */
static cs_status read_shape(reading *r, ce_gguf_tensor *tensor)
{
    uint64_t dims, size;
    int64_t count = 1;
    CE_TRY(number(r, 4, &dims));
    if (dims < 1 || dims > CE_GGUF_DIMS)
        return bad(r, CS_BAD_FILE, "%llu dimensions; there are 1 to %d", (unsigned long long)dims, CE_GGUF_DIMS);
    tensor->dims = (int)dims;
    for (int i = tensor->dims - 1; i >= 0; i--) {
        CE_TRY(number(r, 8, &size));
        if (size < 1 || size > (uint64_t)((INT64_MAX >> 1) / count))
            return bad(r, CS_BAD_FILE, "a dimension of %llu elements", (unsigned long long)size);
        tensor->shape[i] = (int64_t)size;
        count *= (int64_t)size;
    }
    return CS_OK;
}

/* Returns the number of bytes of the elements, or 0 if the type is not read; -1 if the rows are no whole blocks. */
static int64_t bytes_of(const ce_gguf_tensor *tensor)
{
    int64_t block = ce_gguf_block_elements(tensor->type), columns = tensor->shape[tensor->dims - 1], rows = 1;
    for (int i = 0; i < tensor->dims - 1; i++)
        rows *= tensor->shape[i];
    if (block == 0)
        return 0;
    if (columns % block)
        return -1;
    int64_t row = columns > INT64_MAX / 256 ? INT64_MAX : ce_gguf_row_bytes((ce_gguf_type)tensor->type, columns);
    return row > INT64_MAX / rows ? INT64_MAX : rows * row;
}

static cs_status read_tensor(reading *r, int64_t index)
{
    ce_gguf_tensor *tensor = &r->file->tensors[index];
    uint64_t type, offset;
    char name[CE_GGUF_TYPE_NAME];
    CE_TRY(read_name(r, "tensor", index, tensor->name));
    CE_TRY(read_shape(r, tensor));
    CE_TRY(number(r, 4, &type));
    CE_TRY(number(r, 8, &offset));
    tensor->type = (int64_t)type;
    tensor->bytes = bytes_of(tensor);
    tensor->offset = offset > INT64_MAX ? INT64_MAX : (int64_t)offset;
    return tensor->bytes < 0 ? bad(r, CS_BAD_FILE, "rows of %lld elements are no whole blocks of %s",
                                   (long long)tensor->shape[tensor->dims - 1], ce_gguf_type_name(name, tensor->type))
                             : CS_OK;
}

/* Makes the offsets count from the beginning of the file, whose elements begin at `begin`. */
static cs_status place_tensors(reading *r, int64_t begin, int64_t whole, int64_t alignment)
{
    for (int64_t i = 0; i < r->file->count; i++) {
        ce_gguf_tensor *tensor = &r->file->tensors[i];
        snprintf(r->what, sizeof r->what, "tensor %s", tensor->name);
        if (tensor->offset % alignment)
            return bad(r, CS_BAD_FILE, "its offset, %lld, is no multiple of general.alignment, %lld",
                       (long long)tensor->offset, (long long)alignment);
        if (begin > whole || tensor->offset > whole - begin || tensor->bytes > whole - begin - tensor->offset)
            return bad(r, CS_BAD_FILE,
                       "its %lld bytes from offset %lld on are not in the file, which has %lld bytes: the download or "
                       "the copy is incomplete",
                       (long long)tensor->bytes, (long long)tensor->offset, (long long)whole);
        tensor->offset += begin;
    }
    return CS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(ce_gguf_tensor *const *)a)->name, (*(ce_gguf_tensor *const *)b)->name);
}

static cs_status check_names(const reading *r)
{
    const ce_gguf_file *file = r->file;
    CE_FREED const ce_gguf_tensor **sorted = ce_must_alloc(((size_t)file->count + 1) * sizeof *sorted);
    for (int64_t i = 0; i < file->count; i++)
        sorted[i] = &file->tensors[i];
    qsort(sorted, (size_t)file->count, sizeof *sorted, by_name);
    for (int64_t i = 1; i < file->count; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            return ce_fail(CS_BAD_FILE, "%s: the file has the tensor %s twice", r->path, sorted[i]->name);
    return CS_OK;
}

/* ---- the file ---- */

static cs_status read_head(reading *r, uint64_t *tensors, uint64_t *keys)
{
    uint64_t version;
    snprintf(r->what, sizeof r->what, "its header");
    if (r->size < HEADER || memcmp(r->bytes, "GGUF", 4) != 0)
        return ce_fail(CS_BAD_FILE, "%s is no GGUF file: it does not begin with the %d bytes of GGUF's header", r->path,
                       HEADER);
    r->at = 4;
    CE_TRY(number(r, 4, &version));
    if ((version & 0xffff) == 0)
        return bad(r, CS_UNSUPPORTED, "a big-endian file: gguf-py's gguf_convert_endian.py converts it");
    if (version != VERSION)
        return bad(r, CS_UNSUPPORTED, "version %llu of the format; version %d is read", (unsigned long long)version,
                   VERSION);
    CE_TRY(number(r, 8, tensors));
    CE_TRY(number(r, 8, keys));
    /* A tensor has at least a name of one letter, a dimension, a type and an offset. */
    if (*tensors > (r->size - r->at) / (9 + 4 + 8 + 4 + 8) || *keys > (r->size - r->at) / (9 + 4 + 1))
        return bad(r, CS_BAD_FILE, "%llu tensors and %llu keys, and only %zu bytes follow",
                   (unsigned long long)*tensors, (unsigned long long)*keys, r->size - r->at);
    return CS_OK;
}

static cs_status read_all(reading *r, int64_t whole)
{
    uint64_t tensors = 0, keys = 0;
    CE_TRY(read_head(r, &tensors, &keys));
    for (uint64_t i = 0; i < keys; i++)
        CE_TRY(read_key(r, (int64_t)i));
    const json_t *given = json_object_get(r->file->keys, "general.alignment");
    int64_t alignment = given ? json_integer_value(given) : ALIGNMENT;
    if (alignment < 1 || alignment > MAX_ALIGNMENT || (alignment & (alignment - 1)) != 0)
        return ce_fail(CS_BAD_FILE, "%s: general.alignment is %lld, which is no power of two up to %d", r->path,
                       (long long)alignment, MAX_ALIGNMENT);
    r->file->tensors = ce_must_alloc(((size_t)tensors + 1) * sizeof *r->file->tensors);
    r->file->count = (int64_t)tensors;
    for (int64_t i = 0; i < r->file->count; i++)
        CE_TRY(read_tensor(r, i));
    CE_TRY(place_tensors(r, ((int64_t)r->at + alignment - 1) / alignment * alignment, whole, alignment));
    return check_names(r);
}

cs_status ce_gguf_parse(ce_gguf_file *file, const void *bytes, size_t size, int64_t whole, const char *path)
{
    *file = (ce_gguf_file){ .keys = json_object() };
    reading r = { .bytes = bytes, .size = size, .path = path, .file = file };
    cs_status status = read_all(&r, whole);
    if (status != CS_OK)
        ce_gguf_close(file);
    return status;
}

cs_status ce_gguf_open(ce_gguf_file *file, const char *path)
{
    struct stat facts;
    int descriptor = ce_input_open(path);
    if (descriptor < 0)
        return ce_fail_errno(errno == ENOENT ? CS_NOT_FOUND : CS_IO_ERROR, errno, "%s", path);
    CE_TRY(ce_input_check(&descriptor, path));
    size_t bytes = fstat(descriptor, &facts) == 0 ? (size_t)facts.st_size : 0;
    void *mapped = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0) : MAP_FAILED;
    close(descriptor);
    if (mapped == MAP_FAILED)
        return ce_fail(CS_BAD_FILE, "%s is empty, or cannot be mapped", path);
    cs_status status = ce_gguf_parse(file, mapped, bytes, (int64_t)bytes, path);
    munmap(mapped, bytes);
    return status;
}

void ce_gguf_close(ce_gguf_file *file)
{
    json_decref(file->keys);
    free(file->tensors);
    *file = (ce_gguf_file){ 0 };
}

cs_status ce_gguf_check_types(const ce_gguf_file *file, const char *path)
{
    ce_names others = { 0 };
    char name[CE_GGUF_TYPE_NAME];
    for (int64_t i = 0; i < file->count; i++)
        if (file->tensors[i].bytes == 0)
            ce_names_add(&others, "%s is %s", file->tensors[i].name, ce_gguf_type_name(name, file->tensors[i].type));
    return others.count ? ce_fail(CS_UNSUPPORTED, "not supported: %s: %s; these types are read: %s", path,
                                  ce_names_text(&others), ce_gguf_types_read)
                        : CS_OK;
}

const ce_gguf_tensor *ce_gguf_find(const ce_gguf_file *file, const char *name)
{
    for (int64_t i = 0; i < file->count; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    return NULL;
}
