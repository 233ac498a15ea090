/* print.c - writes values as text: Python's str, repr and json.dumps. */
#include "value.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put(ce_text *to, const char *text)
{
    ce_unicode_append(to, text, strlen(text));
}

/* Writes a number in Python's form, with the fewest digits that read back as the same number. */
static void put_float(ce_text *to, double real)
{
    char digits[40], text[64];
    int precision = 1, exponent, used;
    if (!isfinite(real)) {
        put(to, isnan(real) ? "nan" : real > 0 ? "inf" : "-inf");
        return;
    }
    do
        snprintf(digits, sizeof digits, "%.*e", precision - 1, real);
    while (strtod(digits, NULL) != real && ++precision <= 17);
    exponent = atoi(strchr(digits, 'e') + 1);
    if (exponent >= 16 || exponent < -4)
        used = snprintf(text, sizeof text, "%.*e", precision - 1, real);
    else
        used = snprintf(text, sizeof text, "%.*f", precision - 1 > exponent ? precision - 1 - exponent : 1, real);
    ce_unicode_append(to, text, (size_t)used);
}

static void put_int(ce_text *to, int64_t whole)
{
    char text[24];
    int used = snprintf(text, sizeof text, "%" PRId64, whole);
    ce_unicode_append(to, text, (size_t)used);
}

static void put_escape(ce_text *to, const char *format, unsigned point)
{
    char text[16];
    int used = snprintf(text, sizeof text, format, point); // NOLINT: the format is one of this file's literals
    ce_unicode_append(to, text, (size_t)used);
}

static void put_repr_point(ce_text *to, int32_t point, char quote)
{
    if (point == quote || point == '\\') {
        ce_unicode_append(to, "\\", 1);
        ce_unicode_append_point(to, point);
    } else if (point == '\n')
        put(to, "\\n");
    else if (point == '\r')
        put(to, "\\r");
    else if (point == '\t')
        put(to, "\\t");
    else if (ce_unicode_is_printable(point))
        ce_unicode_append_point(to, point);
    else
        put_escape(to, point < 0x100 ? "\\x%02x" : point < 0x10000 ? "\\u%04x" : "\\U%08x", (unsigned)point);
}

static void put_repr_text(ce_text *to, ce_jvalue value)
{
    bool single = memchr(value.bytes, '\'', value.size) != NULL, two = memchr(value.bytes, '"', value.size) != NULL;
    char quote = single && !two ? '"' : '\'';
    ce_unicode_append(to, &quote, 1);
    for (size_t at = 0, width; at < value.size; at += width)
        put_repr_point(to, ce_unicode_point(value.bytes, value.size, at, &width), quote);
    ce_unicode_append(to, &quote, 1);
}

static void put_range(ce_text *to, const ce_jlist *list)
{
    int64_t first = list->count > 0 ? list->items[0].whole : 0;
    int64_t step = list->count > 1 ? list->items[1].whole - first : 1;
    put(to, "range(");
    put_int(to, first);
    put(to, ", ");
    put_int(to, first + step * (int64_t)list->count);
    if (step != 1) {
        put(to, ", ");
        put_int(to, step);
    }
    put(to, ")");
}

static void put_repr_list(ce_jrun *run, ce_text *to, ce_jvalue value)
{
    const ce_jlist *list = value.list;
    bool tuple = value.form == CE_F_TUPLE;
    put(to, value.form == CE_F_ITEMS ? "dict_items([" : tuple ? "(" : "[");
    for (size_t i = 0; i < list->count; i++) {
        put(to, i > 0 ? ", " : "");
        ce_jprint_repr(run, to, list->items[i]);
    }
    put(to, value.form == CE_F_ITEMS ? "])" : !tuple ? "]" : list->count == 1 ? ",)" : ")");
}

