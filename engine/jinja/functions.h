/* functions.h - filters, tests, methods and global functions: tables of C functions, and calls with Python's rules for
 * arguments. */
#ifndef CE_JINJA_FUNCTIONS_H
#define CE_JINJA_FUNCTIONS_H

#include "value.h"

/* The arguments of a call: `count` arguments by position, then `named` arguments by name. */
typedef struct {
    const ce_jvalue *values, *named_values;
    const char *const *names;
    size_t count, named;
} ce_jarguments;

/* Returns the value of the argument with this name, or NULL if the call has none. */
const ce_jvalue *ce_jargument_named(const ce_jarguments *arguments, const char *name);

/* `self` is the value that is filtered or tested, or whose method is called. `given` has an argument for each parameter
 * of the entry, or CE_V_ABSENT if the call has none. `all` has the arguments as they are written in the call. */
typedef ce_jvalue ce_jfunction(ce_jrun *run, ce_jvalue self, const ce_jvalue *given, const ce_jarguments *all);
/* Begins the definition of such a function, which need not use all of its parameters. */
#define CE_JFUNCTION(name)                                                                                             \
    static ce_jvalue name(CE_JUNUSED ce_jrun *run, CE_JUNUSED ce_jvalue self, CE_JUNUSED const ce_jvalue *given,       \
                          CE_JUNUSED const ce_jarguments *all)
#define CE_JUNUSED __attribute__((unused))

typedef struct {
    const char *name;
    const char *parameters; /* names of the parameters, separated by blanks; if NULL, the function reads `all` itself */
    size_t required;        /* number of parameters that must be given */
    ce_jfunction *call;
} ce_jentry;

enum { CE_JINJA_PARAMETERS = 8 };

struct ce_jcallable {
    const ce_jentry *entry; /* entry of the function, or NULL if the callable is a macro */
    ce_jvalue self;
    const void *macro, *scope; /* for a macro: its ce_jnode and its ce_jscope */
};

/* These functions return the entry of a name, or NULL if there is none. */
const ce_jentry *ce_jfilters_find(const char *name);
const ce_jentry *ce_jfilter_lists_find(const char *name); /* the filters of lists and dictionaries */
const ce_jentry *ce_jtests_find(const char *name);
const ce_jentry *ce_jglobals_find(const char *name);
const ce_jentry *ce_jmethods_find(ce_jvalue self, const char *name);
const ce_jentry *ce_jtext_methods_find(const char *name);
const ce_jentry *ce_jentry_find(const ce_jentry *entries, size_t count, const char *name);

/* Refuses the template: there is no filter or test of this name. `what` is "filter" or "test". */
_Noreturn void ce_jentry_refuse(ce_jrun *run, const char *what, const char *name);

ce_jvalue ce_jentry_call(ce_jrun *run, const ce_jentry *entry, ce_jvalue self, const ce_jarguments *arguments);
/* Does what ce_jentry_call does, but ignores the first `from` arguments by position. */
ce_jvalue ce_jentry_call_rest(ce_jrun *run, const ce_jentry *entry, ce_jvalue self, const ce_jarguments *arguments,
                              size_t from);
/* Returns a callable value. A call of this value calls the function of the entry with `self`. */
ce_jvalue ce_jentry_bind(ce_jrun *run, const ce_jentry *entry, ce_jvalue self);

/* ---- arguments ---- */

ce_jvalue ce_jgiven_text(ce_jrun *run, ce_jvalue given, const char *otherwise);
int64_t ce_jgiven_int(ce_jrun *run, ce_jvalue given, int64_t otherwise);
bool ce_jgiven_true(ce_jvalue given, bool otherwise);
const char *ce_jgiven_name(ce_jrun *run, ce_jvalue given); /* Returns the text of an argument, with a NUL at its end. */

/* ---- functions that several files of this folder use ---- */

/* Returns the attribute or member of a value by Jinja's rules (attributes.c). */
ce_jvalue ce_jget_attribute(ce_jrun *run, ce_jvalue of, const char *name);
ce_jvalue ce_jget_item(ce_jrun *run, ce_jvalue of, ce_jvalue index);
/* Returns Python's of[from:to:step]. A part that is left out is CE_V_ABSENT in `parts`. */
ce_jvalue ce_jslice(ce_jrun *run, ce_jvalue of, const ce_jvalue parts[3]);
/* Returns the value at a path such as "a.b.0", which is the form in which filters name an attribute. */
ce_jvalue ce_jget_path(ce_jrun *run, ce_jvalue of, ce_jvalue path);
ce_jvalue ce_jcase(ce_jrun *run, ce_jvalue text, ce_unicode_case which);
ce_jvalue ce_jcapitalize(ce_jrun *run, ce_jvalue text);
ce_jvalue ce_jstrip(ce_jrun *run, ce_jvalue text, ce_jvalue characters, bool left, bool right);
ce_jvalue ce_jreplace(ce_jrun *run, ce_jvalue text, ce_jvalue old, ce_jvalue new, int64_t max);
ce_jvalue ce_jescape(ce_jrun *run, ce_jvalue value);
/* Returns the result of the operator + - * / // % ** or ~ (operators.c). */
ce_jvalue ce_joperator_binary(ce_jrun *run, const char *operator, ce_jvalue a, ce_jvalue b);
/* These return "%s" % values and "{}".format(values) (format.c). */
ce_jvalue ce_jformat_percent(ce_jrun *run, ce_jvalue format, ce_jvalue values);
ce_jvalue ce_jformat_braces(ce_jrun *run, ce_jvalue format, const ce_jarguments *arguments);

#endif
