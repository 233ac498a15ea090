/* filters.c - the filters of single values and texts; filter_lists.c has the filters of lists. */
#include "functions.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

CE_JFUNCTION(abs_)
{
    int64_t whole;
    if (ce_jvalue_is_whole(self, &whole) && whole != INT64_MIN)
        return ce_jvalue_int(whole < 0 ? -whole : whole);
    if (self.kind != CE_V_FLOAT)
        ce_jrun_fail(run, "bad operand type for abs(): '%s'", ce_jvalue_type(self));
    return ce_jvalue_float(fabs(self.real));
}

CE_JFUNCTION(capitalize)
{
    return ce_jcapitalize(run, ce_jprint_text(run, self));
}

CE_JFUNCTION(upper)
{
    return ce_jcase(run, ce_jprint_text(run, self), CE_CASE_UPPER);
}

CE_JFUNCTION(lower)
{
    return ce_jcase(run, ce_jprint_text(run, self), CE_CASE_LOWER);
}

/* The filter title. A word begins after white space, a hyphen or an opening bracket. An apostrophe begins no word in
 * this filter; in the method title() it does. */
CE_JFUNCTION(title)
{
    ce_jvalue text = ce_jprint_text(run, self);
    ce_text *to = ce_jrun_capture(run);
    bool inside = false;
    ce_jrun_step(run, text.size);
    for (size_t at = 0, width; at < text.size; at += width) {
        int32_t point = ce_unicode_point(text.bytes, text.size, at, &width);
        ce_unicode_change_case(to, text.bytes + at, width, inside ? CE_CASE_LOWER : CE_CASE_UPPER);
        inside = !ce_unicode_is_space(point) && !(point > 0 && point < 0x80 && strchr("-({[<", point));
    }
    return ce_jrun_captured(run);
}

CE_JFUNCTION(trim)
{
    return ce_jstrip(run, ce_jprint_text(run, self), given[0], true, true);
}

CE_JFUNCTION(string)
{
    return ce_jprint_text(run, self);
}

CE_JFUNCTION(default_)
{
    bool missing = self.kind == CE_V_UNDEFINED || (ce_jgiven_true(given[1], false) && !ce_jvalue_true(self));
    return !missing ? self : given[0].kind == CE_V_ABSENT ? ce_jvalue_literal("") : given[0];
}

ce_jvalue ce_jescape(ce_jrun *run, ce_jvalue value)
{
    static const char specials[] = "&<>'\"";
    static const char *const escapes[] = { "&amp;", "&lt;", "&gt;", "&#39;", "&#34;" };
    if (value.kind == CE_V_TEXT && value.form == CE_F_MARKUP)
        return value;
    ce_jvalue text = ce_jprint_text(run, value);
    ce_text *to = ce_jrun_capture(run);
    ce_jrun_step(run, text.size);
    for (size_t at = 0; at < text.size; at++) {
        const char *found = text.bytes[at] ? strchr(specials, text.bytes[at]) : NULL;
        const char *put = found ? escapes[found - specials] : text.bytes + at;
        ce_unicode_append(to, put, found ? strlen(put) : 1);
    }
    ce_jvalue escaped = ce_jrun_captured(run);
    escaped.form = CE_F_MARKUP;
    return escaped;
}

CE_JFUNCTION(escape)
{
    return ce_jescape(run, self);
}

CE_JFUNCTION(safe)
{
    ce_jvalue text = ce_jprint_text(run, self);
    text.form = CE_F_MARKUP;
    return text;
}

CE_JFUNCTION(replace)
{
    return ce_jreplace(run, ce_jprint_text(run, self), ce_jprint_text(run, given[0]), ce_jprint_text(run, given[1]),
                       given[2].kind == CE_V_NONE ? -1 : ce_jgiven_int(run, given[2], -1));
}

