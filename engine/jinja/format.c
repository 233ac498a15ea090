/* format.c - the formatting of texts: "%s" % values and "{}".format(values). */
#include "functions.h"

#include <stdio.h>
#include <string.h>

/* ---- % ---- */

typedef struct {
    ce_jrun *run;
    ce_jvalue values; /* values to write: a tuple, a dictionary or one value */
    size_t next;      /* index in the tuple of the value that is formatted next */
} percent;

static ce_jvalue next_value(percent *p)
{
    bool tuple = p->values.kind == CE_V_LIST && p->values.form == CE_F_TUPLE;
    size_t count = tuple ? p->values.list->count : 1;
    if (p->next == count)
        ce_jrun_fail(p->run, "not enough arguments for format string");
    return tuple ? p->values.list->items[p->next++] : (p->next++, p->values);
}

/* Reads "(name)" behind a percent sign, and sets *value to the member of that name. Returns the number of bytes read,
 * which is 0 if there is no name. */
static size_t read_key(percent *p, const char *text, size_t size, ce_jvalue *value)
{
    const char *end = size > 0 && text[0] == '(' ? memchr(text, ')', size) : NULL;
    if (!end)
        return 0;
    if (p->values.kind != CE_V_DICT)
        ce_jrun_fail(p->run, "format requires a mapping");
    ce_jvalue *found = ce_jvalue_get(p->run, p->values.dict, ce_jvalue_text(text + 1, (size_t)(end - text) - 1));
    if (!found)
        ce_jrun_fail(p->run, "the format's key is not in the mapping");
    *value = *found;
    p->next = 1;
    return (size_t)(end - text) + 1;
}

static void put_padded(ce_text *to, ce_jvalue text, int width, bool left)
{
    int length = (int)ce_unicode_length(text.bytes, text.size);
    for (int i = length; !left && i < width; i++)
        ce_unicode_append(to, " ", 1);
    ce_unicode_append(to, text.bytes, text.size);
    for (int i = length; left && i < width; i++)
        ce_unicode_append(to, " ", 1);
}

/* Writes one value by a conversion such as "%-5.2f". `spec` has the flags, width and precision. */
static void convert(ce_jrun *run, ce_text *to, const char *spec, char letter, ce_jvalue value)
{
    char format[40], text[512];
    int64_t whole = 0;
    int used, width = 0;
    if (letter == 's' || letter == 'r') {
        if (strchr(spec, '.'))
            ce_jrun_unsupported(run, "not supported: a precision of %%%c", letter);
        sscanf(spec + strspn(spec, "-+ #0"), "%d", &width);
        ce_text *part = ce_jrun_capture(run);
        (letter == 's' ? ce_jprint_str : ce_jprint_repr)(run, part, value);
        put_padded(to, ce_jrun_captured(run), width, strchr(spec, '-') != NULL);
        return;
    }
    if (!ce_jvalue_is_number(value))
        ce_jrun_fail(run, "%%%c format: a number is required, not %s", letter, ce_jvalue_type(value));
    if (strchr("dixXo", letter)) {
        snprintf(format, sizeof format, "%%%sll%c", spec, letter);
        if (!ce_jvalue_is_whole(value, &whole))
            whole = (int64_t)ce_jvalue_number(value);
        used = snprintf(text, sizeof text, format, (long long)whole); // NOLINT: made of checked parts
    } else {
        snprintf(format, sizeof format, "%%%s%c", spec, letter);
        used = snprintf(text, sizeof text, format, ce_jvalue_number(value)); // NOLINT: made of checked parts
    }
    if (used < 0 || (size_t)used >= sizeof text)
        ce_jrun_fail(run, "a formatted number is longer than %zu bytes", sizeof text);
    ce_unicode_append(to, text, (size_t)used);
}

/* Reads flags, width and precision, of at most two digits each, into `spec`. Returns the number of bytes read. */
static size_t read_spec(ce_jrun *run, const char *text, size_t size, char spec[16])
{
    size_t used = 0, digits = 0;
    while (used < size && used < 15 && text[used] && strchr("-+ #0123456789.", text[used])) {
        digits = text[used] >= '0' && text[used] <= '9' ? digits + 1 : 0;
        if (digits > 2)
            ce_jrun_unsupported(run, "not supported: a width of more than two digits in a format");
        spec[used] = text[used];
        used++;
    }
    spec[used] = '\0';
    return used;
}

