/* lamb.h - LAMB's direction (You et al. 2020): Adam's, not yet corrected for bias, with the decay in it.
 *
 * The step along it is rate * fix1 * (norm of the parameter / norm of the direction): zero/update.c. */
#ifndef CS_OPTIM_LAMB_H
#define CS_OPTIM_LAMB_H

#include "optim/rule.h"

CS_RULE float lamb(float p, float g, float *m, float *v, cs_hyper h)
{
    *m = h.beta1 * *m + h.rest1 * g;
    *v = h.beta2 * *v + h.rest2 * g * g;
    float root = h.inside_root ? sqrtf(*v + h.epsilon) : sqrtf(*v) + h.epsilon;
    return *m / root + h.decay * p;
}

#endif
