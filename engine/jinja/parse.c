/* parse.c - parses statements, and makes the nodes of the tree. */
#include "parse.h"

#include <string.h>

ce_jnode *ce_jparse_node(ce_jparser *p, ce_jnode_kind kind)
{
    ce_jnode *node = ce_jrun_alloc(p->run, sizeof *node);
    node->kind = kind;
    node->line = p->next->line;
    return node;
}

/* Adds an item to a list, whose capacity is the smallest power of two that is at least 4 and holds the items. */
void ce_jparse_add(ce_jparser *p, ce_jnode *list, ce_jnode *item)
{
    size_t count = list->count;
    if (count == 0 || (count >= 4 && (count & (count - 1)) == 0))
        list->items = ce_jrun_longer(p->run, list->items, count * sizeof(ce_jnode *),
                                     (count ? 2 * count : 4) * sizeof(ce_jnode *));
    list->items[list->count++] = item;
}

bool ce_jparse_sees(const ce_jparser *p, ce_jtoken_kind kind, const char *text)
{
    return p->next->kind == kind && ce_jvalue_is(p->next->value, text);
}

bool ce_jparse_skip(ce_jparser *p, ce_jtoken_kind kind, const char *text)
{
    bool found = ce_jparse_sees(p, kind, text);
    p->next += found;
    p->run->line = p->next->line;
    return found;
}

void ce_jparse_unexpected(const ce_jparser *p)
{
    const ce_jvalue *value = &p->next->value;
    p->run->line = p->next->line;
    if (value->kind != CE_V_TEXT)
        ce_jrun_fail(p->run, "unexpected number");
    ce_jrun_fail(p->run, "unexpected '%.*s'", (int)(value->size < 80 ? value->size : 80), value->bytes);
}

void ce_jparse_expect(ce_jparser *p, ce_jtoken_kind kind, const char *text)
{
    if (!ce_jparse_skip(p, kind, text))
        ce_jparse_unexpected(p);
}

const char *ce_jparse_name(ce_jparser *p)
{
    if (p->next->kind != CE_T_NAME)
        ce_jparse_unexpected(p);
    return p->next++->value.bytes; /* The lexer has put a NUL behind the name. */
}

/* ---- statements ---- */

static ce_jnode *parse_body(ce_jparser *p, const char *const *ends);

/* Parses the statements up to the tag {% end %}, and skips that tag. */
static ce_jnode *parse_until(ce_jparser *p, const char *end)
{
    const char *const ends[] = { end, NULL };
    ce_jparse_expect(p, CE_T_BLOCK_END, "%}");
    ce_jnode *body = parse_body(p, ends);
    p->next++;
    return body;
}

/* Parses what follows the word "if" or "elif". */
static void parse_if(ce_jparser *p, ce_jnode *node)
{
    static const char *const ends[] = { "elif", "else", "endif", NULL };
    ce_jrun_enter(p->run);
    node->a = ce_jexpression_tuple(p, false);
    ce_jparse_expect(p, CE_T_BLOCK_END, "%}");
    node->body = parse_body(p, ends);
    if (ce_jparse_skip(p, CE_T_NAME, "elif")) {
        node->other = ce_jparse_node(p, CE_N_IF);
        parse_if(p, node->other);
    } else if (ce_jparse_skip(p, CE_T_NAME, "else"))
        node->other = parse_until(p, "endif");
    else
        p->next++;
    ce_jrun_leave(p->run);
}

static void parse_condition(ce_jparser *p, ce_jnode *node)
{
    p->conditions++;
    parse_if(p, node);
    p->conditions--;
}

static void parse_for(ce_jparser *p, ce_jnode *node)
{
    static const char *const ends[] = { "else", "endfor", NULL };
    node->target = ce_jexpression_target(p, false);
    ce_jparse_expect(p, CE_T_NAME, "in");
    node->a = ce_jexpression_tuple(p, false);
    if (ce_jparse_skip(p, CE_T_NAME, "if"))
        node->b = ce_jexpression(p);
    if (ce_jparse_sees(p, CE_T_NAME, "recursive"))
        ce_jrun_unsupported(p->run, "not supported: a recursive loop");
    ce_jparse_expect(p, CE_T_BLOCK_END, "%}");
    p->loops++;
    node->body = parse_body(p, ends);
    p->loops--;
    if (ce_jparse_skip(p, CE_T_NAME, "else"))
        node->other = parse_until(p, "endfor");
    else
        p->next++;
}

static ce_jnode *body_text(ce_jparser *p)
{
    return ce_jparse_node(p, CE_N_BODY_TEXT);
}

static void parse_set(ce_jparser *p, ce_jnode *node)
{
    node->target = ce_jexpression_target(p, true);
    if (ce_jparse_skip(p, CE_T_OPERATOR, "=")) {
        node->a = ce_jexpression_tuple(p, true);
        return;
    }
    node->kind = CE_N_SET_BLOCK;
    if (ce_jparse_skip(p, CE_T_OPERATOR, "|"))
        node->b = ce_jexpression_filters(p, body_text(p));
    node->body = parse_until(p, "endset");
}

static void parse_parameters(ce_jparser *p, ce_jnode *node)
{
    while (!ce_jparse_sees(p, CE_T_OPERATOR, ")")) {
        ce_jnode *parameter = ce_jparse_node(p, CE_N_PARAMETER);
        parameter->name = ce_jparse_name(p);
        if (ce_jparse_skip(p, CE_T_OPERATOR, "="))
            parameter->a = ce_jexpression(p);
        else if (node->count > 0 && node->items[node->count - 1]->a)
            ce_jrun_fail(p->run, "a parameter without a default follows one with a default");
        ce_jparse_add(p, node, parameter);
        if (!ce_jparse_skip(p, CE_T_OPERATOR, ","))
            break;
    }
    ce_jparse_expect(p, CE_T_OPERATOR, ")");
}

