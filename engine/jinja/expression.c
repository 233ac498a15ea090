/* expression.c - parses expressions.
 *
 * The levels of precedence are those of Jinja. A unary minus binds tighter than a filter, so -x|f means (-x)|f. A
 * filter binds tighter than any binary operator. A power is grouped from the left. */
#include "parse.h"
#include "functions.h"

#include <string.h>

static ce_jnode *parse_unary(ce_jparser *p, bool filters);
static ce_jnode *parse_or(ce_jparser *p);

static bool sees_operator(const ce_jparser *p, const char *text)
{
    return ce_jparse_sees(p, CE_T_OPERATOR, text);
}

static bool skip_operator(ce_jparser *p, const char *text)
{
    return ce_jparse_skip(p, CE_T_OPERATOR, text);
}

static bool skip_name(ce_jparser *p, const char *text)
{
    return ce_jparse_skip(p, CE_T_NAME, text);
}

static ce_jnode *pair(ce_jparser *p, ce_jnode_kind kind, const char *name, ce_jnode *a, ce_jnode *b)
{
    ce_jnode *node = ce_jparse_node(p, kind);
    node->name = name;
    node->a = a;
    node->b = b;
    return node;
}

static ce_jnode *constant(ce_jparser *p, ce_jvalue value)
{
    ce_jnode *node = ce_jparse_node(p, CE_N_CONSTANT);
    node->value = value;
    return node;
}

/* ---- primary expressions ---- */

static ce_jnode *parse_name(ce_jparser *p)
{
    static const struct {
        const char *names[2];
        ce_jvalue value;
    } constants[] = { { { "true", "True" }, { .kind = CE_V_BOOL, .truth = true } },
                      { { "false", "False" }, { .kind = CE_V_BOOL } },
                      { { "none", "None" }, { .kind = CE_V_NONE } } };
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++)
        if (skip_name(p, constants[i].names[0]) || skip_name(p, constants[i].names[1]))
            return constant(p, constants[i].value);
    ce_jnode *node = ce_jparse_node(p, CE_N_NAME);
    node->name = ce_jparse_name(p);
    p->uses |= strcmp(node->name, "caller") == 0    ? CE_USES_CALLER
               : strcmp(node->name, "varargs") == 0 ? CE_USES_VARARGS
               : strcmp(node->name, "kwargs") == 0  ? CE_USES_KWARGS
                                                    : 0U;
    return node;
}

static ce_jnode *parse_texts(ce_jparser *p)
{
    ce_jnode *node = constant(p, p->next++->value);
    while (p->next->kind == CE_T_TEXT) {
        ce_text *text = ce_jrun_capture(p->run);
        ce_unicode_append(text, node->value.bytes, node->value.size);
        ce_unicode_append(text, p->next->value.bytes, p->next->value.size);
        node->value = ce_jrun_captured(p->run);
        p->next++;
    }
    return node;
}

static ce_jnode *parse_list(ce_jparser *p)
{
    ce_jnode *node = ce_jparse_node(p, CE_N_LIST);
    while (!sees_operator(p, "]")) {
        ce_jparse_add(p, node, ce_jexpression(p));
        if (!skip_operator(p, ","))
            break;
    }
    ce_jparse_expect(p, CE_T_OPERATOR, "]");
    return node;
}

static ce_jnode *parse_dict(ce_jparser *p)
{
    ce_jnode *node = ce_jparse_node(p, CE_N_DICT);
    while (!sees_operator(p, "}")) {
        ce_jparse_add(p, node, ce_jexpression(p));
        ce_jparse_expect(p, CE_T_OPERATOR, ":");
        ce_jparse_add(p, node, ce_jexpression(p));
        if (!skip_operator(p, ","))
            break;
    }
    ce_jparse_expect(p, CE_T_OPERATOR, "}");
    return node;
}

static ce_jnode *parse_primary(ce_jparser *p)
{
    if (p->next->kind == CE_T_NAME)
        return parse_name(p);
    if (p->next->kind == CE_T_TEXT)
        return parse_texts(p);
    if (p->next->kind == CE_T_NUMBER)
        return constant(p, p->next++->value);
    if (skip_operator(p, "[")) {
        return parse_list(p);
    }
    if (skip_operator(p, "{"))
        return parse_dict(p);
    if (!skip_operator(p, "("))
        ce_jparse_unexpected(p);
    ce_jnode *node = sees_operator(p, ")") ? ce_jparse_node(p, CE_N_TUPLE) : ce_jexpression_tuple(p, true);
    ce_jparse_expect(p, CE_T_OPERATOR, ")");
    return node;
}

