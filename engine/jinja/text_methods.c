/* text_methods.c - the methods of texts. */
#include "functions.h"

#include <string.h>

/* Returns bytes [from, to) of a text. The part is markup if the text is markup. */
static ce_jvalue part(ce_jvalue text, size_t from, size_t to)
{
    text.bytes += from;
    text.size = to - from;
    return text;
}

/* ---- white space and case ---- */

static bool holds_point(ce_jvalue characters, int32_t point)
{
    for (size_t at = 0, width; at < characters.size; at += width)
        if (ce_unicode_point(characters.bytes, characters.size, at, &width) == point)
            return true;
    return false;
}

static bool is_stripped(ce_jvalue characters, int32_t point)
{
    return characters.kind == CE_V_TEXT ? holds_point(characters, point) : ce_unicode_is_space(point);
}

ce_jvalue ce_jstrip(ce_jrun *run, ce_jvalue text, ce_jvalue characters, bool left, bool right)
{
    size_t from = 0, to = text.size, width;
    if (characters.kind != CE_V_ABSENT && characters.kind != CE_V_NONE && characters.kind != CE_V_TEXT)
        ce_jrun_fail(run, "strip arg must be None or str");
    ce_jrun_step(run, 1);
    while (left && from < to && is_stripped(characters, ce_unicode_point(text.bytes, to, from, &width)))
        from += width;
    while (right && to > from) {
        size_t last = to - 1;
        while (last > from && ((unsigned char)text.bytes[last] & 0xc0) == 0x80)
            last--;
        if (!is_stripped(characters, ce_unicode_point(text.bytes, to, last, &width)))
            break;
        to = last;
    }
    return part(text, from, to);
}

ce_jvalue ce_jcase(ce_jrun *run, ce_jvalue text, ce_unicode_case which)
{
    ce_jrun_step(run, text.size);
    ce_unicode_change_case(ce_jrun_capture(run), text.bytes, text.size, which);
    ce_jvalue changed = ce_jrun_captured(run);
    changed.form = text.form;
    return changed;
}

ce_jvalue ce_jcapitalize(ce_jrun *run, ce_jvalue text)
{
    size_t first = 0;
    if (text.size > 0)
        ce_unicode_point(text.bytes, text.size, 0, &first);
    ce_jrun_step(run, text.size);
    ce_text *to = ce_jrun_capture(run);
    ce_unicode_change_case(to, text.bytes, first, CE_CASE_TITLE);
    ce_unicode_change_case(to, text.bytes + first, text.size - first, CE_CASE_LOWER);
    ce_jvalue changed = ce_jrun_captured(run);
    changed.form = text.form;
    return changed;
}

CE_JFUNCTION(upper)
{
    return ce_jcase(run, self, CE_CASE_UPPER);
}

CE_JFUNCTION(lower)
{
    return ce_jcase(run, self, CE_CASE_LOWER);
}

CE_JFUNCTION(title)
{
    return ce_jcase(run, self, CE_CASE_TITLE);
}

CE_JFUNCTION(capitalize)
{
    return ce_jcapitalize(run, self);
}

CE_JFUNCTION(strip)
{
    return ce_jstrip(run, self, given[0], true, true);
}

CE_JFUNCTION(lstrip)
{
    return ce_jstrip(run, self, given[0], true, false);
}

CE_JFUNCTION(rstrip)
{
    return ce_jstrip(run, self, given[0], false, true);
}

/* ---- searching ---- */

/* Returns the offset in bytes of `what` in text[from, to), or -1 if it does not occur there. */
static int64_t find_in(ce_jrun *run, ce_jvalue text, ce_jvalue what, size_t from, size_t to)
{
    ce_jrun_step(run, 1 + (to - from) / 64);
    if (what.size == 0)
        return (int64_t)from;
    const char *found = to - from >= what.size ? memmem(text.bytes + from, to - from, what.bytes, what.size) : NULL;
    return found ? found - text.bytes : -1;
}

static int64_t find_last(ce_jrun *run, ce_jvalue text, ce_jvalue what, size_t to)
{
    ce_jrun_step(run, 1 + to / 64);
    for (size_t at = to; at + 1 > what.size; at--)
        if (memcmp(text.bytes + at - what.size, what.bytes, what.size) == 0)
            return (int64_t)(at - what.size);
    return -1;
}

