/* rules.h - the list of rules: RULE(function, the optimizer's name, most slots). Include with RULE defined; it is
 * undefined here.
 *
 * In the order of cs_optim_kind. */
#include "optim/adamw.h"
#include "optim/adam.h"
#include "optim/sgd.h"

#ifdef RULE
RULE(adamw, "AdamW", 2)
RULE(adam, "Adam", 2)
RULE(sgd, "SGD", 1)
#undef RULE
#endif