/* ---- what follows a primary expression ---- */

static void parse_argument(ce_jparser *p, ce_jnode *call)
{
    ce_jnode *argument = ce_jparse_node(p, CE_N_ARGUMENT);
    if (skip_operator(p, "*"))
        argument->name = "*";
    else if (skip_operator(p, "**"))
        argument->name = "**";
    else if (p->next->kind == CE_T_NAME && p->next[1].kind == CE_T_OPERATOR && ce_jvalue_is(p->next[1].value, "=")) {
        argument->name = ce_jparse_name(p);
        p->next++;
    } else if (call->count > 0 && call->items[call->count - 1]->name &&
               strcmp(call->items[call->count - 1]->name, "*") != 0)
        ce_jrun_fail(p->run, "an argument without a name follows one with a name");
    argument->a = ce_jexpression(p);
    ce_jparse_add(p, call, argument);
}

/* Reads the arguments behind an opening parenthesis and adds them to the node `call`. */
static void parse_arguments(ce_jparser *p, ce_jnode *call)
{
    while (!sees_operator(p, ")")) {
        parse_argument(p, call);
        if (!skip_operator(p, ","))
            break;
    }
    ce_jparse_expect(p, CE_T_OPERATOR, ")");
}

static ce_jnode *parse_call(ce_jparser *p, ce_jnode *on)
{
    ce_jnode *node = pair(p, CE_N_CALL, NULL, on, NULL);
    parse_arguments(p, node);
    return node;
}

/* Reads one index or slice. If a part of the slice is left out, its element of `items` is NULL. */
static ce_jnode *parse_index(ce_jparser *p, ce_jnode *on)
{
    ce_jnode *parts[3] = { NULL };
    int part = 0;
    while (!sees_operator(p, "]") && !sees_operator(p, ",")) {
        if (skip_operator(p, ":")) {
            if (++part == 3)
                ce_jparse_unexpected(p);
        } else if (parts[part])
            ce_jparse_unexpected(p);
        else
            parts[part] = ce_jexpression(p);
    }
    if (part == 0 && !parts[0])
        ce_jparse_unexpected(p);
    ce_jnode *node = pair(p, part > 0 ? CE_N_SLICE : CE_N_ITEM, NULL, on, parts[0]);
    for (int i = 0; part > 0 && i < 3; i++)
        ce_jparse_add(p, node, parts[i]);
    return node;
}

static ce_jnode *parse_subscript(ce_jparser *p, ce_jnode *on)
{
    ce_jnode *node = parse_index(p, on);
    if (sees_operator(p, ","))
        ce_jrun_unsupported(p->run, "not supported: several indices in one pair of brackets");
    ce_jparse_expect(p, CE_T_OPERATOR, "]");
    return node;
}

static ce_jnode *parse_attribute(ce_jparser *p, ce_jnode *on)
{
    if (p->next->kind == CE_T_NUMBER && p->next->value.kind == CE_V_INT)
        return pair(p, CE_N_ITEM, NULL, on, constant(p, p->next++->value));
    ce_jnode *node = pair(p, CE_N_ATTRIBUTE, NULL, on, NULL);
    node->name = ce_jparse_name(p);
    return node;
}

static ce_jnode *parse_postfix(ce_jparser *p, ce_jnode *node)
{
    for (;;) {
        if (skip_operator(p, "."))
            node = parse_attribute(p, node);
        else if (skip_operator(p, "["))
            node = parse_subscript(p, node);
        else if (skip_operator(p, "("))
            node = parse_call(p, node);
        else
            return node;
    }
}

/* Refuses the unknown filter or test that was parsed outside of conditions, if there is one. */
static void refuse_unknown(ce_jparser *p)
{
    const ce_jnode *node = p->unknown;
    if (!node)
        return;
    p->run->line = node->line;
    ce_jentry_refuse(p->run, node->kind == CE_N_FILTER ? "filter" : "test", node->name);
}

/* Looks up the name of a filter or test. */
static void resolve(ce_jparser *p, ce_jnode *node)
{
    node->entry = node->kind == CE_N_FILTER ? ce_jfilters_find(node->name) : ce_jtests_find(node->name);
    if (!node->entry && p->conditions == 0 && !p->unknown)
        p->unknown = node;
    if (p->undecided == 0)
        refuse_unknown(p);
}