ce_jvalue ce_jformat_percent(ce_jrun *run, ce_jvalue format, ce_jvalue values)
{
    percent p = { run, values, 0 };
    /* The buffer `to` stays valid while a function called below captures text in a buffer of its own: that buffer is
     * closed before the next byte is appended to `to`. */
    ce_text *to = ce_jrun_capture(run);
    for (size_t at = 0; at < format.size; at++) {
        char spec[16];
        ce_jvalue value = { 0 };
        ce_jrun_step(run, 1);
        if (format.bytes[at] != '%') {
            ce_unicode_append(to, format.bytes + at, 1);
            continue;
        }
        at++;
        at += read_key(&p, format.bytes + at, format.size - at, &value);
        at += read_spec(run, format.bytes + at, format.size - at, spec);
        char letter = '\0';
        if (at < format.size)
            letter = format.bytes[at];
        if (letter == '%')
            ce_unicode_append(to, "%", 1);
        else if (letter && strchr("srdixXofFeEgG", letter))
            convert(run, to, spec, letter, value.kind == CE_V_ABSENT ? next_value(&p) : value);
        else
            ce_jrun_fail(run, "unsupported format character '%c'", letter ? letter : ' ');
    }
    bool tuple = values.kind == CE_V_LIST && values.form == CE_F_TUPLE;
    if (values.kind != CE_V_DICT && values.kind != CE_V_UNDEFINED && p.next < (tuple ? values.list->count : 1))
        ce_jrun_fail(run, "not all arguments converted during string formatting");
    ce_jvalue made = ce_jrun_captured(run);
    made.form = format.form;
    return made;
}

/* ---- {} ---- */

static ce_jvalue field(ce_jrun *run, const char *name, size_t size, const ce_jarguments *arguments, size_t *next)
{
    size_t index = 0;
    if (memchr(name, ':', size) || memchr(name, '!', size) || memchr(name, '.', size) || memchr(name, '[', size))
        ce_jrun_unsupported(run, "not supported: str.format with '{%.*s}'; only names and numbers", (int)size, name);
    if (size == 0)
        index = (*next)++;
    else if (name[0] >= '0' && name[0] <= '9')
        for (size_t i = 0; i < size && index < 1000; i++)
            index = index * 10 + (size_t)(name[i] - '0');
    else {
        for (size_t i = 0; i < arguments->named; i++)
            if (strlen(arguments->names[i]) == size && memcmp(arguments->names[i], name, size) == 0)
                return arguments->named_values[i];
        ce_jrun_fail(run, "str.format has no argument '%.*s'", (int)size, name);
    }
    if (index >= arguments->count)
        ce_jrun_fail(run, "Replacement index %zu out of range for positional args tuple", index);
    return arguments->values[index];
}

ce_jvalue ce_jformat_braces(ce_jrun *run, ce_jvalue format, const ce_jarguments *arguments)
{
    size_t next = 0;
    ce_text *to = ce_jrun_capture(run);
    for (size_t at = 0; at < format.size; at++) {
        char c = format.bytes[at];
        ce_jrun_step(run, 1);
        if ((c == '{' || c == '}') && at + 1 < format.size && format.bytes[at + 1] == c) {
            ce_unicode_append(to, &c, 1);
            at++;
        } else if (c == '{') {
            const char *end = memchr(format.bytes + at, '}', format.size - at);
            if (!end)
                ce_jrun_fail(run, "expected '}' before end of string");
            size_t size = (size_t)(end - format.bytes) - at - 1;
            ce_jprint_str(run, to, field(run, format.bytes + at + 1, size, arguments, &next));
            at += size + 1;
        } else if (c == '}')
            ce_jrun_fail(run, "Single '}' encountered in format string");
        else
            ce_unicode_append(to, &c, 1);
    }
    return ce_jrun_captured(run);
}
