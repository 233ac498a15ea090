/* filter_lists.c - filters of lists and dictionaries. */
#include "functions.h"

#include <string.h>

CE_JFUNCTION(length)
{
    return ce_jvalue_int((int64_t)ce_jvalue_length(run, self));
}

/* Returns the items of a value. None and other false values have no items. */
static ce_jlist items_if_true(ce_jrun *run, ce_jvalue value)
{
    return ce_jvalue_true(value) ? ce_jvalue_items(run, value) : (ce_jlist){ 0 };
}

static ce_jvalue list_of(ce_jrun *run, ce_jlist items, ce_jform form)
{
    ce_jvalue list = ce_jvalue_list(run, form, items.count);
    for (size_t i = 0; i < items.count; i++)
        ce_jvalue_push(run, list, items.items[i]);
    return list;
}

CE_JFUNCTION(list_)
{
    return list_of(run, ce_jvalue_items(run, self), CE_F_PLAIN);
}

CE_JFUNCTION(first)
{
    ce_jlist items = ce_jvalue_items(run, self);
    return items.count > 0 ? items.items[0] : ce_jvalue_undefined(run, "No first item, sequence was empty.");
}

CE_JFUNCTION(last)
{
    ce_jlist items = ce_jvalue_items(run, self);
    return items.count > 0 ? items.items[items.count - 1]
                           : ce_jvalue_undefined(run, "No last item, sequence was empty.");
}

CE_JFUNCTION(reverse)
{
    ce_jlist items = ce_jvalue_items(run, self);
    ce_jvalue list = ce_jvalue_list(run, CE_F_GENERATOR, items.count);
    for (size_t i = items.count; i > 0; i--)
        ce_jvalue_push(run, list, items.items[i - 1]);
    if (self.kind != CE_V_TEXT)
        return list;
    ce_text *to = ce_jrun_capture(run);
    for (size_t i = 0; i < items.count; i++)
        ce_unicode_append(to, list.list->items[i].bytes, list.list->items[i].size);
    return ce_jrun_captured(run);
}

CE_JFUNCTION(items)
{
    ce_jvalue list = ce_jvalue_list(run, CE_F_GENERATOR, 0);
    if (self.kind == CE_V_UNDEFINED)
        return list;
    if (self.kind != CE_V_DICT)
        ce_jrun_fail(run, "Can only get item pairs from a mapping.");
    list = ce_jentry_call(run, ce_jmethods_find(self, "items"), self, &(ce_jarguments){ 0 });
    list.form = CE_F_GENERATOR;
    return list;
}

CE_JFUNCTION(join)
{
    ce_jlist items = ce_jvalue_items(run, self);
    ce_jvalue by = given[0].kind == CE_V_ABSENT ? ce_jvalue_literal("") : ce_jprint_text(run, given[0]);
    ce_text *to = ce_jrun_capture(run);
    for (size_t i = 0; i < items.count; i++) {
        ce_jvalue item = given[1].kind == CE_V_ABSENT ? items.items[i] : ce_jget_path(run, items.items[i], given[1]);
        ce_jrun_step(run, by.size + 1);
        ce_unicode_append(to, by.bytes, i > 0 ? by.size : 0);
        ce_jprint_str(run, to, item);
    }
    return ce_jrun_captured(run);
}

CE_JFUNCTION(batch)
{
    int64_t size = ce_jgiven_int(run, given[0], 1);
    ce_jlist items = ce_jvalue_items(run, self);
    ce_jvalue rows = ce_jvalue_list(run, CE_F_GENERATOR, 0), row = { 0 };
    if (size < 1)
        ce_jrun_fail(run, "batch: a size of at least 1");
    for (size_t i = 0; i < items.count; i++) {
        if (i % (size_t)size == 0) {
            row = ce_jvalue_list(run, CE_F_PLAIN, 4);
            ce_jvalue_push(run, rows, row);
        }
        ce_jvalue_push(run, row, items.items[i]);
    }
    while (items.count > 0 && given[1].kind != CE_V_ABSENT && row.list->count < (size_t)size) {
        ce_jrun_step(run, 1);
        ce_jvalue_push(run, row, given[1]);
    }
    return rows;
}

/* ---- order ---- */

/* Sorts the items by keys[i], which belongs to items[i], and reorders both arrays. This is a binary insertion sort,
 * which is stable. Each comparison counts as a step of the rendering, so the work is bounded. */
