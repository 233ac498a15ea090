/* methods.c - methods of dictionaries and lists. */
#include "functions.h"

/* ---- dictionaries ---- */

CE_JFUNCTION(get)
{
    ce_jvalue *found = ce_jvalue_get(run, self.dict, given[0]);
    return found ? *found : given[1].kind == CE_V_ABSENT ? ce_jvalue_none : given[1];
}

CE_JFUNCTION(items)
{
    ce_jvalue list = ce_jvalue_list(run, CE_F_ITEMS, self.dict->count);
    for (size_t i = 0; i < self.dict->count; i++) {
        ce_jvalue pair = ce_jvalue_list(run, CE_F_TUPLE, 2);
        ce_jvalue_push(run, pair, self.dict->keys[i]);
        ce_jvalue_push(run, pair, self.dict->values[i]);
        ce_jvalue_push(run, list, pair);
    }
    return list;
}

static ce_jvalue copy_of(ce_jrun *run, const ce_jvalue *values, size_t count)
{
    ce_jvalue list = ce_jvalue_list(run, CE_F_ITEMS, count);
    for (size_t i = 0; i < count; i++)
        ce_jvalue_push(run, list, values[i]);
    return list;
}

CE_JFUNCTION(keys)
{
    return copy_of(run, self.dict->keys, self.dict->count);
}

CE_JFUNCTION(values)
{
    return copy_of(run, self.dict->values, self.dict->count);
}

CE_JFUNCTION(copy)
{
    return self; /* A dictionary never changes, so no copy is needed. */
}

/* ---- lists ---- */

CE_JFUNCTION(count_in_list)
{
    int64_t found = 0;
    for (size_t i = 0; i < self.list->count; i++)
        found += ce_jvalue_equal(run, self.list->items[i], given[0]);
    return ce_jvalue_int(found);
}

CE_JFUNCTION(index_in_list)
{
    for (size_t i = 0; i < self.list->count; i++)
        if (ce_jvalue_equal(run, self.list->items[i], given[0]))
            return ce_jvalue_int((int64_t)i);
    ce_jrun_fail(run, "the value is not in list");
}

/* Methods that change their object are not in these tables. So a call of such a method fails, and for such a method the
 * test `is defined` is false. */
const ce_jentry *ce_jmethods_find(ce_jvalue self, const char *name)
{
    static const ce_jentry dicts[] = {
        { "get", "key default", 1, get }, { "items", "", 0, items }, { "keys", "", 0, keys },
        { "values", "", 0, values },      { "copy", "", 0, copy },
    };
    static const ce_jentry lists[] = { { "count", "value", 1, count_in_list }, { "index", "value", 1, index_in_list } };
    switch (self.kind) {
    case CE_V_TEXT:
        return ce_jtext_methods_find(name);
    case CE_V_DICT:
        return ce_jentry_find(dicts, sizeof dicts / sizeof *dicts, name);
    case CE_V_LIST:
        return self.form == CE_F_PLAIN || self.form == CE_F_TUPLE
                   ? ce_jentry_find(lists, sizeof lists / sizeof *lists, name)
                   : NULL;
    default:
        return NULL;
    }
}
