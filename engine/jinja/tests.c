/* tests.c - the tests of templates, which are the names that may follow the word `is`. */
#include "functions.h"

#define SIMPLE(name, condition)                                                                                        \
    CE_JFUNCTION(name)                                                                                                 \
    {                                                                                                                  \
        return ce_jvalue_bool(condition);                                                                              \
    }

static int64_t whole_of(ce_jrun *run, ce_jvalue value)
{
    return ce_jgiven_int(run, value, 0);
}

static int64_t remainder_of(ce_jrun *run, ce_jvalue value, ce_jvalue by)
{
    int64_t divisor = whole_of(run, by);
    if (divisor == 0)
        ce_jrun_fail(run, "integer modulo by zero");
    return divisor == -1 ? 0 : whole_of(run, value) % divisor;
}

/* Returns true if the text has at least one letter that exists in upper and lower case, and if converting the text to
 * the case `which` does not change it. */
static bool has_case(ce_jrun *run, ce_jvalue value, ce_unicode_case which)
{
    bool cased = false;
    ce_jvalue text = ce_jprint_text(run, value);
    for (size_t at = 0, width; at < text.size; at += width)
        cased |= ce_unicode_is_cased(ce_unicode_point(text.bytes, text.size, at, &width));
    return cased && ce_jvalue_equal(run, ce_jcase(run, text, which), text);
}

SIMPLE(is_defined, self.kind != CE_V_UNDEFINED)
SIMPLE(is_undefined, self.kind == CE_V_UNDEFINED)
SIMPLE(is_none, self.kind == CE_V_NONE)
SIMPLE(is_boolean, self.kind == CE_V_BOOL)
SIMPLE(is_true, self.kind == CE_V_BOOL && self.truth)
SIMPLE(is_false, self.kind == CE_V_BOOL && !self.truth)
SIMPLE(is_integer, self.kind == CE_V_INT)
SIMPLE(is_float, self.kind == CE_V_FLOAT)
SIMPLE(is_number, ce_jvalue_is_number(self))
SIMPLE(is_string, self.kind == CE_V_TEXT)
SIMPLE(is_mapping, self.kind == CE_V_DICT)
SIMPLE(is_iterable,
       self.kind == CE_V_UNDEFINED || self.kind == CE_V_TEXT || self.kind == CE_V_LIST || self.kind == CE_V_DICT)
SIMPLE(is_sequence, self.kind == CE_V_UNDEFINED || self.kind == CE_V_TEXT || self.kind == CE_V_DICT ||
                        (self.kind == CE_V_LIST && self.form != CE_F_GENERATOR && self.form != CE_F_ITEMS))
SIMPLE(is_callable, self.kind == CE_V_CALLABLE)
SIMPLE(is_odd, remainder_of(run, self, ce_jvalue_int(2)) != 0)
SIMPLE(is_even, remainder_of(run, self, ce_jvalue_int(2)) == 0)
SIMPLE(is_divisible, remainder_of(run, self, given[0]) == 0)
SIMPLE(is_lower, has_case(run, self, CE_CASE_LOWER))
SIMPLE(is_upper, has_case(run, self, CE_CASE_UPPER))
SIMPLE(is_escaped, self.kind == CE_V_TEXT && self.form == CE_F_MARKUP)
SIMPLE(is_in, ce_jvalue_contains(run, given[0], self))
SIMPLE(is_equal, ce_jvalue_equal(run, self, given[0]))
SIMPLE(is_unequal, !ce_jvalue_equal(run, self, given[0]))
SIMPLE(is_less, ce_jvalue_compare(run, self, given[0], "<") < 0)
SIMPLE(is_at_most, ce_jvalue_compare(run, self, given[0], "<=") <= 0)
SIMPLE(is_greater, ce_jvalue_compare(run, self, given[0], ">") > 0)
SIMPLE(is_at_least, ce_jvalue_compare(run, self, given[0], ">=") >= 0)
SIMPLE(is_filter, ce_jfilters_find(ce_jgiven_name(run, self)) != NULL)
SIMPLE(is_test, ce_jtests_find(ce_jgiven_name(run, self)) != NULL)

CE_JFUNCTION(is_same)
{
    return ce_jvalue_bool(self.kind == given[0].kind && ce_jvalue_equal(run, self, given[0]));
}

const ce_jentry *ce_jtests_find(const char *name)
{
    static const ce_jentry entries[] = {
        { "defined", "", 0, is_defined },
        { "undefined", "", 0, is_undefined },
        { "none", "", 0, is_none },
        { "boolean", "", 0, is_boolean },
        { "true", "", 0, is_true },
        { "false", "", 0, is_false },
        { "integer", "", 0, is_integer },
        { "float", "", 0, is_float },
        { "number", "", 0, is_number },
        { "string", "", 0, is_string },
        { "mapping", "", 0, is_mapping },
        { "iterable", "", 0, is_iterable },
        { "sequence", "", 0, is_sequence },
        { "callable", "", 0, is_callable },
        { "odd", "", 0, is_odd },
        { "even", "", 0, is_even },
        { "divisibleby", "num", 1, is_divisible },
        { "lower", "", 0, is_lower },
        { "upper", "", 0, is_upper },
        { "escaped", "", 0, is_escaped },
        { "in", "seq", 1, is_in },
        { "filter", "", 0, is_filter },
        { "test", "", 0, is_test },
        { "sameas", "other", 1, is_same },
        { "==", "other", 1, is_equal },
        { "eq", "other", 1, is_equal },
        { "equalto", "other", 1, is_equal },
        { "!=", "other", 1, is_unequal },
        { "ne", "other", 1, is_unequal },
        { "<", "other", 1, is_less },
        { "lt", "other", 1, is_less },
        { "lessthan", "other", 1, is_less },
        { "<=", "other", 1, is_at_most },
        { "le", "other", 1, is_at_most },
        { ">", "other", 1, is_greater },
        { "gt", "other", 1, is_greater },
        { "greaterthan", "other", 1, is_greater },
        { ">=", "other", 1, is_at_least },
        { "ge", "other", 1, is_at_least },
    };
    return ce_jentry_find(entries, sizeof entries / sizeof *entries, name);
}