static ce_jnode *parse_filter(ce_jparser *p, ce_jnode *on)
{
    ce_jnode *node = pair(p, CE_N_FILTER, NULL, on, NULL);
    node->name = ce_jparse_name(p);
    resolve(p, node);
    if (skip_operator(p, "("))
        parse_arguments(p, node);
    return node;
}

/* Returns true if the next token begins the argument of a test. A test may have one argument without parentheses. */
static bool sees_test_argument(const ce_jparser *p)
{
    static const char *const ends[] = { "else", "or", "and", "is" };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (ce_jparse_sees(p, CE_T_NAME, ends[i]))
            return false;
    return p->next->kind == CE_T_NAME || p->next->kind == CE_T_TEXT || p->next->kind == CE_T_NUMBER ||
           sees_operator(p, "[") || sees_operator(p, "{");
}

static ce_jnode *parse_test(ce_jparser *p, ce_jnode *on)
{
    bool negated = skip_name(p, "not");
    ce_jnode *node = pair(p, CE_N_TEST, NULL, on, NULL);
    node->name = ce_jparse_name(p);
    resolve(p, node);
    if (skip_operator(p, "("))
        parse_arguments(p, node);
    else if (sees_test_argument(p)) {
        ce_jnode *argument = ce_jparse_node(p, CE_N_ARGUMENT);
        argument->a = parse_postfix(p, parse_primary(p));
        ce_jparse_add(p, node, argument);
    }
    return negated ? pair(p, CE_N_NOT, NULL, node, NULL) : node;
}

static ce_jnode *parse_filters(ce_jparser *p, ce_jnode *node)
{
    for (;;) {
        if (skip_operator(p, "|"))
            node = parse_filter(p, node);
        else if (skip_name(p, "is"))
            node = parse_test(p, node);
        else if (skip_operator(p, "("))
            node = parse_call(p, node);
        else
            return node;
    }
}

ce_jnode *ce_jexpression_filters(ce_jparser *p, ce_jnode *on)
{
    do
        on = parse_filter(p, on);
    while (skip_operator(p, "|"));
    return on;
}

ce_jnode *ce_jexpression_call(ce_jparser *p)
{
    ce_jnode *node = parse_postfix(p, parse_primary(p));
    if (node->kind != CE_N_CALL)
        ce_jrun_fail(p->run, "{%% call %%} needs a call");
    return node;
}

/* ---- operators ---- */

static ce_jnode *parse_unary(ce_jparser *p, bool filters)
{
    ce_jnode *node;
    ce_jrun_enter(p->run);
    if (skip_operator(p, "-"))
        node = pair(p, CE_N_NEGATIVE, NULL, parse_unary(p, false), NULL);
    else if (skip_operator(p, "+"))
        node = pair(p, CE_N_POSITIVE, NULL, parse_unary(p, false), NULL);
    else
        node = parse_primary(p);
    ce_jrun_leave(p->run);
    node = parse_postfix(p, node);
    return filters ? parse_filters(p, node) : node;
}

/* The binary operators by level. The operators of level 0 bind loosest. */
static const char *const levels[][5] = { { "+", "-" }, { "~" }, { "*", "/", "//", "%" }, { "**" } };
enum { LEVELS = sizeof levels / sizeof *levels };

static const char *operator_of(ce_jparser *p, int level)
{
    for (int i = 0; levels[level][i]; i++)
        if (skip_operator(p, levels[level][i]))
            return levels[level][i];
    return NULL;
}

static ce_jnode *parse_level(ce_jparser *p, int level)
{
    if (level == LEVELS)
        return parse_unary(p, true);
    ce_jnode *node = parse_level(p, level + 1);
    for (const char *name; (name = operator_of(p, level)) != NULL;) {
        node = pair(p, CE_N_BINARY, name, node, NULL);
        node->b = parse_level(p, level + 1);
    }
    return node;
}

