/* adamw.h - AdamW (Loshchilov & Hutter 2019): Adam, with weight decay kept out of the moments. */
#ifndef CS_OPTIM_ADAMW_H
#define CS_OPTIM_ADAMW_H

#include "optim/rule.h"

CS_RULE float adamw(float p, float g, float *m, float *v, cs_hyper h)
{
    *m = h.beta1 * *m + h.rest1 * g;
    *v = h.beta2 * *v + h.rest2 * g * g;
    float direction = (*m * h.fix1) / (sqrtf(*v * h.fix2) + h.epsilon);
    return p - h.rate * (direction + h.decay * p);
}

#endif
