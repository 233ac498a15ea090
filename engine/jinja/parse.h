/* parse.h - what the two halves of the parser share: tokens, and expressions inside statements. */
#ifndef CS_JINJA_PARSE_H
#define CS_JINJA_PARSE_H

#include "lexer.h"
#include "syntax.h"

typedef struct {
    ce_jrun *run;
    const ce_jtoken *next;
    int conditions; /* the number of {% if %} and conditional expressions around; there, names of filters and tests are
                       looked up when they are reached */
    int loops;      /* the number of {% for %} around */
    unsigned uses;  /* CS_USES_*: names that the macro around has read so far */
} ce_jparser;

ce_jnode *ce_jparse_node(ce_jparser *p, ce_jnode_kind kind);
void ce_jparse_add(ce_jparser *p, ce_jnode *list, ce_jnode *item);
bool ce_jparse_sees(const ce_jparser *p, ce_jtoken_kind kind, const char *text);
/* Goes on if the next token is this one. */
bool ce_jparse_skip(ce_jparser *p, ce_jtoken_kind kind, const char *text);
/* Goes on, and fails if the next token is another. */
void ce_jparse_expect(ce_jparser *p, ce_jtoken_kind kind, const char *text);
const char *ce_jparse_name(ce_jparser *p);
_Noreturn void ce_jparse_unexpected(const ce_jparser *p);

ce_jnode *ce_jexpression(ce_jparser *p);
/* An expression, or a tuple of them without parentheses. Without `condition`, "if" ends it. */
ce_jnode *ce_jexpression_tuple(ce_jparser *p, bool condition);
/* A name, or a tuple of names, or with `attribute` also name.attribute. */
ce_jnode *ce_jexpression_target(ce_jparser *p, bool attribute);
ce_jnode *ce_jexpression_call(ce_jparser *p);
/* The filters of a block, "trim | upper", applied to `on`. */
ce_jnode *ce_jexpression_filters(ce_jparser *p, ce_jnode *on);

#endif