static void put_repr_dict(ce_jrun *run, ce_text *to, const ce_jdict *dict)
{
    put(to, "{");
    for (size_t i = 0; i < dict->count; i++) {
        put(to, i > 0 ? ", " : "");
        ce_jprint_repr(run, to, dict->keys[i]);
        put(to, ": ");
        ce_jprint_repr(run, to, dict->values[i]);
    }
    put(to, "}");
}

void ce_jprint_repr(ce_jrun *run, ce_text *to, ce_jvalue value)
{
    ce_jrun_step(run, value.kind == CE_V_TEXT ? value.size : 1);
    ce_jrun_enter(run);
    if (value.kind == CE_V_TEXT && value.form == CE_F_MARKUP)
        put(to, "Markup(");
    if (value.kind == CE_V_TEXT)
        put_repr_text(to, value);
    else if (value.kind == CE_V_LIST && value.form == CE_F_RANGE)
        put_range(to, value.list);
    else if (value.kind == CE_V_LIST && value.form == CE_F_GENERATOR)
        put(to, "<generator object>");
    else if (value.kind == CE_V_LIST)
        put_repr_list(run, to, value);
    else if (value.kind == CE_V_DICT)
        put_repr_dict(run, to, value.dict);
    else if (value.kind == CE_V_UNDEFINED)
        put(to, "Undefined");
    else
        ce_jprint_str(run, to, value);
    if (value.kind == CE_V_TEXT && value.form == CE_F_MARKUP)
        put(to, ")");
    ce_jrun_leave(run);
}

void ce_jprint_str(ce_jrun *run, ce_text *to, ce_jvalue value)
{
    switch (value.kind) {
    case CE_V_ABSENT:
    case CE_V_UNDEFINED:
        return;
    case CE_V_NONE:
        put(to, "None");
        return;
    case CE_V_BOOL:
        put(to, value.truth ? "True" : "False");
        return;
    case CE_V_INT:
        put_int(to, value.whole);
        return;
    case CE_V_FLOAT:
        put_float(to, value.real);
        return;
    case CE_V_TEXT:
        ce_jrun_step(run, value.size);
        ce_unicode_append(to, value.bytes, value.size);
        return;
    case CE_V_LIST:
    case CE_V_DICT:
        ce_jprint_repr(run, to, value);
        return;
    case CE_V_NAMESPACE:
        put(to, "<Namespace ");
        ce_jrun_enter(run); /* The depth of recursion is counted, because a namespace may contain itself. */
        put_repr_dict(run, to, value.dict);
        ce_jrun_leave(run);
        put(to, ">");
        return;
    case CE_V_CALLABLE:
    case CE_V_LOOP:
        put(to, "<");
        put(to, ce_jvalue_type(value));
        put(to, ">");
        return;
    }
}

ce_jvalue ce_jprint_text(ce_jrun *run, ce_jvalue value)
{
    if (value.kind == CE_V_TEXT)
        return value;
    ce_jprint_str(run, ce_jrun_capture(run), value);
    return ce_jrun_captured(run);
}

/* ---- JSON ---- */

static void put_json_point(ce_text *to, int32_t point, bool ascii)
{
    static const char escapes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *found = point > 0 && point < 0x80 ? strchr(escapes, point) : NULL;
    if (found) {
        ce_unicode_append(to, "\\", 1);
        ce_unicode_append(to, &letters[found - escapes], 1);
    } else if (point < 0x20 || (ascii && point > 0x7e && point < 0x10000))
        put_escape(to, "\\u%04x", (unsigned)point);
    else if (ascii && point > 0xffff) {
        put_escape(to, "\\u%04x", 0xd800 + ((unsigned)point - 0x10000) / 0x400);
        put_escape(to, "\\u%04x", 0xdc00 + ((unsigned)point - 0x10000) % 0x400);
    } else
        ce_unicode_append_point(to, point);
}

static void put_json_text(ce_text *to, ce_jvalue value, bool ascii)
{
    put(to, "\"");
    for (size_t at = 0, width; at < value.size; at += width)
        put_json_point(to, ce_unicode_point(value.bytes, value.size, at, &width), ascii && value.bytes[at] != 0x7f);
    put(to, "\"");
}

