/* value.c - the values of a template, which behave as those of Python, and the memory of a rendering. */
#include "value.h"
#include "base/must.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 14 };
static const size_t max_bytes = (size_t)256 << 20;
static const int64_t max_steps = 50000000;

struct ce_jchunk {
    ce_jchunk *next;
    size_t used, capacity;
    _Alignas(16) char bytes[];
};

const ce_jvalue ce_jvalue_none = { .kind = CE_V_NONE };

/* ---- a compilation or rendering ---- */

static void fail(ce_jrun *run, cs_status status, const char *format, va_list list)
{
    char message[1024];
    vsnprintf(message, sizeof message, format, list);
    /* vsnprintf may have cut the last character in two; its incomplete bytes are removed. */
    message[ce_unicode_valid(message, strlen(message))] = '\0';
    run->status = ce_fail(status, "line %d: %s", run->line, message);
}

void ce_jrun_fail(ce_jrun *run, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fail(run, CS_BAD_FILE, format, list);
    va_end(list);
    longjmp(run->trap, 1);
}

void ce_jrun_unsupported(ce_jrun *run, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fail(run, CS_UNSUPPORTED, format, list);
    va_end(list);
    longjmp(run->trap, 1);
}

void *ce_jrun_alloc(ce_jrun *run, size_t bytes)
{
    bytes = (bytes + 15) / 16 * 16;
    ce_jchunk *chunk = run->chunks;
    if (!chunk || chunk->capacity - chunk->used < bytes) {
        size_t capacity = bytes > CHUNK ? bytes : CHUNK;
        if (run->bytes + capacity > max_bytes || bytes > max_bytes)
            ce_jrun_fail(run, "the template needs more than %zu MiB of memory", max_bytes >> 20);
        chunk = ce_must_alloc(sizeof *chunk + capacity);
        *chunk = (ce_jchunk){ run->chunks, 0, capacity };
        run->chunks = chunk;
        run->bytes += capacity;
    }
    chunk->used += bytes;
    return chunk->bytes + chunk->used - bytes;
}

void *ce_jrun_longer(ce_jrun *run, const void *list, size_t used, size_t bytes)
{
    void *longer = ce_jrun_alloc(run, bytes);
    return used > 0 ? memcpy(longer, list, used) : longer;
}

void ce_jrun_step(ce_jrun *run, size_t count)
{
    run->steps += (int64_t)(count < (size_t)max_steps ? count : (size_t)max_steps);
    if (run->steps > max_steps)
        ce_jrun_fail(run, "the template takes more than %lld steps", (long long)max_steps);
}

void ce_jrun_enter(ce_jrun *run)
{
    if (++run->depth > CE_JINJA_DEPTH)
        ce_jrun_fail(run, "the template is nested more than %d levels deep", CE_JINJA_DEPTH);
}

void ce_jrun_leave(ce_jrun *run)
{
    run->depth--;
}

ce_text *ce_jrun_capture(ce_jrun *run)
{
    if (run->captures == CE_JINJA_DEPTH)
        ce_jrun_fail(run, "the template is nested more than %d levels deep", CE_JINJA_DEPTH);
    return &run->out[++run->captures];
}

ce_jvalue ce_jrun_captured(ce_jrun *run)
{
    ce_text *text = &run->out[run->captures];
    ce_jvalue value = ce_jvalue_copy(run, text->bytes, text->size);
    ce_unicode_free(text);
    run->captures--;
    return value;
}

