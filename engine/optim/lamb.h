/* lamb.h - the direction of LAMB (You et al. 2020): Adam's direction without bias correction, with weight decay.
 *
 * zero/update.c takes the step along this direction. It multiplies the direction by rate * correction1 * (norm of the
 * parameter / norm of the direction). */
#ifndef CE_OPTIM_LAMB_H
#define CE_OPTIM_LAMB_H

#include "optim/rule.h"

CE_HOST_DEVICE float lamb(float p, float g, float *m, float *v, ce_hyper h)
{
    *m = h.beta1 * *m + h.one_minus_beta1 * g;
    *v = h.beta2 * *v + h.one_minus_beta2 * g * g;
    float root = h.inside_root ? sqrtf(*v + h.epsilon) : sqrtf(*v) + h.epsilon;
    return *m / root + h.decay * p;
}

/* The keys of this optimizer in optimizer.params; types.c makes a key table of them. */
#define LAMB_KEYS                                                                                                      \
    RATE("1e-3"), BETAS("[0.9, 0.999]", MOMENTS),                                                                      \
        NUMBER("eps", epsilon, "1e-8", 0,                                                                              \
               "epsilon, added to the square root of the second moment, or under it if eps_inside_sqrt is true"),      \
        FLAG("eps_inside_sqrt", inside_root, "false",                                                                  \
             "true: eps is added under the square root; false: to the square root"),                                   \
        DECAY(ASKED),                                                                                                  \
        NUMBER("max_coeff", max_ratio, "10", 0,                                                                        \
               "maximum of LAMB's trust ratio (norm of a tensor / norm of its step)"),                                 \
        NUMBER("min_coeff", min_ratio, "0.01", 0, "minimum of LAMB's trust ratio"),                                    \
        FLAG("bias_correction", bias_correction, "true",                                                               \
             "true: multiply the step by sqrt(1 - beta2^t) / (1 - beta1^t), where t is the number of the update"),     \
        NO_AMSGRAD, REFUSED("freeze_step", "null", NULL, NO_ONE_BIT), NO_CLIPPING

#endif
