/* evaluate.c - evaluates expressions. */
#include "evaluate.h"

#include <string.h>

const ce_jscope *ce_jscope_inside(ce_jrun *run, const ce_jscope *parent)
{
    /* A scope is in the arena, because a macro may refer to it later. */
    ce_jscope *scope = ce_jrun_alloc(run, sizeof *scope);
    *scope = (ce_jscope){ parent, ce_jvalue_dict(run).dict };
    return scope;
}

void ce_jscope_set(ce_jrun *run, const ce_jscope *scope, const char *name, ce_jvalue value)
{
    ce_jvalue_put(run, scope->variables, ce_jvalue_literal(name), value);
}

static ce_jvalue look_up(ce_jrun *run, const ce_jscope *scope, const char *name)
{
    for (; scope; scope = scope->parent) {
        ce_jvalue *found = ce_jvalue_member(scope->variables, name);
        if (found)
            return *found;
    }
    const ce_jentry *entry = ce_jglobals_find(name);
    return entry ? ce_jentry_bind(run, entry, (ce_jvalue){ 0 }) : ce_jvalue_undefined(run, "'%s' is undefined", name);
}

/* ---- calls ---- */

typedef struct {
    ce_jvalue *values, *named_values;
    const char **names;
    size_t count, named, capacity;
} arguments;

static void add_argument(ce_jrun *run, arguments *all, const char *name, ce_jvalue value)
{
    if (all->count == all->capacity || all->named == all->capacity) {
        all->capacity = 2 * all->capacity + 8;
        size_t bytes = all->capacity * sizeof *all->values, named = all->named * sizeof *all->values;
        all->values = ce_jrun_longer(run, all->values, all->count * sizeof *all->values, bytes);
        all->named_values = ce_jrun_longer(run, all->named_values, named, bytes);
        all->names =
            ce_jrun_longer(run, all->names, all->named * sizeof *all->names, all->capacity * sizeof *all->names);
    }
    if (name) {
        all->names[all->named] = name;
        all->named_values[all->named++] = value;
    } else
        all->values[all->count++] = value;
}

static void add_unpacked(ce_jrun *run, arguments *all, const char *kind, ce_jvalue value)
{
    if (strcmp(kind, "**") == 0) {
        if (value.kind != CE_V_DICT)
            ce_jrun_fail(run, "argument after ** must be a mapping, not %s", ce_jvalue_type(value));
        for (size_t i = 0; i < value.dict->count; i++)
            add_argument(run, all, ce_jgiven_name(run, value.dict->keys[i]), value.dict->values[i]);
        return;
    }
    ce_jlist items = ce_jvalue_items(run, value);
    for (size_t i = 0; i < items.count; i++)
        add_argument(run, all, NULL, items.items[i]);
}

static ce_jarguments evaluate_arguments(ce_jrun *run, const ce_jscope *scope, const ce_jnode *node, ce_jvalue caller)
{
    arguments all = { 0 };
    for (size_t i = 0; i < node->count; i++) {
        const ce_jnode *argument = node->items[i];
        ce_jvalue value = ce_jevaluate(run, scope, argument->a);
        if (argument->name && *argument->name == '*')
            add_unpacked(run, &all, argument->name, value);
        else
            add_argument(run, &all, argument->name, value);
    }
    if (caller.kind != CE_V_ABSENT)
        add_argument(run, &all, "caller", caller);
    return (ce_jarguments){ all.values, all.named_values, all.names, all.count, all.named };
}

ce_jvalue ce_jevaluate_call(ce_jrun *run, const ce_jscope *scope, const ce_jnode *call, ce_jvalue caller)
{
    ce_jvalue called = ce_jevaluate(run, scope, call->a);
    ce_jarguments all = evaluate_arguments(run, scope, call, caller);
    run->line = call->line;
    if (called.kind == CE_V_UNDEFINED)
        ce_jrun_fail(run, "%s", called.bytes);
    if (called.kind != CE_V_CALLABLE)
        ce_jrun_fail(run, "'%s' object is not callable", ce_jvalue_type(called));
    const ce_jcallable *callable = called.callable;
    return callable->macro ? ce_jmacro_call(run, callable, &all)
                           : ce_jentry_call(run, callable->entry, callable->self, &all);
}

static ce_jvalue apply(ce_jrun *run, const ce_jscope *scope, const ce_jnode *node, ce_jvalue on)
{
    if (!node->entry)
        ce_jentry_refuse(run, node->kind == CE_N_FILTER ? "filter" : "test", node->name);
    ce_jarguments all = evaluate_arguments(run, scope, node, (ce_jvalue){ 0 });
    run->line = node->line;
    return ce_jentry_call(run, node->entry, on, &all);
}

ce_jvalue ce_jevaluate_body(ce_jrun *run, const ce_jscope *scope, const ce_jnode *filters, ce_jvalue body)
{
    if (!filters || filters->kind == CE_N_BODY_TEXT)
        return body;
    return apply(run, scope, filters, ce_jevaluate_body(run, scope, filters->a, body));
}

/* ---- operators ---- */

static bool compare(ce_jrun *run, const char *operator, ce_jvalue a, ce_jvalue b)
{
    if (strcmp(operator, "==") == 0)
        return ce_jvalue_equal(run, a, b);
    if (strcmp(operator, "!=") == 0)
        return !ce_jvalue_equal(run, a, b);
    if (strcmp(operator, "in") == 0)
        return ce_jvalue_contains(run, b, a);
    if (strcmp(operator, "not in") == 0)
        return !ce_jvalue_contains(run, b, a);
    bool nan = (a.kind == CE_V_FLOAT && a.real != a.real) || (b.kind == CE_V_FLOAT && b.real != b.real);
    int order = ce_jvalue_compare(run, a, b, operator);
    return !nan && (order == 0 ? operator[1] == '=' : (order < 0) == (*operator == '<'));
}

