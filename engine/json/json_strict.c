/* json_strict.c - parses JSON without extensions: files that programs write, and rows of users' data. */
#include "json/dialect.h"
#include "json/json.h"
#include "base/files.h"
#include "base/must.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_LIMIT = 1 << 30 }; /* bytes */

/* Returns true if objects and lists are nested deeper than CE_DIALECT_DEPTH; jansson itself would allow 2,048
 * levels. */
static bool too_deep(const char *text, size_t length)
{
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        if (in_string && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            in_string = !in_string;
        else if (!in_string && (text[i] == '{' || text[i] == '['))
            depth++;
        else if (!in_string && (text[i] == '}' || text[i] == ']'))
            depth--;
        if (depth > CE_DIALECT_DEPTH)
            return true;
    }
    return false;
}

static json_t *parse_whole(const char *text, size_t length, size_t flags)
{
    json_error_t error;
    if (too_deep(text, length)) {
        ce_fail(CS_BAD_FILE, "objects and lists are nested more than %d levels deep", CE_DIALECT_DEPTH);
        return NULL;
    }
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES | flags, &error);
    if (root)
        return root;
    enum json_error_code code = json_error_code(&error);
    bool nul = code == json_error_null_character || code == json_error_null_byte_in_key || memchr(text, 0, length);
    ce_fail(CS_BAD_FILE, "line %d, column %d: %s", error.line, error.column,
            nul ? "a NUL character (\\u0000), which no text may contain: remove it, or write \\ufffd in its place"
                : error.text);
    return NULL;
}

json_t *ce_json_strict(const char *text, size_t length)
{
    return parse_whole(text, length, 0);
}

json_t *ce_json_words(const char *text, size_t length)
{
    return parse_whole(text, length, JSON_DECODE_INT_AS_REAL);
}

/* Returns the length of the number at the beginning of a text, or 0 if there is none. */
static size_t number_width(const char *text, size_t length)
{
    static const char characters[] = "-+.eE0123456789";
    size_t width = 0;
    while (width < length && memchr(characters, text[width], strlen(characters)))
        width++;
    return *text == '-' || (*text >= '0' && *text <= '9') ? width : 0;
}

/* Returns true if a number is an integer that does not fit into 64 bits. */
static bool is_wide(const char *number, size_t width)
{
    char digits[24];
    char *end;
    snprintf(digits, sizeof digits, "%.*s", (int)width, number);
    errno = 0;
    strtoll(digits, &end, 10);
    return errno == ERANGE && *end == '\0' && !memchr(number, '.', width) && !memchr(number, 'e', width) &&
           !memchr(number, 'E', width);
}

/* Returns a copy of a text in which ".0" follows each integer that does not fit into 64 bits, malloc'ed. */
static char *widen(const char *text, size_t *length, int64_t *wide)
{
    char *made = ce_must_alloc(*length + *length / 8 + 3);
    size_t size = 0;
    bool in_string = false;
    for (size_t at = 0, next; at < *length; at = next) {
        size_t width = in_string ? 0 : number_width(text + at, *length - at);
        next = at + (width ? width : in_string && text[at] == '\\' && at + 1 < *length ? 2 : 1);
        in_string ^= text[at] == '"';
        memcpy(made + size, text + at, next - at);
        size += next - at;
        if (width && is_wide(text + at, width)) {
            memcpy(made + size, ".0", 2);
            size += 2;
            (*wide)++;
        }
    }
    *length = size;
    return made;
}

json_t *ce_json_document(const char *text, size_t length, int64_t *wide)
{
    json_t *root = parse_whole(text, length, 0);
    if (root)
        return root;
    CE_FREED char *widened = widen(text, &length, wide);
    root = *wide > 0 ? parse_whole(widened, length, 0) : NULL;
    return root;
}

cs_status ce_json_read_file(json_t **value, const char *folder, const char *name)
{
    size_t length;
    int64_t wide = 0;
    CE_FREED char *path = ce_files_join(folder, name), *text = NULL;
    *value = NULL;
    cs_status status = ce_files_read(&text, &length, path, FILE_LIMIT);
    if (status == CS_NOT_FOUND)
        return CS_OK;
    CE_TRY(status);
    *value = ce_json_document(text, length, &wide);
    return *value ? CS_OK : ce_fail(CS_BAD_FILE, "%s: %s", path, cs_error());
}

void ce_json_drop_nulls(json_t *value)
{
    const char *key;
    void *next;
    json_t *member;
    size_t index;
    json_array_foreach (value, index, member)
        ce_json_drop_nulls(member);
    json_object_foreach_safe(value, next, key, member)
    {
        if (json_is_null(member))
            json_object_del(value, key);
        else
            ce_json_drop_nulls(member);
    }
}
