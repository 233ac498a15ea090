/* operators.c - operators with two operands. */
#include "functions.h"

#include <math.h>
#include <string.h>

static ce_jvalue concatenate(ce_jrun *run, ce_jvalue a, ce_jvalue b)
{
    ce_text *to = ce_jrun_capture(run);
    ce_jprint_str(run, to, a);
    ce_jprint_str(run, to, b);
    return ce_jrun_captured(run);
}

/* Joins two texts. If only one text is markup, the other text is escaped. */
static ce_jvalue add_texts(ce_jrun *run, ce_jvalue a, ce_jvalue b)
{
    bool markup = a.form == CE_F_MARKUP || b.form == CE_F_MARKUP;
    ce_jvalue sum = markup ? concatenate(run, ce_jescape(run, a), ce_jescape(run, b)) : concatenate(run, a, b);
    sum.form = markup ? CE_F_MARKUP : CE_F_PLAIN;
    return sum;
}

static ce_jvalue add_lists(ce_jrun *run, ce_jvalue a, ce_jvalue b)
{
    ce_jvalue sum = ce_jvalue_list(run, a.form, a.list->count + b.list->count);
    for (size_t i = 0; i < a.list->count; i++)
        ce_jvalue_push(run, sum, a.list->items[i]);
    for (size_t i = 0; i < b.list->count; i++)
        ce_jvalue_push(run, sum, b.list->items[i]);
    return sum;
}

static bool adds_as_list(ce_jvalue value)
{
    return value.kind == CE_V_LIST && (value.form == CE_F_PLAIN || value.form == CE_F_TUPLE);
}

static ce_jvalue repeat(ce_jrun *run, ce_jvalue value, int64_t times)
{
    times = times < 0 ? 0 : times;
    if (value.kind == CE_V_TEXT) {
        ce_text *to = ce_jrun_capture(run);
        for (int64_t i = 0; i < times; i++) {
            ce_jrun_step(run, value.size + 1);
            ce_unicode_append(to, value.bytes, value.size);
        }
        return ce_jrun_captured(run);
    }
    ce_jvalue list = ce_jvalue_list(run, value.form, 0);
    for (int64_t i = 0; i < times; i++) {
        ce_jrun_step(run, value.list->count + 1);
        for (size_t k = 0; k < value.list->count; k++)
            ce_jvalue_push(run, list, value.list->items[k]);
    }
    return list;
}

_Noreturn static void refuse(ce_jrun *run, const char *operator, ce_jvalue a, ce_jvalue b)
{
    if (a.kind == CE_V_UNDEFINED || b.kind == CE_V_UNDEFINED)
        ce_jrun_fail(run, "%s", a.kind == CE_V_UNDEFINED ? a.bytes : b.bytes);
    ce_jrun_fail(run, "unsupported operand types for %s: '%s' and '%s'", operator, ce_jvalue_type(a),
                 ce_jvalue_type(b));
}

_Noreturn static void overflow(ce_jrun *run, const char *operator)
{
    ce_jrun_unsupported(run, "not supported: an integer above 2^63, as the result of %s", operator);
}

/* Divides integers and rounds towards minus infinity. */
static int64_t floor_divide(int64_t a, int64_t b)
{
    int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static ce_jvalue whole_power(ce_jrun *run, int64_t a, int64_t b)
{
    int64_t power = 1;
    if (b < 0)
        return ce_jvalue_float(pow((double)a, (double)b));
    for (; b > 0; b--) {
        ce_jrun_step(run, 1);
        if (__builtin_mul_overflow(power, a, &power))
            overflow(run, "**");
        if (a >= -1 && a <= 1) /* The powers of -1, 0 and 1 repeat, so large exponents are allowed. */
            return ce_jvalue_int(a == -1 && b % 2 == 0 ? 1 : a);
    }
    return ce_jvalue_int(power);
}

static ce_jvalue whole_arithmetic(ce_jrun *run, const char *operator, int64_t a, int64_t b)
{
    int64_t result = 0;
    bool divides = *operator== '/' || * operator== '%';
    if (divides && b == 0)
        ce_jrun_fail(run, "division by zero");
    if (strcmp(operator, "/") == 0)
        return ce_jvalue_float((double)a / (double)b);
    if (strcmp(operator, "**") == 0)
        return whole_power(run, a, b);
    if (divides && b == -1)
        operator= * operator== '%' ? "0" : "n";
    bool over = *operator== '+'    ? __builtin_add_overflow(a, b, &result)
                : * operator== '-' ? __builtin_sub_overflow(a, b, &result)
                : * operator== '*' ? __builtin_mul_overflow(a, b, &result)
                : * operator== 'n' ? __builtin_sub_overflow(0, a, &result)
                                   : false;
    if (over)
        overflow(run, operator);
    if (*operator== '/')
        result = floor_divide(a, b);
    else if (*operator== '%')
        result = a - floor_divide(a, b) * b;
    return ce_jvalue_int(result);
}

static ce_jvalue real_arithmetic(ce_jrun *run, const char *operator, double a, double b)
{
    if ((*operator== '/' || * operator== '%') && b == 0)
        ce_jrun_fail(run, "float division by zero");
    if (strcmp(operator, "**") == 0)
        return ce_jvalue_float(pow(a, b));
    if (strcmp(operator, "//") == 0)
        return ce_jvalue_float(floor(a / b));
    double rest = *operator== '%' ? fmod(a, b) : 0;
    return ce_jvalue_float(*operator== '+'                     ? a + b
                           : * operator== '-'                  ? a - b
                           : * operator== '*'                  ? a * b
                           : * operator== '/'                  ? a / b
                           : rest != 0 &&(rest < 0) != (b < 0) ? rest + b
                                                               : rest);
}

ce_jvalue ce_joperator_binary(ce_jrun *run, const char *operator, ce_jvalue a, ce_jvalue b)
{
    int64_t x, y;
    ce_jrun_step(run, 1);
    if (*operator== '~')
        return concatenate(run, a, b);
    if (*operator== '%' && a.kind == CE_V_TEXT)
        return ce_jformat_percent(run, a, b);
    if (ce_jvalue_is_whole(a, &x) && ce_jvalue_is_whole(b, &y))
        return whole_arithmetic(run, operator, x, y);
    if (ce_jvalue_is_number(a) && ce_jvalue_is_number(b))
        return real_arithmetic(run, operator, ce_jvalue_number(a), ce_jvalue_number(b));
    if (strcmp(operator, "+") == 0 && a.kind == CE_V_TEXT && b.kind == CE_V_TEXT)
        return add_texts(run, a, b);
    if (strcmp(operator, "+") == 0 && adds_as_list(a) && adds_as_list(b) && a.form == b.form)
        return add_lists(run, a, b);
    if (strcmp(operator, "*") == 0 && (a.kind == CE_V_TEXT || adds_as_list(a)) && ce_jvalue_is_whole(b, &y))
        return repeat(run, a, y);
    if (strcmp(operator, "*") == 0 && (b.kind == CE_V_TEXT || adds_as_list(b)) && ce_jvalue_is_whole(a, &x))
        return repeat(run, b, x);
    refuse(run, operator, a, b);
}
