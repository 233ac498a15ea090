/* attributes.c - attributes, items and slices of values.
 *
 * `a.b` is the attribute b of a if there is one, otherwise the member b. `a["b"]` is the member if there is one,
 * otherwise the attribute. */
#include "evaluate.h"

#include <string.h>

/* Returns true if the method of this name changes its object, which templates may not do. */
static bool changes(ce_jvalue of, const char *name)
{
    static const char *const lists[] = { "append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort" };
    static const char *const dicts[] = { "clear", "pop", "popitem", "setdefault", "update" };
    const char *const *names = of.kind == CE_V_DICT ? dicts : lists;
    size_t count = of.kind == CE_V_DICT ? sizeof dicts / sizeof *dicts : sizeof lists / sizeof *lists;
    bool listed = of.kind == CE_V_LIST && of.form == CE_F_PLAIN;
    for (size_t i = 0; (of.kind == CE_V_DICT || listed) && i < count; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* ---- loop ---- */

CE_JFUNCTION(loop_cycle)
{
    if (all->count == 0)
        ce_jrun_fail(run, "no items for cycling given");
    return all->values[self.loop->index % all->count];
}

CE_JFUNCTION(loop_changed)
{
    ce_jvalue list = ce_jvalue_list(run, CE_F_TUPLE, all->count);
    for (size_t i = 0; i < all->count; i++)
        ce_jvalue_push(run, list, all->values[i]);
    bool changed = self.loop->changed.kind == CE_V_ABSENT || !ce_jvalue_equal(run, self.loop->changed, list);
    self.loop->changed = list;
    return ce_jvalue_bool(changed);
}

static ce_jvalue loop_attribute(ce_jrun *run, ce_jvalue of, const char *name)
{
    static const ce_jentry entries[] = { { "cycle", NULL, 0, loop_cycle }, { "changed", NULL, 0, loop_changed } };
    const ce_jloop *loop = of.loop;
    int64_t index = (int64_t)loop->index, count = (int64_t)loop->items.count;
    const struct {
        const char *name;
        ce_jvalue value;
    } attributes[] = { { "index0", ce_jvalue_int(index) },
                       { "index", ce_jvalue_int(index + 1) },
                       { "first", ce_jvalue_bool(index == 0) },
                       { "last", ce_jvalue_bool(index + 1 == count) },
                       { "length", ce_jvalue_int(count) },
                       { "revindex", ce_jvalue_int(count - index) },
                       { "revindex0", ce_jvalue_int(count - index - 1) },
                       /* The depth is always 1, because recursive loops are not supported. */
                       { "depth", ce_jvalue_int(1) },
                       { "depth0", ce_jvalue_int(0) } };
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (strcmp(attributes[i].name, name) == 0)
            return attributes[i].value;
    if (strcmp(name, "previtem") == 0)
        return index > 0 ? loop->items.items[index - 1] : ce_jvalue_undefined(run, "there is no previous item");
    if (strcmp(name, "nextitem") == 0)
        return index + 1 < count ? loop->items.items[index + 1] : ce_jvalue_undefined(run, "there is no next item");
    const ce_jentry *entry = ce_jentry_find(entries, sizeof entries / sizeof *entries, name);
    return entry ? ce_jentry_bind(run, entry, of) : ce_jvalue_undefined(run, "loop has no attribute '%s'", name);
}

/* ---- attributes and items ---- */

static ce_jvalue missing(ce_jrun *run, ce_jvalue of, const char *name)
{
    return of.kind == CE_V_NONE
               ? ce_jvalue_undefined(run, "'None' has no attribute '%s'", name)
               : ce_jvalue_undefined(run, "'%s object' has no attribute '%s'", ce_jvalue_type(of), name);
}

/* Returns the method of this name, or CE_V_ABSENT if the value has no such method. */
static ce_jvalue method_of(ce_jrun *run, ce_jvalue of, const char *name)
{
    const ce_jentry *entry = ce_jmethods_find(of, name);
    if (entry)
        return ce_jentry_bind(run, entry, of);
    if (changes(of, name))
        return ce_jvalue_undefined(run, "access to attribute '%s' of '%s' object is unsafe.", name, ce_jvalue_type(of));
    return (ce_jvalue){ 0 };
}

ce_jvalue ce_jget_attribute(ce_jrun *run, ce_jvalue of, const char *name)
{
    ce_jrun_step(run, 1);
    if (of.kind == CE_V_UNDEFINED)
        ce_jrun_fail(run, "%s", of.bytes);
    if (of.kind == CE_V_LOOP)
        return loop_attribute(run, of, name);
    ce_jvalue method = method_of(run, of, name);
    if (method.kind != CE_V_ABSENT)
        return method;
    ce_jvalue *member = of.kind == CE_V_DICT || of.kind == CE_V_NAMESPACE ? ce_jvalue_member(of.dict, name) : NULL;
    return member ? *member : missing(run, of, name);
}

static ce_jvalue item_at(ce_jrun *run, ce_jvalue of, int64_t index)
{
    size_t from = 0, width = 0;
    int64_t count = (int64_t)ce_jvalue_length(run, of), at = index < 0 ? index + count : index;
    if (at < 0 || at >= count)
        return ce_jvalue_undefined(run, "'%s object' has no element %lld", ce_jvalue_type(of), (long long)index);
    if (of.kind == CE_V_LIST)
        return of.list->items[at];
    ce_jrun_step(run, (size_t)at);
    for (int64_t i = 0; i <= at; i++) {
        from += width;
        ce_unicode_point(of.bytes, of.size, from, &width);
    }
    of.bytes += from;
    of.size = width;
    return of;
}

ce_jvalue ce_jget_item(ce_jrun *run, ce_jvalue of, ce_jvalue index)
{
    int64_t at;
    ce_jrun_step(run, 1);
    if (of.kind == CE_V_UNDEFINED)
        ce_jrun_fail(run, "%s", of.bytes);
    ce_jvalue *member = of.kind == CE_V_DICT ? ce_jvalue_get(run, of.dict, index) : NULL;
    if (member)
        return *member;
    if (index.kind == CE_V_TEXT) {
        const char *name = ce_jgiven_name(run, index);
        if (of.kind == CE_V_DICT) {
            ce_jvalue method = method_of(run, of, name);
            return method.kind != CE_V_ABSENT ? method : missing(run, of, name);
        }
        return ce_jget_attribute(run, of, name);
    }
    bool sequence =
        of.kind == CE_V_TEXT || (of.kind == CE_V_LIST && of.form != CE_F_GENERATOR && of.form != CE_F_ITEMS);
    if (sequence && ce_jvalue_is_whole(index, &at))
        return item_at(run, of, at);
    return ce_jvalue_undefined(run, "'%s object' has no such element", ce_jvalue_type(of));
}

static ce_jvalue get_part(ce_jrun *run, ce_jvalue of, const char *name, size_t size)
{
    int64_t whole = 0;
    bool digits = size > 0 && size < 10;
    for (size_t i = 0; digits && i < size; i++) {
        digits = name[i] >= '0' && name[i] <= '9';
        whole = whole * 10 + name[i] - '0';
    }
    if (of.kind == CE_V_UNDEFINED)
        ce_jrun_fail(run, "%s", of.bytes);
    return ce_jget_item(run, of, digits ? ce_jvalue_int(whole) : ce_jvalue_text(name, size));
}

ce_jvalue ce_jget_path(ce_jrun *run, ce_jvalue of, ce_jvalue path)
{
    if (path.kind != CE_V_TEXT)
        return ce_jget_item(run, of, path);
    for (size_t from = 0; from <= path.size;) {
        const char *point = from < path.size ? memchr(path.bytes + from, '.', path.size - from) : NULL;
        size_t end = point ? (size_t)(point - path.bytes) : path.size;
        of = get_part(run, of, path.bytes + from, end - from);
        from = end + 1;
    }
    return of;
}

/* ---- slices ---- */

/* Converts a bound of a slice as Python does: a negative bound counts from the end, and the result is clamped to
 * [min, max]. */
static int64_t bound(int64_t at, int64_t count, int64_t min, int64_t max)
{
    at = at < 0 ? at + count : at;
    return at < min ? min : at > max ? max : at;
}

ce_jvalue ce_jslice(ce_jrun *run, ce_jvalue of, const ce_jvalue parts[3])
{
    int64_t given[3];
    bool has[3], text = of.kind == CE_V_TEXT;
    if (of.kind == CE_V_UNDEFINED)
        ce_jrun_fail(run, "%s", of.bytes);
    if (!text && (of.kind != CE_V_LIST || of.form == CE_F_GENERATOR || of.form == CE_F_ITEMS))
        return ce_jvalue_undefined(run, "'%s object' has no slices", ce_jvalue_type(of));
    for (int i = 0; i < 3; i++) {
        has[i] = parts[i].kind != CE_V_ABSENT && parts[i].kind != CE_V_NONE;
        if (has[i] && !ce_jvalue_is_whole(parts[i], &given[i]))
            ce_jrun_fail(run, "slice indices must be integers or None");
    }
    int64_t step = has[2] ? given[2] : 1;
    if (step == 0)
        ce_jrun_fail(run, "slice step cannot be zero");
    ce_jlist items = ce_jvalue_items(run, of);
    int64_t count = (int64_t)items.count, min = step > 0 ? 0 : -1, max = step > 0 ? count : count - 1;
    int64_t from = has[0] ? bound(given[0], count, min, max) : step > 0 ? min : max;
    int64_t to = has[1] ? bound(given[1], count, min, max) : step > 0 ? max : min;
    ce_jvalue list = ce_jvalue_list(run, of.form == CE_F_MARKUP ? CE_F_PLAIN : of.form, 0);
    for (int64_t at = from; step > 0 ? at < to : at > to;) {
        ce_jrun_step(run, 1);
        ce_jvalue_push(run, list, items.items[at]);
        if (__builtin_add_overflow(at, step, &at))
            break;
    }
    if (!text)
        return list;
    ce_text *made = ce_jrun_capture(run);
    for (size_t i = 0; i < list.list->count; i++)
        ce_unicode_append(made, list.list->items[i].bytes, list.list->items[i].size);
    ce_jvalue cut = ce_jrun_captured(run);
    cut.form = of.form;
    return cut;
}
