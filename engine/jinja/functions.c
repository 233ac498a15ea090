/* functions.c - calls with Python's rules for arguments, and the global functions. */
#include "functions.h"

#include <string.h>

const ce_jentry *ce_jentry_find(const ce_jentry *entries, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(entries[i].name, name) == 0)
            return &entries[i];
    return NULL;
}

const ce_jvalue *ce_jargument_named(const ce_jarguments *arguments, const char *name)
{
    for (size_t i = 0; i < arguments->named; i++)
        if (strcmp(arguments->names[i], name) == 0)
            return &arguments->named_values[i];
    return NULL;
}

/* Splits the parameters of an entry into names. Returns the number of names. */
static size_t split_names(const char *parameters, char names[CE_JINJA_PARAMETERS][24])
{
    size_t count = 0;
    while (*parameters && count < CE_JINJA_PARAMETERS) {
        size_t length = strcspn(parameters, " ");
        memcpy(names[count], parameters, length);
        names[count++][length] = '\0';
        parameters += length + strspn(parameters + length, " ");
    }
    return count;
}

static void bind(ce_jrun *run, const ce_jentry *entry, const ce_jarguments *arguments, ce_jvalue *given)
{
    char names[CE_JINJA_PARAMETERS][24];
    size_t count = split_names(entry->parameters, names);
    if (arguments->count > count)
        ce_jrun_fail(run, "%s takes at most %zu argument%s, not %zu", entry->name, count, count == 1 ? "" : "s",
                     arguments->count);
    for (size_t i = 0; i < arguments->count; i++)
        given[i] = arguments->values[i];
    for (size_t i = 0; i < arguments->named; i++) {
        size_t at = 0;
        while (at < count && strcmp(names[at], arguments->names[i]) != 0)
            at++;
        if (at == count)
            ce_jrun_fail(run, "%s has no argument '%s'", entry->name, arguments->names[i]);
        if (given[at].kind != CE_V_ABSENT)
            ce_jrun_fail(run, "%s: the argument '%s' is given twice", entry->name, names[at]);
        given[at] = arguments->named_values[i];
    }
    for (size_t i = 0; i < entry->required; i++)
        if (given[i].kind == CE_V_ABSENT)
            ce_jrun_fail(run, "%s needs the argument '%s'", entry->name, names[i]);
}

void ce_jentry_refuse(ce_jrun *run, const char *what, const char *name)
{
    ce_jrun_unsupported(run, "not supported: the %s '%s'", what, name);
}

ce_jvalue ce_jentry_call(ce_jrun *run, const ce_jentry *entry, ce_jvalue self, const ce_jarguments *arguments)
{
    ce_jvalue given[CE_JINJA_PARAMETERS] = { { 0 } };
    ce_jrun_step(run, 1);
    if (entry->parameters)
        bind(run, entry, arguments, given);
    return entry->call(run, self, given, arguments);
}

ce_jvalue ce_jentry_call_rest(ce_jrun *run, const ce_jentry *entry, ce_jvalue self, const ce_jarguments *arguments,
                              size_t from)
{
    ce_jarguments rest = *arguments;
    from = from < rest.count ? from : rest.count;
    rest.values += from;
    rest.count -= from;
    return ce_jentry_call(run, entry, self, &rest);
}

ce_jvalue ce_jentry_bind(ce_jrun *run, const ce_jentry *entry, ce_jvalue self)
{
    ce_jcallable *callable = ce_jrun_alloc(run, sizeof *callable);
    *callable = (ce_jcallable){ .entry = entry, .self = self };
    return (ce_jvalue){ .kind = CE_V_CALLABLE, .callable = callable };
}

/* ---- arguments ---- */

ce_jvalue ce_jgiven_text(ce_jrun *run, ce_jvalue given, const char *otherwise)
{
    if (given.kind == CE_V_ABSENT)
        return ce_jvalue_literal(otherwise);
    if (given.kind != CE_V_TEXT)
        ce_jrun_fail(run, "an argument must be str, not %s", ce_jvalue_type(given));
    return given;
}

int64_t ce_jgiven_int(ce_jrun *run, ce_jvalue given, int64_t otherwise)
{
    int64_t whole;
    if (given.kind == CE_V_ABSENT)
        return otherwise;
    if (!ce_jvalue_is_whole(given, &whole))
        ce_jrun_fail(run, "an argument must be int, not %s", ce_jvalue_type(given));
    return whole;
}

bool ce_jgiven_true(ce_jvalue given, bool otherwise)
{
    return given.kind == CE_V_ABSENT ? otherwise : ce_jvalue_true(given);
}

const char *ce_jgiven_name(ce_jrun *run, ce_jvalue given)
{
    ce_jvalue text = ce_jgiven_text(run, given, "");
    return ce_jvalue_copy(run, text.bytes, text.size).bytes;
}

