/* lion.h - Lion (Chen et al. 2023): the step is the sign of an interpolation of momentum and gradient. The sign of 0 is
 * 0, as in the paper. */
#ifndef CE_OPTIM_LION_H
#define CE_OPTIM_LION_H

#include "optim/rule.h"

CE_HOST_DEVICE float lion(float p, float g, float *m, float *unused, ce_hyper h)
{
    (void)unused;
    float mix = h.beta1 * *m + h.one_minus_beta1 * g;
    float sign = (mix > 0 ? 1.0f : 0.0f) - (mix < 0 ? 1.0f : 0.0f);
    *m = h.beta2 * *m + h.one_minus_beta2 * g;
    sign = mix == mix ? sign : mix; /* NaN stays NaN, because a gradient that is not a number must not count as 0. */
    return p - h.rate * (sign + h.decay * p);
}

/* The keys of this optimizer in optimizer.params; types.c makes a key table of them. */
#define LION_KEYS                                                                                                                    \
    RATE("1e-3"),                                                                                                                    \
        BETAS(                                                                                                                       \
            "[0.9, 0.999]",                                                                                                          \
            "beta1: momentum's share in the step, whose sign is taken; beta2: decay of the momentum; Lion's paper has [0.9, 0.99]"), \
        DECAY(ASKED), GRAD_NONE, BITS, FP32_STATES, NO_CLIPPING

#endif