static const char *comparison_of(ce_jparser *p)
{
    static const char *const names[] = { "==", "!=", "<=", ">=", "<", ">" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (skip_operator(p, names[i]))
            return names[i];
    if (skip_name(p, "in"))
        return "in";
    if (ce_jparse_sees(p, CE_T_NAME, "not") && p->next[1].kind == CE_T_NAME && ce_jvalue_is(p->next[1].value, "in")) {
        p->next += 2;
        return "not in";
    }
    return NULL;
}

static ce_jnode *parse_comparison(ce_jparser *p)
{
    ce_jnode *node = parse_level(p, 0), *all = NULL;
    for (const char *name; (name = comparison_of(p)) != NULL;) {
        all = all ? all : pair(p, CE_N_COMPARE, NULL, node, NULL);
        ce_jnode *operand = pair(p, CE_N_OPERAND, name, NULL, NULL);
        operand->a = parse_level(p, 0);
        ce_jparse_add(p, all, operand);
    }
    return all ? all : node;
}

static ce_jnode *parse_not(ce_jparser *p)
{
    if (!skip_name(p, "not"))
        return parse_comparison(p);
    ce_jrun_enter(p->run);
    ce_jnode *node = pair(p, CE_N_NOT, NULL, parse_not(p), NULL);
    ce_jrun_leave(p->run);
    return node;
}

static ce_jnode *parse_and(ce_jparser *p)
{
    ce_jnode *node = parse_not(p);
    while (skip_name(p, "and")) {
        node = pair(p, CE_N_AND, NULL, node, NULL);
        node->b = parse_not(p);
    }
    return node;
}

static ce_jnode *parse_or(ce_jparser *p)
{
    ce_jnode *node = parse_and(p);
    while (skip_name(p, "or")) {
        node = pair(p, CE_N_OR, NULL, node, NULL);
        node->b = parse_and(p);
    }
    return node;
}

ce_jnode *ce_jexpression(ce_jparser *p)
{
    const ce_jnode *unknown = p->unknown;
    ce_jrun_enter(p->run);
    p->undecided++;
    ce_jnode *node = parse_or(p);
    p->undecided--;
    if (ce_jparse_sees(p, CE_T_NAME, "if"))
        p->unknown = unknown;
    if (p->undecided == 0)
        refuse_unknown(p);
    while (skip_name(p, "if")) {
        p->conditions++;
        node = pair(p, CE_N_CONDITION, NULL, node, parse_or(p));
        node->other = skip_name(p, "else") ? ce_jexpression(p) : NULL;
        p->conditions--;
    }
    ce_jrun_leave(p->run);
    return node;
}

static bool ends_tuple(const ce_jparser *p)
{
    return p->next->kind == CE_T_PRINT_END || p->next->kind == CE_T_BLOCK_END || sees_operator(p, ")") ||
           sees_operator(p, "=") || ce_jparse_sees(p, CE_T_NAME, "recursive");
}

ce_jnode *ce_jexpression_tuple(ce_jparser *p, bool condition)
{
    ce_jnode *node = condition ? ce_jexpression(p) : parse_or(p), *tuple = NULL;
    while (skip_operator(p, ",")) {
        if (!tuple) {
            tuple = ce_jparse_node(p, CE_N_TUPLE);
            ce_jparse_add(p, tuple, node);
        }
        if (ends_tuple(p))
            break;
        ce_jparse_add(p, tuple, condition ? ce_jexpression(p) : parse_or(p));
    }
    return tuple ? tuple : node;
}

static ce_jnode *parse_target(ce_jparser *p, bool attribute)
{
    if (skip_operator(p, "(")) {
        ce_jnode *inner = ce_jexpression_target(p, false);
        ce_jparse_expect(p, CE_T_OPERATOR, ")");
        return inner;
    }
    ce_jnode *node = parse_name(p);
    if (node->kind != CE_N_NAME)
        ce_jrun_fail(p->run, "a constant cannot be set");
    if (attribute && skip_operator(p, ".")) {
        node = pair(p, CE_N_ATTRIBUTE, NULL, node, NULL);
        node->name = ce_jparse_name(p);
    }
    return node;
}

ce_jnode *ce_jexpression_target(ce_jparser *p, bool attribute)
{
    ce_jrun_enter(p->run);
    ce_jnode *node = parse_target(p, attribute), *tuple = NULL;
    while (skip_operator(p, ",")) {
        if (!tuple) {
            tuple = ce_jparse_node(p, CE_N_TUPLE);
            ce_jparse_add(p, tuple, node);
        }
        if (ends_tuple(p) || ce_jparse_sees(p, CE_T_NAME, "in"))
            break;
        ce_jparse_add(p, tuple, parse_target(p, attribute));
    }
    ce_jrun_leave(p->run);
    return tuple ? tuple : node;
}