static ce_jvalue compare_all(ce_jrun *run, const ce_jscope *scope, const ce_jnode *node)
{
    ce_jvalue a = ce_jevaluate(run, scope, node->a);
    bool holds = true;
    for (size_t i = 0; holds && i < node->count; i++) {
        ce_jvalue b = ce_jevaluate(run, scope, node->items[i]->a);
        run->line = node->items[i]->line;
        holds = compare(run, node->items[i]->name, a, b);
        a = b;
    }
    return ce_jvalue_bool(holds);
}

static ce_jvalue negate(ce_jrun *run, ce_jvalue value, bool negative)
{
    int64_t whole;
    if (ce_jvalue_is_whole(value, &whole)) {
        if (negative && __builtin_sub_overflow(0, whole, &whole))
            ce_jrun_unsupported(run, "not supported: an integer above 2^63");
        return ce_jvalue_int(whole);
    }
    if (value.kind == CE_V_UNDEFINED)
        ce_jrun_fail(run, "%s", value.bytes);
    if (value.kind != CE_V_FLOAT)
        ce_jrun_fail(run, "bad operand type for unary %c: '%s'", negative ? '-' : '+', ce_jvalue_type(value));
    return ce_jvalue_float(negative ? -value.real : value.real);
}

/* ---- nodes ---- */

static ce_jvalue make_list(ce_jrun *run, const ce_jscope *scope, const ce_jnode *node)
{
    ce_jvalue list = ce_jvalue_list(run, node->kind == CE_N_TUPLE ? CE_F_TUPLE : CE_F_PLAIN, node->count);
    for (size_t i = 0; i < node->count; i++)
        ce_jvalue_push(run, list, ce_jevaluate(run, scope, node->items[i]));
    return list;
}

static ce_jvalue make_dict(ce_jrun *run, const ce_jscope *scope, const ce_jnode *node)
{
    ce_jvalue dict = ce_jvalue_dict(run);
    for (size_t i = 0; i + 1 < node->count; i += 2) {
        ce_jvalue key = ce_jevaluate(run, scope, node->items[i]);
        ce_jvalue_put(run, dict.dict, key, ce_jevaluate(run, scope, node->items[i + 1]));
    }
    return dict;
}

static ce_jvalue slice(ce_jrun *run, const ce_jscope *scope, const ce_jnode *node)
{
    ce_jvalue parts[3] = { { 0 } }, of = ce_jevaluate(run, scope, node->a);
    for (int i = 0; i < 3; i++)
        if (node->items[i])
            parts[i] = ce_jevaluate(run, scope, node->items[i]);
    run->line = node->line;
    return ce_jslice(run, of, parts);
}

static ce_jvalue evaluate_pair(ce_jrun *run, const ce_jscope *scope, const ce_jnode *node)
{
    ce_jvalue a = ce_jevaluate(run, scope, node->a), b = ce_jevaluate(run, scope, node->b);
    run->line = node->line;
    return node->kind == CE_N_ITEM ? ce_jget_item(run, a, b) : ce_joperator_binary(run, node->name, a, b);
}

static ce_jvalue evaluate(ce_jrun *run, const ce_jscope *scope, const ce_jnode *node)
{
    switch (node->kind) {
    case CE_N_CONSTANT:
        return node->value;
    case CE_N_NAME:
        return look_up(run, scope, node->name);
    case CE_N_LIST:
    case CE_N_TUPLE:
        return make_list(run, scope, node);
    case CE_N_DICT:
        return make_dict(run, scope, node);
    case CE_N_ATTRIBUTE:
        return ce_jget_attribute(run, ce_jevaluate(run, scope, node->a), node->name);
    case CE_N_SLICE:
        return slice(run, scope, node);
    case CE_N_CALL:
        return ce_jevaluate_call(run, scope, node, (ce_jvalue){ 0 });
    case CE_N_FILTER:
    case CE_N_TEST:
        return apply(run, scope, node, ce_jevaluate(run, scope, node->a));
    case CE_N_NOT:
        return ce_jvalue_bool(!ce_jvalue_true(ce_jevaluate(run, scope, node->a)));
    case CE_N_NEGATIVE:
    case CE_N_POSITIVE:
        return negate(run, ce_jevaluate(run, scope, node->a), node->kind == CE_N_NEGATIVE);
    case CE_N_ITEM:
    case CE_N_BINARY:
        return evaluate_pair(run, scope, node);
    case CE_N_AND:
    case CE_N_OR: {
        ce_jvalue a = ce_jevaluate(run, scope, node->a);
        return ce_jvalue_true(a) == (node->kind == CE_N_OR) ? a : ce_jevaluate(run, scope, node->b);
    }
    case CE_N_COMPARE:
        return compare_all(run, scope, node);
    case CE_N_CONDITION:
        if (ce_jvalue_true(ce_jevaluate(run, scope, node->b)))
            return ce_jevaluate(run, scope, node->a);
        return node->other ? ce_jevaluate(run, scope, node->other)
                           : ce_jvalue_undefined(run, "the condition on line %d is false and has no else", node->line);
    default:
        ce_jrun_fail(run, "an expression was expected");
    }
}

ce_jvalue ce_jevaluate(ce_jrun *run, const ce_jscope *scope, const ce_jnode *node)
{
    ce_jrun_enter(run);
    ce_jrun_step(run, 1);
    run->line = node->line;
    ce_jvalue value = evaluate(run, scope, node);
    ce_jrun_leave(run);
    return value;
}