static void sort_by_keys(ce_jrun *run, ce_jvalue *items, ce_jvalue *keys, size_t count, bool reverse)
{
    for (size_t i = 1; i < count; i++) {
        size_t low = 0, high = i;
        ce_jvalue item = items[i], key = keys[i];
        while (low < high) {
            size_t middle = low + (high - low) / 2;
            int order = ce_jvalue_compare(run, reverse ? keys[middle] : key, reverse ? key : keys[middle], "<");
            if (order < 0)
                high = middle;
            else
                low = middle + 1;
        }
        ce_jrun_step(run, i - low);
        memmove(&items[low + 1], &items[low], (i - low) * sizeof *items);
        memmove(&keys[low + 1], &keys[low], (i - low) * sizeof *keys);
        items[low] = item;
        keys[low] = key;
    }
}

/* Returns the key by which an item is compared: the item or its attribute, in lower case unless `cased` is true. */
static ce_jvalue key_of(ce_jrun *run, ce_jvalue item, ce_jvalue attribute, bool cased)
{
    bool whole = attribute.kind == CE_V_ABSENT || attribute.kind == CE_V_NONE;
    ce_jvalue key = whole ? item : ce_jget_path(run, item, attribute);
    return cased || key.kind != CE_V_TEXT ? key : ce_jcase(run, key, CE_CASE_LOWER);
}

static ce_jvalue keys_of(ce_jrun *run, ce_jlist items, ce_jvalue attribute, bool cased)
{
    ce_jvalue keys = ce_jvalue_list(run, CE_F_PLAIN, items.count);
    for (size_t i = 0; i < items.count; i++)
        ce_jvalue_push(run, keys, key_of(run, items.items[i], attribute, cased));
    return keys;
}

CE_JFUNCTION(sort)
{
    ce_jvalue sorted = list_of(run, ce_jvalue_items(run, self), CE_F_PLAIN);
    ce_jvalue keys = keys_of(run, *sorted.list, given[2], ce_jgiven_true(given[1], false));
    sort_by_keys(run, sorted.list->items, keys.list->items, sorted.list->count, ce_jgiven_true(given[0], false));
    return sorted;
}

CE_JFUNCTION(dictsort)
{
    ce_jvalue pairs = items(run, self, given, all), by = ce_jgiven_text(run, given[1], "key");
    bool by_key = ce_jvalue_is(by, "key");
    if (!by_key && !ce_jvalue_is(by, "value"))
        ce_jrun_fail(run, "You can only sort by either \"key\" or \"value\"");
    pairs.form = CE_F_PLAIN;
    ce_jvalue keys = keys_of(run, *pairs.list, ce_jvalue_int(by_key ? 0 : 1), ce_jgiven_true(given[0], false));
    sort_by_keys(run, pairs.list->items, keys.list->items, pairs.list->count, ce_jgiven_true(given[2], false));
    return pairs;
}

CE_JFUNCTION(unique)
{
    ce_jlist items = ce_jvalue_items(run, self);
    ce_jvalue keys = keys_of(run, items, given[1], ce_jgiven_true(given[0], false)), seen = ce_jvalue_dict(run);
    ce_jvalue list = ce_jvalue_list(run, CE_F_GENERATOR, 0);
    for (size_t i = 0; i < items.count; i++)
        if (!ce_jvalue_get(run, seen.dict, keys.list->items[i])) {
            ce_jvalue_put(run, seen.dict, keys.list->items[i], ce_jvalue_none);
            ce_jvalue_push(run, list, items.items[i]);
        }
    return list;
}

/* Returns the item with the least key, or with the greatest key if `sign` is -1. */
static ce_jvalue extreme(ce_jrun *run, ce_jvalue of, const ce_jvalue *given, int sign)
{
    ce_jlist items = ce_jvalue_items(run, of);
    ce_jvalue keys = keys_of(run, items, given[1], ce_jgiven_true(given[0], false));
    size_t best = 0;
    for (size_t i = 1; i < items.count; i++)
        if (sign * ce_jvalue_compare(run, keys.list->items[i], keys.list->items[best], sign > 0 ? "<" : ">") < 0)
            best = i;
    return items.count > 0 ? items.items[best] : ce_jvalue_undefined(run, "No aggregated item, sequence was empty.");
}

CE_JFUNCTION(min)
{
    return extreme(run, self, given, 1);
}

CE_JFUNCTION(max)
{
    return extreme(run, self, given, -1);
}