static void put_break(ce_text *to, const ce_jprint_json_form *form, int level)
{
    if (form->indent >= 0)
        put(to, "\n");
    for (int i = 0; form->indent > 0 && i < form->indent * level; i++)
        put(to, " ");
}

static void put_json(ce_jrun *run, ce_text *to, ce_jvalue value, const ce_jprint_json_form *form, int level);

static void put_json_key(ce_jrun *run, ce_text *to, ce_jvalue key, const ce_jprint_json_form *form)
{
    if (key.kind == CE_V_LIST)
        ce_jrun_fail(run, "keys must be str, int, float, bool or None, not tuple");
    bool quoted = key.kind == CE_V_TEXT;
    put(to, quoted ? "" : "\"");
    put_json(run, to, key, form, 0);
    put(to, quoted ? "" : "\"");
}

/* Writes the indices of a dictionary's members to `order`, sorted by the members' keys. */
static void sort_keys(ce_jrun *run, const ce_jdict *dict, size_t *order)
{
    for (size_t i = 0; i < dict->count; i++) {
        size_t at = i;
        for (; at > 0 && ce_jvalue_compare(run, dict->keys[order[at - 1]], dict->keys[i], "<") > 0; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

static void put_json_dict(ce_jrun *run, ce_text *to, const ce_jdict *dict, const ce_jprint_json_form *form, int level)
{
    size_t *order = ce_jrun_alloc(run, dict->count * sizeof *order);
    for (size_t i = 0; i < dict->count; i++)
        order[i] = i;
    if (form->sorts)
        sort_keys(run, dict, order);
    put(to, "{");
    for (size_t i = 0; i < dict->count; i++) {
        put(to, i > 0 ? form->comma : "");
        put_break(to, form, level + 1);
        put_json_key(run, to, dict->keys[order[i]], form);
        put(to, form->colon);
        put_json(run, to, dict->values[order[i]], form, level + 1);
    }
    if (dict->count > 0)
        put_break(to, form, level);
    put(to, "}");
}

static void put_json_list(ce_jrun *run, ce_text *to, const ce_jlist *list, const ce_jprint_json_form *form, int level)
{
    put(to, "[");
    for (size_t i = 0; i < list->count; i++) {
        put(to, i > 0 ? form->comma : "");
        put_break(to, form, level + 1);
        put_json(run, to, list->items[i], form, level + 1);
    }
    if (list->count > 0)
        put_break(to, form, level);
    put(to, "]");
}

static void put_json(ce_jrun *run, ce_text *to, ce_jvalue value, const ce_jprint_json_form *form, int level)
{
    ce_jrun_step(run, value.kind == CE_V_TEXT ? value.size : 1);
    ce_jrun_enter(run);
    if (value.kind == CE_V_NONE)
        put(to, "null");
    else if (value.kind == CE_V_BOOL)
        put(to, value.truth ? "true" : "false");
    else if (value.kind == CE_V_FLOAT && !isfinite(value.real))
        put(to, isnan(value.real) ? "NaN" : value.real > 0 ? "Infinity" : "-Infinity");
    else if (ce_jvalue_is_number(value))
        ce_jprint_str(run, to, value);
    else if (value.kind == CE_V_TEXT)
        put_json_text(to, value, form->ascii);
    else if (value.kind == CE_V_DICT)
        put_json_dict(run, to, value.dict, form, level);
    else if (value.kind == CE_V_LIST && (value.form == CE_F_PLAIN || value.form == CE_F_TUPLE))
        put_json_list(run, to, value.list, form, level);
    else
        ce_jrun_fail(run, "Object of type %s is not JSON serializable", ce_jvalue_type(value));
    ce_jrun_leave(run);
}

void ce_jprint_json(ce_jrun *run, ce_text *to, ce_jvalue value, const ce_jprint_json_form *form)
{
    put_json(run, to, value, form, 0);
}
