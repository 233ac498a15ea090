/* rules.h - the list of optimizers. This is the only place that lists them.
 *
 * If RULE is not defined, this header includes the headers with the update functions of all optimizers. If RULE is
 * defined, this header expands to one RULE or DIRECTION for each optimizer, so that tables and enums can be made from
 * the list. If DIRECTION is not defined, DIRECTION means the same as RULE. At its end the header undefines RULE and
 * DIRECTION.
 *
 * The arguments of both macros are (function, CONSTANT, name, slots, slot names...). For RULE the function returns the
 * new value of the parameter. For DIRECTION the function returns the direction of the step, because the step needs a
 * norm or a matrix of the whole tensor. CE_OPTIM_<CONSTANT> is the value of ce_optim_kind. The optimizer's header
 * defines <CONSTANT>_KEYS, the rows of optimizer.params. The first entry is the optimizer of a configuration that names
 * none.
 *
 * To add an optimizer: write its header, and add its #include and its line here. */
#ifndef RULE

#include "optim/adamw.h"
#include "optim/adam.h"
#include "optim/sgd.h"
#include "optim/adagrad.h"
#include "optim/lion.h"
#include "optim/lamb.h"
#include "optim/muon.h"

#else

#ifndef DIRECTION
#define DIRECTION RULE
#endif

RULE(adamw, ADAMW, "AdamW", 2, "exp_avg", "exp_avg_sq")
RULE(adam, ADAM, "Adam", 2, "exp_avg", "exp_avg_sq")
RULE(sgd, SGD, "SGD", 1, "momentum_buffer", NULL)
RULE(adagrad, ADAGRAD, "Adagrad", 1, "sum", NULL)
RULE(lion, LION, "Lion", 1, "exp_avg", NULL)
DIRECTION(lamb, LAMB, "Lamb", 2, "exp_avg", "exp_avg_sq")
DIRECTION(muon, MUON, "Muon", 1, "momentum_buffer", NULL)

#undef RULE
#undef DIRECTION

#endif