CE_JFUNCTION(sum)
{
    ce_jlist items = ce_jvalue_items(run, self);
    ce_jvalue total = given[1].kind == CE_V_ABSENT ? ce_jvalue_int(0) : given[1];
    bool whole_items = given[0].kind == CE_V_ABSENT || given[0].kind == CE_V_NONE;
    for (size_t i = 0; i < items.count; i++)
        total = ce_joperator_binary(run, "+", total,
                                    whole_items ? items.items[i] : ce_jget_path(run, items.items[i], given[0]));
    return total;
}

/* ---- choosing and mapping ---- */

CE_JFUNCTION(map)
{
    ce_jlist items = items_if_true(run, self);
    ce_jvalue list = ce_jvalue_list(run, CE_F_GENERATOR, items.count);
    const ce_jvalue *attribute = ce_jargument_named(all, "attribute"), *otherwise = ce_jargument_named(all, "default");
    if (all->count == 0 && !attribute)
        ce_jrun_fail(run, "map requires a filter argument");
    const char *name = all->count > 0 ? ce_jgiven_name(run, all->values[0]) : NULL;
    const ce_jentry *filter = name ? ce_jfilters_find(name) : NULL;
    if (name && !filter)
        ce_jentry_refuse(run, "filter", name);
    for (size_t i = 0; i < items.count; i++) {
        ce_jvalue item = filter ? ce_jentry_call_rest(run, filter, items.items[i], all, 1)
                                : ce_jget_path(run, items.items[i], *attribute);
        ce_jvalue_push(run, list, item.kind == CE_V_UNDEFINED && !filter && otherwise ? *otherwise : item);
    }
    return list;
}

/* Returns the items for which a test results in `wanted`. If the arguments name no test, an item's truth is its result.
 * If `attribute` is true, the first argument names the attribute that is tested; the next argument names the test. */
static ce_jvalue choose(ce_jrun *run, ce_jvalue of, const ce_jarguments *all, bool attribute, bool wanted)
{
    ce_jlist items = items_if_true(run, of);
    ce_jvalue list = ce_jvalue_list(run, CE_F_GENERATOR, 0);
    size_t at = attribute;
    if (attribute && all->count == 0)
        ce_jrun_fail(run, "Missing parameter for attribute name");
    const char *name = all->count > at ? ce_jgiven_name(run, all->values[at]) : NULL;
    const ce_jentry *test = name ? ce_jtests_find(name) : NULL;
    if (name && !test)
        ce_jentry_refuse(run, "test", name);
    for (size_t i = 0; i < items.count; i++) {
        ce_jvalue item = attribute ? ce_jget_path(run, items.items[i], all->values[0]) : items.items[i];
        if (ce_jvalue_true(test ? ce_jentry_call_rest(run, test, item, all, at + 1) : item) == wanted)
            ce_jvalue_push(run, list, items.items[i]);
    }
    return list;
}

CE_JFUNCTION(select_)
{
    return choose(run, self, all, false, true);
}

CE_JFUNCTION(reject)
{
    return choose(run, self, all, false, false);
}

CE_JFUNCTION(selectattr)
{
    return choose(run, self, all, true, true);
}

CE_JFUNCTION(rejectattr)
{
    return choose(run, self, all, true, false);
}

const ce_jentry *ce_jfilter_lists_find(const char *name)
{
    static const ce_jentry entries[] = {
        { "length", "", 0, length },
        { "count", "", 0, length },
        { "list", "", 0, list_ },
        { "first", "", 0, first },
        { "last", "", 0, last },
        { "reverse", "", 0, reverse },
        { "items", "", 0, items },
        { "join", "d attribute", 0, join },
        { "batch", "linecount fill_with", 1, batch },
        { "sort", "reverse case_sensitive attribute", 0, sort },
        { "dictsort", "case_sensitive by reverse", 0, dictsort },
        { "unique", "case_sensitive attribute", 0, unique },
        { "min", "case_sensitive attribute", 0, min },
        { "max", "case_sensitive attribute", 0, max },
        { "sum", "attribute start", 0, sum },
        { "map", NULL, 0, map },
        { "select", NULL, 0, select_ },
        { "reject", NULL, 0, reject },
        { "selectattr", NULL, 0, selectattr },
        { "rejectattr", NULL, 0, rejectattr },
    };
    return ce_jentry_find(entries, sizeof entries / sizeof *entries, name);
}