static ce_jvalue points_before(ce_jvalue text, int64_t at)
{
    return ce_jvalue_int(at < 0 ? -1 : (int64_t)ce_unicode_length(text.bytes, (size_t)at));
}

CE_JFUNCTION(find)
{
    return points_before(self, find_in(run, self, ce_jgiven_text(run, given[0], ""), 0, self.size));
}

CE_JFUNCTION(rfind)
{
    return points_before(self, find_last(run, self, ce_jgiven_text(run, given[0], ""), self.size));
}

CE_JFUNCTION(index_of)
{
    ce_jvalue at = find(run, self, given, all);
    if (at.whole < 0)
        ce_jrun_fail(run, "substring not found");
    return at;
}

CE_JFUNCTION(count)
{
    ce_jvalue what = ce_jgiven_text(run, given[0], "");
    int64_t found = 0, at = 0;
    if (what.size == 0)
        return ce_jvalue_int((int64_t)ce_unicode_length(self.bytes, self.size) + 1);
    while ((at = find_in(run, self, what, (size_t)at, self.size)) >= 0) {
        at += (int64_t)what.size;
        found++;
    }
    return ce_jvalue_int(found);
}

static bool has_end(ce_jvalue text, ce_jvalue what, bool at_start)
{
    return text.size >= what.size &&
           (what.size == 0 || memcmp(text.bytes + (at_start ? 0 : text.size - what.size), what.bytes, what.size) == 0);
}

/* Returns true if the text begins (`at_start` is true) or ends (`at_start` is false) with `what`. If `what` is a tuple,
 * one of the tuple's texts must be at this place. */
static ce_jvalue has_ends(ce_jrun *run, ce_jvalue text, ce_jvalue what, bool at_start)
{
    if (what.kind != CE_V_LIST || what.form != CE_F_TUPLE)
        return ce_jvalue_bool(has_end(text, ce_jgiven_text(run, what, ""), at_start));
    bool found = false;
    for (size_t i = 0; i < what.list->count; i++)
        found |= has_end(text, ce_jgiven_text(run, what.list->items[i], ""), at_start);
    return ce_jvalue_bool(found);
}

CE_JFUNCTION(startswith)
{
    return has_ends(run, self, given[0], true);
}

CE_JFUNCTION(endswith)
{
    return has_ends(run, self, given[0], false);
}

CE_JFUNCTION(removeprefix)
{
    ce_jvalue what = ce_jgiven_text(run, given[0], "");
    return has_end(self, what, true) ? part(self, what.size, self.size) : self;
}

CE_JFUNCTION(removesuffix)
{
    ce_jvalue what = ce_jgiven_text(run, given[0], "");
    return has_end(self, what, false) ? part(self, 0, self.size - what.size) : self;
}

ce_jvalue ce_jreplace(ce_jrun *run, ce_jvalue text, ce_jvalue old, ce_jvalue new, int64_t max)
{
    ce_text *to = ce_jrun_capture(run);
    size_t from = 0;
    while (max != 0 && from <= text.size) {
        size_t width = 1;
        int64_t at = find_in(run, text, old, from, text.size);
        if (at < 0)
            break;
        ce_jrun_step(run, 1 + new.size);
        ce_unicode_append(to, text.bytes + from, (size_t)at - from);
        ce_unicode_append(to, new.bytes, new.size);
        from = (size_t)at + old.size;
        if (old.size == 0) { /* An empty `old`: `new` is put before each character and at the end. */
            if (from < text.size)
                ce_unicode_point(text.bytes, text.size, from, &width);
            ce_unicode_append(to, text.bytes + from, from < text.size ? width : 0);
            from += width;
        }
        max -= max > 0;
    }
    if (from < text.size)
        ce_unicode_append(to, text.bytes + from, text.size - from);
    ce_jvalue made = ce_jrun_captured(run);
    made.form = text.form;
    return made;
}