void ce_jrun_free(ce_jrun *run)
{
    for (ce_jchunk *chunk = run->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    run->chunks = NULL;
    for (int i = 0; i <= CE_JINJA_DEPTH; i++)
        ce_unicode_free(&run->out[i]);
}

/* ---- making values ---- */

ce_jvalue ce_jvalue_undefined(ce_jrun *run, const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    ce_jvalue value = ce_jvalue_copy(run, text, ce_unicode_valid(text, strlen(text)));
    value.kind = CE_V_UNDEFINED;
    return value;
}

ce_jvalue ce_jvalue_bool(bool truth)
{
    return (ce_jvalue){ .kind = CE_V_BOOL, .truth = truth };
}

ce_jvalue ce_jvalue_int(int64_t whole)
{
    return (ce_jvalue){ .kind = CE_V_INT, .whole = whole };
}

ce_jvalue ce_jvalue_float(double real)
{
    return (ce_jvalue){ .kind = CE_V_FLOAT, .real = real };
}

ce_jvalue ce_jvalue_text(const char *bytes, size_t size)
{
    return (ce_jvalue){ .kind = CE_V_TEXT, .bytes = bytes, .size = size };
}

ce_jvalue ce_jvalue_copy(ce_jrun *run, const char *bytes, size_t size)
{
    char *copy = ce_jrun_alloc(run, size + 1);
    if (size > 0)
        memcpy(copy, bytes, size);
    return ce_jvalue_text(copy, size);
}

ce_jvalue ce_jvalue_literal(const char *bytes)
{
    return ce_jvalue_text(bytes, strlen(bytes));
}

ce_jvalue ce_jvalue_list(ce_jrun *run, ce_jform form, size_t capacity)
{
    ce_jlist *list = ce_jrun_alloc(run, sizeof *list);
    ce_jrun_step(run, capacity);
    *list = (ce_jlist){ ce_jrun_alloc(run, capacity * sizeof *list->items), 0, capacity };
    return (ce_jvalue){ .kind = CE_V_LIST, .form = form, .list = list };
}

ce_jvalue ce_jvalue_dict(ce_jrun *run)
{
    return (ce_jvalue){ .kind = CE_V_DICT, .dict = ce_jrun_alloc(run, sizeof(ce_jdict)) };
}

void ce_jvalue_push(ce_jrun *run, ce_jvalue list, ce_jvalue item)
{
    ce_jlist *to = list.list;
    if (to->count == to->capacity) {
        to->capacity = 2 * to->capacity + 4;
        to->items = ce_jrun_longer(run, to->items, to->count * sizeof *to->items, to->capacity * sizeof *to->items);
    }
    to->items[to->count++] = item;
}

/* ---- reading values ---- */

bool ce_jvalue_true(ce_jvalue value)
{
    switch (value.kind) {
    case CE_V_ABSENT:
    case CE_V_UNDEFINED:
    case CE_V_NONE:
        return false;
    case CE_V_BOOL:
        return value.truth;
    case CE_V_INT:
        return value.whole != 0;
    case CE_V_FLOAT:
        return value.real != 0;
    case CE_V_TEXT:
        return value.size > 0;
    case CE_V_LIST:
        return value.form == CE_F_GENERATOR || value.list->count > 0;
    case CE_V_DICT:
        return value.dict->count > 0;
    case CE_V_NAMESPACE:
    case CE_V_CALLABLE:
    case CE_V_LOOP:
        break;
    }
    return true;
}

bool ce_jvalue_is_number(ce_jvalue value)
{
    return value.kind == CE_V_INT || value.kind == CE_V_FLOAT || value.kind == CE_V_BOOL;
}

double ce_jvalue_number(ce_jvalue value)
{
    return value.kind == CE_V_FLOAT ? value.real : value.kind == CE_V_INT ? (double)value.whole : value.truth;
}

bool ce_jvalue_is_whole(ce_jvalue value, int64_t *whole)
{
    *whole = value.kind == CE_V_INT ? value.whole : value.kind == CE_V_BOOL ? value.truth : 0;
    return value.kind == CE_V_INT || value.kind == CE_V_BOOL;
}

bool ce_jvalue_is(ce_jvalue value, const char *text)
{
    return value.kind == CE_V_TEXT && value.size == strlen(text) && memcmp(value.bytes, text, value.size) == 0;
}

const char *ce_jvalue_type(ce_jvalue value)
{
    static const char *const names[] = { [CE_V_ABSENT] = "nothing",    [CE_V_UNDEFINED] = "Undefined",
                                         [CE_V_NONE] = "NoneType",     [CE_V_BOOL] = "bool",
                                         [CE_V_INT] = "int",           [CE_V_FLOAT] = "float",
                                         [CE_V_TEXT] = "str",          [CE_V_LIST] = "list",
                                         [CE_V_DICT] = "dict",         [CE_V_NAMESPACE] = "Namespace",
                                         [CE_V_CALLABLE] = "function", [CE_V_LOOP] = "LoopContext" };
    return value.kind != CE_V_LIST        ? names[value.kind]
           : value.form == CE_F_TUPLE     ? "tuple"
           : value.form == CE_F_GENERATOR ? "generator"
           : value.form == CE_F_RANGE     ? "range"
                                          : "list";
}

static bool same_form(ce_jvalue a, ce_jvalue b)
{
    return a.form == b.form && a.form != CE_F_GENERATOR;
}

static bool equal_numbers(ce_jvalue a, ce_jvalue b)
{
    int64_t x, y;
    return ce_jvalue_is_whole(a, &x) && ce_jvalue_is_whole(b, &y) ? x == y : ce_jvalue_number(a) == ce_jvalue_number(b);
}

static bool equal_lists(ce_jrun *run, ce_jvalue a, ce_jvalue b)
{
    bool equal = same_form(a, b) && a.list->count == b.list->count;
    ce_jrun_enter(run);
    for (size_t i = 0; equal && i < a.list->count; i++)
        equal = ce_jvalue_equal(run, a.list->items[i], b.list->items[i]);
    ce_jrun_leave(run);
    return equal;
}

static bool equal_dicts(ce_jrun *run, const ce_jdict *a, const ce_jdict *b)
{
    bool equal = a->count == b->count;
    ce_jrun_enter(run);
    for (size_t i = 0; equal && i < a->count; i++) {
        ce_jvalue *other = ce_jvalue_get(run, b, a->keys[i]);
        equal = other && ce_jvalue_equal(run, a->values[i], *other);
    }
    ce_jrun_leave(run);
    return equal;
}

bool ce_jvalue_equal(ce_jrun *run, ce_jvalue a, ce_jvalue b)
{
    ce_jrun_step(run, 1);
    if (ce_jvalue_is_number(a) && ce_jvalue_is_number(b))
        return equal_numbers(a, b);
    if (a.kind != b.kind)
        return false;
    if (a.kind == CE_V_TEXT)
        return a.size == b.size && (a.size == 0 || memcmp(a.bytes, b.bytes, a.size) == 0);
    if (a.kind == CE_V_LIST)
        return a.list == b.list || equal_lists(run, a, b);
    if (a.kind == CE_V_DICT)
        return a.dict == b.dict || equal_dicts(run, a.dict, b.dict);
    return a.kind == CE_V_UNDEFINED || a.kind == CE_V_NONE || a.dict == b.dict;
}

static int compare_lists(ce_jrun *run, const ce_jlist *a, const ce_jlist *b, const char *operator)
{
    size_t i = 0;
    int order = (a->count > b->count) - (a->count < b->count);
    ce_jrun_enter(run);
    while (i < a->count && i < b->count && ce_jvalue_equal(run, a->items[i], b->items[i]))
        i++;
    if (i < a->count && i < b->count)
        order = ce_jvalue_compare(run, a->items[i], b->items[i], operator);
    ce_jrun_leave(run);
    return order;
}

int ce_jvalue_compare(ce_jrun *run, ce_jvalue a, ce_jvalue b, const char *operator)
{
    ce_jrun_step(run, 1);
    int64_t x, y;
    if (ce_jvalue_is_whole(a, &x) && ce_jvalue_is_whole(b, &y))
        return (x > y) - (x < y);
    if (ce_jvalue_is_number(a) && ce_jvalue_is_number(b))
        return (ce_jvalue_number(a) > ce_jvalue_number(b)) - (ce_jvalue_number(a) < ce_jvalue_number(b));
    if (a.kind == CE_V_TEXT && b.kind == CE_V_TEXT) {
        /* Python compares code points. Comparing the bytes of UTF-8 gives the same order. */
        int order = memcmp(a.bytes, b.bytes, a.size < b.size ? a.size : b.size);
        return order ? order : (a.size > b.size) - (a.size < b.size);
    }
    if (a.kind == CE_V_LIST && b.kind == CE_V_LIST && same_form(a, b))
        return compare_lists(run, a.list, b.list, operator);
    if (a.kind == CE_V_UNDEFINED || b.kind == CE_V_UNDEFINED)
        ce_jrun_fail(run, "%s", a.kind == CE_V_UNDEFINED ? a.bytes : b.bytes);
    ce_jrun_fail(run, "'%s' not supported between instances of '%s' and '%s'", operator, ce_jvalue_type(a),
                 ce_jvalue_type(b));
}

ce_jvalue *ce_jvalue_get(ce_jrun *run, const ce_jdict *dict, ce_jvalue key)
{
    if (key.kind == CE_V_DICT || (key.kind == CE_V_LIST && key.form == CE_F_PLAIN))
        ce_jrun_fail(run, "unhashable type: '%s'", ce_jvalue_type(key));
    for (size_t i = 0; i < dict->count; i++)
        if (ce_jvalue_equal(run, dict->keys[i], key))
            return &dict->values[i];
    return NULL;
}

void ce_jvalue_put(ce_jrun *run, ce_jdict *dict, ce_jvalue key, ce_jvalue value)
{
    ce_jvalue *found = ce_jvalue_get(run, dict, key);
    if (!found && dict->count == dict->capacity) {
        size_t used = dict->count * sizeof *dict->keys, bytes = (2 * dict->capacity + 4) * sizeof *dict->keys;
        dict->keys = ce_jrun_longer(run, dict->keys, used, bytes);
        dict->values = ce_jrun_longer(run, dict->values, used, bytes);
        dict->capacity = 2 * dict->capacity + 4;
    }
    if (!found) {
        dict->keys[dict->count] = key;
        found = &dict->values[dict->count++];
    }
    *found = value;
}

ce_jvalue *ce_jvalue_member(const ce_jdict *dict, const char *name)
{
    for (size_t i = 0; i < dict->count; i++)
        if (ce_jvalue_is(dict->keys[i], name))
            return &dict->values[i];
    return NULL;
}

static ce_jlist characters(ce_jrun *run, ce_jvalue text)
{
    ce_jvalue list = ce_jvalue_list(run, CE_F_PLAIN, 0);
    for (size_t at = 0, width; at < text.size; at += width) {
        ce_unicode_point(text.bytes, text.size, at, &width);
        ce_jrun_step(run, 1);
        ce_jvalue_push(run, list, ce_jvalue_text(text.bytes + at, width));
    }
    return *list.list;
}

ce_jlist ce_jvalue_items(ce_jrun *run, ce_jvalue value)
{
    switch (value.kind) {
    case CE_V_UNDEFINED:
        return (ce_jlist){ 0 };
    case CE_V_LIST:
        return *value.list;
    case CE_V_DICT:
        return (ce_jlist){ value.dict->keys, value.dict->count, value.dict->count };
    case CE_V_TEXT:
        return characters(run, value);
    default:
        ce_jrun_fail(run, "'%s' object is not iterable", ce_jvalue_type(value));
    }
}

size_t ce_jvalue_length(ce_jrun *run, ce_jvalue value)
{
    if (value.kind == CE_V_TEXT)
        return ce_unicode_length(value.bytes, value.size);
    if (value.kind == CE_V_DICT)
        return value.dict->count;
    if (value.kind == CE_V_LIST && value.form != CE_F_GENERATOR)
        return value.list->count;
    if (value.kind == CE_V_UNDEFINED)
        return 0;
    ce_jrun_fail(run, "object of type '%s' has no len()", ce_jvalue_type(value));
}

bool ce_jvalue_contains(ce_jrun *run, ce_jvalue in, ce_jvalue item)
{
    if (in.kind == CE_V_TEXT) {
        if (item.kind != CE_V_TEXT)
            ce_jrun_fail(run, "'in <string>' requires string as left operand, not %s", ce_jvalue_type(item));
        ce_jrun_step(run, in.size);
        return item.size == 0 || memmem(in.bytes, in.size, item.bytes, item.size) != NULL;
    }
    if (in.kind == CE_V_DICT)
        return ce_jvalue_get(run, in.dict, item) != NULL;
    if (in.kind != CE_V_LIST && in.kind != CE_V_UNDEFINED)
        ce_jrun_fail(run, "argument of type '%s' is not iterable", ce_jvalue_type(in));
    ce_jlist items = ce_jvalue_items(run, in);
    for (size_t i = 0; i < items.count; i++)
        if (ce_jvalue_equal(run, items.items[i], item))
            return true;
    return false;
}
