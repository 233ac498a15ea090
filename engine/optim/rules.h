/* rules.h - the list of rules, in the order of cs_optim_kind. Include with RULE and DIRECTION defined; they are
 * undefined here.
 *
 * RULE(function, the optimizer's name, most slots, their names): the function returns the new value. DIRECTION(...): it
 * returns the direction of the step, which needs something of the whole tensor before it can be taken. */
#include "optim/adamw.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "optim/adagrad.h"
#include "optim/lion.h"
#include "optim/lamb.h"
#include "optim/muon.h"

#ifdef RULE
RULE(adamw, "AdamW", 2, "exp_avg", "exp_avg_sq")
RULE(adam, "Adam", 2, "exp_avg", "exp_avg_sq")
RULE(sgd, "SGD", 1, "momentum_buffer", NULL)
RULE(adagrad, "Adagrad", 1, "sum", NULL)
RULE(lion, "Lion", 1, "exp_avg", NULL)
DIRECTION(lamb, "Lamb", 2, "exp_avg", "exp_avg_sq")
DIRECTION(muon, "Muon", 1, "momentum_buffer", NULL)
#undef RULE
#undef DIRECTION
#endif