CE_JFUNCTION(replace)
{
    return ce_jreplace(run, self, ce_jgiven_text(run, given[0], ""), ce_jgiven_text(run, given[1], ""),
                       ce_jgiven_int(run, given[2], -1));
}

/* ---- splitting and joining ---- */

static bool is_given(ce_jvalue value)
{
    return value.kind != CE_V_ABSENT && value.kind != CE_V_NONE;
}

static ce_jvalue split_words(ce_jrun *run, ce_jvalue text, int64_t max)
{
    ce_jvalue list = ce_jvalue_list(run, CE_F_PLAIN, 4);
    for (ce_jvalue rest = ce_jstrip(run, text, (ce_jvalue){ 0 }, true, false); rest.size > 0; max -= max > 0) {
        size_t end = 0, width = 0;
        while (end < rest.size && !ce_unicode_is_space(ce_unicode_point(rest.bytes, rest.size, end, &width)))
            end += width;
        if (max == 0)
            end = ce_jstrip(run, rest, (ce_jvalue){ 0 }, false, true).size;
        ce_jvalue_push(run, list, part(rest, 0, end));
        rest = ce_jstrip(run, part(rest, end, rest.size), (ce_jvalue){ 0 }, true, false);
    }
    return list;
}

CE_JFUNCTION(split)
{
    int64_t max = ce_jgiven_int(run, given[1], -1);
    if (!is_given(given[0]))
        return split_words(run, self, max);
    ce_jvalue by = ce_jgiven_text(run, given[0], ""), list = ce_jvalue_list(run, CE_F_PLAIN, 4);
    if (by.size == 0)
        ce_jrun_fail(run, "empty separator");
    size_t from = 0;
    for (int64_t at; max != 0 && (at = find_in(run, self, by, from, self.size)) >= 0; max -= max > 0) {
        ce_jvalue_push(run, list, part(self, from, (size_t)at));
        from = (size_t)at + by.size;
    }
    ce_jvalue_push(run, list, part(self, from, self.size));
    return list;
}

CE_JFUNCTION(rsplit)
{
    int64_t max = ce_jgiven_int(run, given[1], -1);
    if (!is_given(given[0]) && max >= 0)
        ce_jrun_unsupported(run, "not supported: rsplit at white space with a limit");
    if (max < 0)
        return split(run, self, given, all);
    ce_jvalue by = ce_jgiven_text(run, given[0], ""), last = ce_jvalue_list(run, CE_F_PLAIN, 4);
    if (by.size == 0)
        ce_jrun_fail(run, "empty separator");
    size_t to = self.size;
    for (int64_t at; max > 0 && (at = find_last(run, self, by, to)) >= 0; max--) {
        ce_jvalue_push(run, last, part(self, (size_t)at + by.size, to));
        to = (size_t)at;
    }
    ce_jvalue list = ce_jvalue_list(run, CE_F_PLAIN, last.list->count + 1);
    ce_jvalue_push(run, list, part(self, 0, to));
    for (size_t i = last.list->count; i > 0; i--)
        ce_jvalue_push(run, list, last.list->items[i - 1]);
    return list;
}

static ce_jvalue three(ce_jrun *run, ce_jvalue a, ce_jvalue b, ce_jvalue c)
{
    ce_jvalue tuple = ce_jvalue_list(run, CE_F_TUPLE, 3);
    ce_jvalue_push(run, tuple, a);
    ce_jvalue_push(run, tuple, b);
    ce_jvalue_push(run, tuple, c);
    return tuple;
}

CE_JFUNCTION(partition)
{
    ce_jvalue by = ce_jgiven_text(run, given[0], ""), none = part(self, 0, 0);
    if (by.size == 0)
        ce_jrun_fail(run, "empty separator");
    int64_t at = find_in(run, self, by, 0, self.size);
    if (at < 0)
        return three(run, self, none, none);
    return three(run, part(self, 0, (size_t)at), by, part(self, (size_t)at + by.size, self.size));
}

CE_JFUNCTION(rpartition)
{
    ce_jvalue by = ce_jgiven_text(run, given[0], ""), none = part(self, 0, 0);
    if (by.size == 0)
        ce_jrun_fail(run, "empty separator");
    int64_t at = find_last(run, self, by, self.size);
    if (at < 0)
        return three(run, none, none, self);
    return three(run, part(self, 0, (size_t)at), by, part(self, (size_t)at + by.size, self.size));
}

