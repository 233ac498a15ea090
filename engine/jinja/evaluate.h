/* evaluate.h - declarations that statements and expressions share while a template is rendered. */
#ifndef CE_JINJA_EVALUATE_H
#define CE_JINJA_EVALUATE_H

#include "functions.h"
#include "syntax.h"

/* The variables of the template, of one iteration of a loop, of a macro or of a block. */
typedef struct ce_jscope ce_jscope;
struct ce_jscope {
    const ce_jscope *parent;
    ce_jdict *variables;
};

struct ce_jloop {
    ce_jlist items;
    size_t index;      /* number of the current iteration, from 0 */
    ce_jvalue changed; /* last argument that loop.changed was called with */
};

const ce_jscope *ce_jscope_inside(ce_jrun *run, const ce_jscope *parent);
void ce_jscope_set(ce_jrun *run, const ce_jscope *scope, const char *name, ce_jvalue value);

/* ce_jevaluate_body evaluates the filters of a block, where `body` is the text that the block has printed. */
ce_jvalue ce_jevaluate(ce_jrun *run, const ce_jscope *scope, const ce_jnode *node);
ce_jvalue ce_jevaluate_body(ce_jrun *run, const ce_jscope *scope, const ce_jnode *filters, ce_jvalue body);
/* Makes the call that the node describes, with its arguments and the additional argument `caller`, which is CE_V_ABSENT
 * if there is none. */
ce_jvalue ce_jevaluate_call(ce_jrun *run, const ce_jscope *scope, const ce_jnode *call, ce_jvalue caller);

/* Renders the body of a macro (render.c). */
ce_jvalue ce_jmacro_call(ce_jrun *run, const ce_jcallable *callable, const ce_jarguments *arguments);

#endif