/* ---- global functions ---- */

CE_JFUNCTION(raise_exception)
{
    ce_jvalue text = ce_jprint_text(run, given[0]);
    run->status = ce_fail(CS_BAD_FILE, "%.*s", (int)(text.size < 1000 ? text.size : 1000), text.bytes);
    longjmp(run->trap, 1);
}

CE_JFUNCTION(strftime_now)
{
    char text[512];
    struct tm local;
    ce_jvalue format = ce_jgiven_text(run, given[0], "");
    if (format.size == 0)
        return format;
    format = ce_jvalue_copy(run, format.bytes, format.size); /* The copy ends with a NUL. */
    if (!localtime_r(&run->now, &local))
        ce_jrun_fail(run, "strftime_now: the time of the system's clock is out of range");
    size_t size = strftime(text, sizeof text, format.bytes, &local); // NOLINT: the template gives the format
    if (size == 0)
        ce_jrun_fail(run, "strftime_now: the result is longer than %zu bytes", sizeof text);
    return ce_jvalue_copy(run, text, ce_unicode_valid(text, size));
}

CE_JFUNCTION(range)
{
    enum { MAX_ITEMS = 100000 }; /* Jinja's sandbox has the same limit. */
    bool one = given[1].kind == CE_V_ABSENT;
    int64_t from = one ? 0 : ce_jgiven_int(run, given[0], 0), to = ce_jgiven_int(run, given[one ? 0 : 1], 0);
    int64_t step = ce_jgiven_int(run, given[2], 1);
    if (step == 0)
        ce_jrun_fail(run, "range() arg 3 must not be zero");
    ce_jvalue list = ce_jvalue_list(run, CE_F_RANGE, 0);
    for (int64_t at = from; step > 0 ? at < to : at > to;) {
        ce_jrun_step(run, 1);
        if (list.list->count == MAX_ITEMS)
            ce_jrun_fail(run, "range() has more than %d items", MAX_ITEMS);
        ce_jvalue_push(run, list, ce_jvalue_int(at));
        if (__builtin_add_overflow(at, step, &at))
            break;
    }
    return list;
}

/* Adds the members of `from` to a dictionary. `from` is a dictionary, or a list of pairs of a key and a value. */
static void add_members(ce_jrun *run, ce_jdict *to, ce_jvalue from)
{
    if (from.kind == CE_V_DICT) {
        for (size_t i = 0; i < from.dict->count; i++)
            ce_jvalue_put(run, to, from.dict->keys[i], from.dict->values[i]);
        return;
    }
    ce_jlist pairs = ce_jvalue_items(run, from);
    for (size_t i = 0; i < pairs.count; i++) {
        ce_jlist pair = ce_jvalue_items(run, pairs.items[i]);
        if (pair.count != 2)
            ce_jrun_fail(run, "dictionary update sequence element #%zu has length %zu; 2 is required", i, pair.count);
        ce_jvalue_put(run, to, pair.items[0], pair.items[1]);
    }
}

CE_JFUNCTION(dict)
{
    ce_jvalue made = ce_jvalue_dict(run);
    if (all->count > 1)
        ce_jrun_fail(run, "dict expected at most 1 argument, got %zu", all->count);
    if (all->count == 1)
        add_members(run, made.dict, all->values[0]);
    for (size_t i = 0; i < all->named; i++)
        ce_jvalue_put(run, made.dict, ce_jvalue_literal(all->names[i]), all->named_values[i]);
    return made;
}

CE_JFUNCTION(namespace)
{
    ce_jvalue made = dict(run, self, given, all);
    for (size_t i = 0; i < made.dict->count; i++)
        if (made.dict->keys[i].kind == CE_V_TEXT && made.dict->keys[i].size > 0 && made.dict->keys[i].bytes[0] == '_')
            ce_jrun_fail(run, "underscore attribute '%s' on a namespace", ce_jgiven_name(run, made.dict->keys[i]));
    made.kind = CE_V_NAMESPACE;
    return made;
}

CE_JFUNCTION(cycler)
{
    ce_jrun_unsupported(run, "not supported: cycler and joiner, which change themselves; use a namespace");
}

const ce_jentry *ce_jglobals_find(const char *name)
{
    static const ce_jentry entries[] = {
        { "raise_exception", "message", 1, raise_exception },
        { "strftime_now", "format", 1, strftime_now },
        { "range", "start stop step", 1, range },
        { "dict", NULL, 0, dict },
        { "namespace", NULL, 0, namespace },
        { "cycler", NULL, 0, cycler },
        { "joiner", NULL, 0, cycler },
    };
    return ce_jentry_find(entries, sizeof entries / sizeof *entries, name);
}
