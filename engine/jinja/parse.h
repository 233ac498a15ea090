/* parse.h - the declarations that the two halves of the parser share (parse.c: statements; expression.c:
 * expressions). */
#ifndef CE_JINJA_PARSE_H
#define CE_JINJA_PARSE_H

#include "lexer.h"
#include "syntax.h"

typedef struct {
    ce_jrun *run;
    const ce_jtoken *next;
    /* How many {% if %} and conditional expressions (VALUE if CONDITION else OTHER) the next token is inside. The VALUE
     * does not count as inside. If the number is not 0, an unknown filter or test is an error only if the rendering
     * reaches the filter or test. */
    int conditions;
    /* How many expressions the next token is inside that may still become a VALUE: an expression becomes a VALUE if the
     * word "if" follows the expression. */
    int undecided;
    /* The first unknown filter or test that was parsed while `conditions` was 0; NULL if there is none. If the filter
     * or test is in a VALUE, this member is reset when the word "if" is seen. Otherwise the filter or test is refused
     * as soon as `undecided` is 0. */
    const ce_jnode *unknown;
    int loops;     /* number of {% for %} around the next token */
    unsigned uses; /* CE_USES_* for the names that the body of the enclosing macro has read so far */
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
