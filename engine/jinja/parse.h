/* parse.h - the declarations that the two halves of the parser share (parse.c: statements; expression.c:
 * expressions). */
#ifndef CS_JINJA_PARSE_H
#define CS_JINJA_PARSE_H

#include "lexer.h"
#include "syntax.h"

typedef struct {
    ce_jrun *run;
    const ce_jtoken *next;
    /* The number of {% if %} and conditional expressions around the next token. The value before the word "if" of a
     * conditional expression is not counted as inside it. If the number is not 0, an unknown filter or test is refused
     * only if the rendering reaches it. */
    int conditions;
    /* number of expressions around the next token that are the value of a conditional expression if "if" follows */
    int undecided;
    const ce_jnode *unknown; /* the first unknown filter or test in these expressions, outside of conditions, or NULL */
    int loops;     /* number of {% for %} around the next token */
    unsigned uses; /* CS_USES_* for the names that the body of the enclosing macro has read so far */
} ce_jparser;

ce_jnode *ce_jparse_node(ce_jparser *p, ce_jnode_kind kind);
void ce_jparse_add(ce_jparser *p, ce_jnode *list, ce_jnode *item);
bool ce_jparse_sees(const ce_jparser *p, ce_jtoken_kind kind, const char *text);
/* If the next token is of this kind and text, skips it and returns true. */
bool ce_jparse_skip(ce_jparser *p, ce_jtoken_kind kind, const char *text);
/* Skips the next token, which must be of this kind and text. Any other token is a syntax error. */
void ce_jparse_expect(ce_jparser *p, ce_jtoken_kind kind, const char *text);
const char *ce_jparse_name(ce_jparser *p);
_Noreturn void ce_jparse_unexpected(const ce_jparser *p);

ce_jnode *ce_jexpression(ce_jparser *p);
/* Parses an expression, or a tuple of expressions without parentheses. If `condition` is false, the word "if" ends the
 * expression. */
ce_jnode *ce_jexpression_tuple(ce_jparser *p, bool condition);
/* Parses a name, or a tuple of names. If `attribute` is true, an attribute of a name, such as "ns.count", is allowed
 * too. */
ce_jnode *ce_jexpression_target(ce_jparser *p, bool attribute);
ce_jnode *ce_jexpression_call(ce_jparser *p);
/* Parses the filters of a block, such as "trim | upper", which are applied to `on`. */
ce_jnode *ce_jexpression_filters(ce_jparser *p, ce_jnode *on);

#endif
