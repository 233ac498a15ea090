/* adagrad.h - Adagrad (Duchi et al. 2011) as torch.optim.Adagrad: the rate comes with lr_decay applied. */
#ifndef CS_OPTIM_ADAGRAD_H
#define CS_OPTIM_ADAGRAD_H

#include "optim/rule.h"

CS_RULE float adagrad(float p, float g, float *sum, float *unused, cs_hyper h)
{
    (void)unused;
    g += h.decay * p;
    *sum += g * g;
    return p - h.rate * (g / (sqrtf(*sum) + h.epsilon));
}

#endif