CE_JFUNCTION(format)
{
    ce_jvalue values = all->named > 0 ? ce_jvalue_dict(run) : ce_jvalue_list(run, CE_F_TUPLE, all->count);
    if (all->named > 0 && all->count > 0)
        ce_jrun_fail(run, "can't handle positional and keyword arguments at the same time");
    for (size_t i = 0; i < all->count; i++)
        ce_jvalue_push(run, values, all->values[i]);
    for (size_t i = 0; i < all->named; i++)
        ce_jvalue_put(run, values.dict, ce_jvalue_literal(all->names[i]), all->named_values[i]);
    return ce_jformat_percent(run, ce_jprint_text(run, self), values);
}

/* Puts blanks or a given text in front of each line. The first line is changed only if the argument `first` is true,
 * and empty lines only if the argument `blank` is true. */
CE_JFUNCTION(indent)
{
    ce_jvalue text = ce_jprint_text(run, self), by = { 0 };
    bool first = ce_jgiven_true(given[1], false), blank = ce_jgiven_true(given[2], false);
    if (given[0].kind == CE_V_TEXT)
        by = given[0];
    else {
        ce_text *blanks = ce_jrun_capture(run);
        int64_t width = ce_jgiven_int(run, given[0], 4);
        ce_jrun_step(run, width > 0 ? (size_t)width : 0);
        for (int64_t i = 0; i < width; i++)
            ce_unicode_append(blanks, " ", 1);
        by = ce_jrun_captured(run);
    }
    ce_text *to = ce_jrun_capture(run);
    for (size_t from = 0; from <= text.size;) {
        const char *found = from < text.size ? memchr(text.bytes + from, '\n', text.size - from) : NULL;
        size_t end = found ? (size_t)(found - text.bytes) : text.size;
        ce_jrun_step(run, by.size + end - from);
        if (from == 0 ? first : end > from || blank)
            ce_unicode_append(to, by.bytes, by.size);
        ce_unicode_append(to, text.bytes + from, end + (found != NULL) - from);
        from = end + 1;
    }
    return ce_jrun_captured(run);
}

/* ---- numbers ---- */

/* Reads a text, without the white space around it, as an integer. Returns false if the text is not an integer. */
static bool read_int(ce_jrun *run, ce_jvalue text, int base, int64_t *whole)
{
    char *end;
    const char *bytes = ce_jgiven_name(run, ce_jstrip(run, text, (ce_jvalue){ 0 }, true, true));
    bool binary = base == 2 && bytes[0] == '0' && (bytes[1] | 0x20) == 'b';
    errno = 0;
    *whole = strtoll(binary ? bytes + 2 : bytes, &end, base);
    return *bytes && !*end && errno == 0;
}

static bool read_float(ce_jrun *run, ce_jvalue text, double *real)
{
    char *end;
    const char *bytes = ce_jgiven_name(run, ce_jstrip(run, text, (ce_jvalue){ 0 }, true, true));
    *real = strtod(bytes, &end);
    return *bytes && !*end && !strpbrk(bytes, "xXpP(");
}

static bool to_int(ce_jrun *run, double real, int64_t *whole)
{
    if (!(real > -9.2e18 && real < 9.2e18))
        ce_jrun_unsupported(run, "not supported: an integer above 2^63");
    *whole = (int64_t)real;
    return true;
}

CE_JFUNCTION(int_)
{
    int64_t whole = 0;
    double real;
    if (self.kind == CE_V_UNDEFINED)
        ce_jrun_fail(run, "%s", self.bytes);
    bool read = ce_jvalue_is_whole(self, &whole) || (self.kind == CE_V_FLOAT && to_int(run, self.real, &whole)) ||
                (self.kind == CE_V_TEXT && (read_int(run, self, (int)ce_jgiven_int(run, given[1], 10), &whole) ||
                                            (read_float(run, self, &real) && to_int(run, real, &whole))));
    return read ? ce_jvalue_int(whole) : given[0].kind == CE_V_ABSENT ? ce_jvalue_int(0) : given[0];
}