/* Returns true for the characters that are line boundaries in Python. The pair CR LF counts as one boundary. */
static bool is_line_break(int32_t point)
{
    return (point >= '\n' && point <= '\r') || (point >= 0x1c && point <= 0x1e) || point == 0x85 || point == 0x2028 ||
           point == 0x2029;
}

CE_JFUNCTION(splitlines)
{
    ce_jvalue list = ce_jvalue_list(run, CE_F_PLAIN, 4);
    bool keeps = ce_jgiven_true(given[0], false);
    size_t from = 0, width;
    ce_jrun_step(run, self.size);
    for (size_t at = 0; at < self.size; at += width) {
        int32_t point = ce_unicode_point(self.bytes, self.size, at, &width);
        if (!is_line_break(point))
            continue;
        width += point == '\r' && at + 1 < self.size && self.bytes[at + 1] == '\n';
        ce_jvalue_push(run, list, part(self, from, keeps ? at + width : at));
        from = at + width;
    }
    if (from < self.size)
        ce_jvalue_push(run, list, part(self, from, self.size));
    return list;
}

CE_JFUNCTION(join)
{
    ce_jlist items = ce_jvalue_items(run, given[0]);
    ce_text *to = ce_jrun_capture(run);
    for (size_t i = 0; i < items.count; i++) {
        if (items.items[i].kind != CE_V_TEXT)
            ce_jrun_fail(run, "sequence item %zu: expected str instance, %s found", i, ce_jvalue_type(items.items[i]));
        ce_jrun_step(run, self.size + items.items[i].size);
        ce_unicode_append(to, self.bytes, i > 0 ? self.size : 0);
        ce_unicode_append(to, items.items[i].bytes, items.items[i].size);
    }
    return ce_jrun_captured(run);
}

CE_JFUNCTION(format)
{
    return ce_jformat_braces(run, self, all);
}

/* Computes Python's methods "is...": true if the text is not empty and the function `is` is true for all its
 * characters. */
static ce_jvalue all_points(ce_jvalue text, bool (*is)(int32_t point))
{
    bool found = text.size > 0;
    for (size_t at = 0, width; at < text.size; at += width)
        found &= is(ce_unicode_point(text.bytes, text.size, at, &width));
    return ce_jvalue_bool(found);
}

CE_JFUNCTION(is_space)
{
    return all_points(self, ce_unicode_is_space);
}

static bool is_digit(int32_t point)
{
    return point >= '0' && point <= '9';
}

CE_JFUNCTION(is_all_digits)
{
    return all_points(self, is_digit);
}

const ce_jentry *ce_jtext_methods_find(const char *name)
{
    static const ce_jentry texts[] = {
        { "upper", "", 0, upper },
        { "lower", "", 0, lower },
        { "title", "", 0, title },
        { "capitalize", "", 0, capitalize },
        { "strip", "chars", 0, strip },
        { "lstrip", "chars", 0, lstrip },
        { "rstrip", "chars", 0, rstrip },
        { "find", "sub", 1, find },
        { "rfind", "sub", 1, rfind },
        { "index", "sub", 1, index_of },
        { "count", "sub", 1, count },
        { "startswith", "prefix", 1, startswith },
        { "endswith", "suffix", 1, endswith },
        { "removeprefix", "prefix", 1, removeprefix },
        { "removesuffix", "suffix", 1, removesuffix },
        { "replace", "old new count", 2, replace },
        { "split", "sep maxsplit", 0, split },
        { "rsplit", "sep maxsplit", 0, rsplit },
        { "partition", "sep", 1, partition },
        { "rpartition", "sep", 1, rpartition },
        { "splitlines", "keepends", 0, splitlines },
        { "join", "iterable", 1, join },
        { "format", NULL, 0, format },
        { "isspace", "", 0, is_space },
        { "isdigit", "", 0, is_all_digits },
    };
    return ce_jentry_find(texts, sizeof texts / sizeof *texts, name);
}