/* Parses the body of a macro. A loop around the definition of the macro is not a loop for the body, so {% break %} in
 * the body must be inside a loop of the body. The names that the body reads decide whether the macro takes `varargs`,
 * `kwargs` and `caller`. */
static void parse_macro_body(ce_jparser *p, ce_jnode *node, const char *end)
{
    int loops = p->loops;
    unsigned uses = p->uses;
    p->loops = 0;
    p->uses = 0;
    node->body = parse_until(p, end);
    node->uses = p->uses;
    p->loops = loops;
    p->uses |= uses;
}

static void parse_macro(ce_jparser *p, ce_jnode *node)
{
    node->name = ce_jparse_name(p);
    ce_jparse_expect(p, CE_T_OPERATOR, "(");
    parse_parameters(p, node);
    parse_macro_body(p, node, "endmacro");
}

static void parse_call_block(ce_jparser *p, ce_jnode *node)
{
    node->name = "caller";
    if (ce_jparse_skip(p, CE_T_OPERATOR, "("))
        parse_parameters(p, node);
    node->a = ce_jexpression_call(p);
    parse_macro_body(p, node, "endcall");
}

static void parse_filter_block(ce_jparser *p, ce_jnode *node)
{
    node->b = ce_jexpression_filters(p, body_text(p));
    node->body = parse_until(p, "endfilter");
}

static void parse_with(ce_jparser *p, ce_jnode *node)
{
    while (p->next->kind != CE_T_BLOCK_END) {
        ce_jnode *set = ce_jparse_node(p, CE_N_SET);
        set->target = ce_jexpression_target(p, false);
        ce_jparse_expect(p, CE_T_OPERATOR, "=");
        set->a = ce_jexpression(p);
        ce_jparse_add(p, node, set);
        if (!ce_jparse_skip(p, CE_T_OPERATOR, ","))
            break;
    }
    node->body = parse_until(p, "endwith");
}

static void parse_generation(ce_jparser *p, ce_jnode *node)
{
    node->body = parse_until(p, "endgeneration");
}

static void parse_jump(ce_jparser *p, ce_jnode *node)
{
    if (p->loops == 0)
        ce_jrun_fail(p->run, "{%% %s %%} is outside of a loop", node->kind == CE_N_BREAK ? "break" : "continue");
}

static ce_jnode *parse_statement(ce_jparser *p)
{
    static const struct {
        const char *name;
        ce_jnode_kind kind;
        void (*parse)(ce_jparser *p, ce_jnode *node);
    } tags[] = {
        { "if", CE_N_IF, parse_condition },
        { "for", CE_N_FOR, parse_for },
        { "set", CE_N_SET, parse_set },
        { "macro", CE_N_MACRO, parse_macro },
        { "call", CE_N_CALL_BLOCK, parse_call_block },
        { "filter", CE_N_FILTER_BLOCK, parse_filter_block },
        { "with", CE_N_WITH, parse_with },
        { "generation", CE_N_GENERATION, parse_generation },
        { "break", CE_N_BREAK, parse_jump },
        { "continue", CE_N_CONTINUE, parse_jump },
    };
    static const char *const others[] = {
        "include", "import", "from", "extends", "block", "do", "autoescape", "trans"
    };
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (ce_jparse_sees(p, CE_T_NAME, tags[i].name)) {
            ce_jnode *node = ce_jparse_node(p, tags[i].kind);
            p->next++;
            tags[i].parse(p, node);
            ce_jparse_expect(p, CE_T_BLOCK_END, "%}");
            return node;
        }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (ce_jparse_sees(p, CE_T_NAME, others[i]))
            ce_jrun_unsupported(p->run, "not supported: the tag {%% %s %%}", others[i]);
    ce_jparse_unexpected(p);
}

static bool sees_end(const ce_jparser *p, const char *const *ends)
{
    for (int i = 0; ends[i]; i++)
        if (ce_jparse_sees(p, CE_T_NAME, ends[i]))
            return true;
    return false;
}

/* Parses the statements up to a tag whose name is in `ends`. That name is the next token afterwards. At the top level
 * ends[0] is NULL, because the list is empty. */
static ce_jnode *parse_body(ce_jparser *p, const char *const *ends)
{
    ce_jnode *first = NULL, **last = &first;
    ce_jrun_enter(p->run);
    for (; p->next->kind != CE_T_END; last = &(*last)->next) {
        p->run->line = p->next->line;
        if (p->next->kind == CE_T_DATA) {
            *last = ce_jparse_node(p, CE_N_DATA);
            (*last)->value = p->next++->value;
        } else if (p->next->kind == CE_T_PRINT) {
            *last = ce_jparse_node(p, CE_N_PRINT);
            p->next++;
            (*last)->a = ce_jexpression_tuple(p, true);
            ce_jparse_expect(p, CE_T_PRINT_END, "}}");
        } else {
            p->next++;
            if (sees_end(p, ends)) {
                ce_jrun_leave(p->run);
                return first;
            }
            *last = parse_statement(p);
        }
    }
    if (ends[0])
        ce_jrun_fail(p->run, "the template ends before {%% %s %%}", ends[0]);
    ce_jrun_leave(p->run);
    return first;
}

ce_jnode *ce_jparse_template(ce_jrun *run, const char *source, size_t size)
{
    /* The list is empty: the body ends with the template, not with a tag. */
    static const char *const ends[] = { NULL };
    ce_jparser p = { .run = run, .next = ce_jlexer_split(run, source, size) };
    return parse_body(&p, ends);
}