CE_JFUNCTION(float_)
{
    double real = 0;
    if (ce_jvalue_is_number(self))
        return ce_jvalue_float(ce_jvalue_number(self));
    bool read = self.kind == CE_V_TEXT && read_float(run, self, &real);
    return read ? ce_jvalue_float(real) : given[0].kind == CE_V_ABSENT ? ce_jvalue_float(0) : given[0];
}

/* Rounds a number by writing it with the given count of decimal digits and reading it back. glibc rounds exactly, and
 * ties to even, as Python does. */
CE_JFUNCTION(round_)
{
    char text[400];
    int64_t digits = ce_jgiven_int(run, given[0], 0);
    ce_jvalue method = ce_jgiven_text(run, given[1], "common");
    if (!ce_jvalue_is_number(self))
        ce_jrun_fail(run, "type %s doesn't define __round__ method", ce_jvalue_type(self));
    double real = ce_jvalue_number(self), scale = pow(10, (double)digits);
    if (ce_jvalue_is(method, "ceil"))
        return ce_jvalue_float(ceil(real * scale) / scale);
    if (ce_jvalue_is(method, "floor"))
        return ce_jvalue_float(floor(real * scale) / scale);
    if (!ce_jvalue_is(method, "common"))
        ce_jrun_fail(run, "method must be common, ceil or floor");
    if (digits < 0 || digits > 300)
        return ce_jvalue_float(digits > 300 ? real : rint(real * scale) / scale);
    snprintf(text, sizeof text, "%.*f", (int)digits, real);
    return ce_jvalue_float(strtod(text, NULL));
}

CE_JFUNCTION(tojson)
{
    ce_jprint_json_form form = { .ascii = ce_jgiven_true(given[0], false), .indent = -1, .comma = ", ", .colon = ": " };
    if (given[1].kind != CE_V_ABSENT && given[1].kind != CE_V_NONE) {
        int64_t indent = ce_jgiven_int(run, given[1], 0);
        form.indent = indent < 0 ? 0 : indent > 64 ? 64 : (int)indent;
        form.comma = ",";
    }
    if (given[2].kind != CE_V_ABSENT && given[2].kind != CE_V_NONE) {
        ce_jlist two = ce_jvalue_items(run, given[2]);
        if (two.count != 2)
            ce_jrun_fail(run, "tojson: separators are two texts");
        form.comma = ce_jgiven_name(run, two.items[0]);
        form.colon = ce_jgiven_name(run, two.items[1]);
    }
    form.sorts = ce_jgiven_true(given[3], false);
    ce_jprint_json(run, ce_jrun_capture(run), self, &form);
    return ce_jrun_captured(run);
}

const ce_jentry *ce_jfilters_find(const char *name)
{
    static const ce_jentry entries[] = {
        { "abs", "", 0, abs_ },
        { "capitalize", "", 0, capitalize },
        { "upper", "", 0, upper },
        { "lower", "", 0, lower },
        { "title", "", 0, title },
        { "trim", "chars", 0, trim },
        { "string", "", 0, string },
        { "default", "default_value boolean", 0, default_ },
        { "d", "default_value boolean", 0, default_ },
        { "escape", "", 0, escape },
        { "e", "", 0, escape },
        { "safe", "", 0, safe },
        { "replace", "old new count", 2, replace },
        { "format", NULL, 0, format },
        { "indent", "width first blank", 0, indent },
        { "int", "default base", 0, int_ },
        { "float", "default", 0, float_ },
        { "round", "precision method", 0, round_ },
        { "tojson", "ensure_ascii indent separators sort_keys", 0, tojson },
    };
    const ce_jentry *found = ce_jentry_find(entries, sizeof entries / sizeof *entries, name);
    return found ? found : ce_jfilter_lists_find(name);
}
