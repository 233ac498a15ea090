/* adagrad.h - Adagrad (Duchi et al. 2011) as in torch.optim.Adagrad. ce_optim_hyper has already applied lr_decay to
 * h.rate. */
#ifndef CE_OPTIM_ADAGRAD_H
#define CE_OPTIM_ADAGRAD_H

#include "optim/rule.h"

CE_HOST_DEVICE float adagrad(float p, float g, float *sum, float *unused, ce_hyper h)
{
    (void)unused;
    g += h.decay * p;
    *sum += g * g;
    return p - h.rate * (g / (sqrtf(*sum) + h.epsilon));
}

/* The keys of this optimizer in optimizer.params; types.c makes a key table of them. */
#define ADAGRAD_KEYS                                                                                                   \
    RATE("1e-2"),                                                                                                      \
        NUMBER("lr_decay", lr_decay, "0", 0,                                                                           \
               "decay of the learning rate: update t, from 1, has the rate lr / (1 + (t - 1) x lr_decay)"),            \
        DECAY("L2 regularization of matrices, added to the gradient; vectors (biases, norms) have none"),              \
        NUMBER("initial_accumulator_value", first_sum, "0", 0,                                                         \
               "value of the sum of squared gradients before the first update"),                                       \
        NUMBER("eps", epsilon, "1e-10", 0,                                                                             \
               "epsilon, added to the square root of the second moment; \"auto\": the default"),                       \
        NO_FOREACH, NO_AMSGRAD, NO_FUSED, NO_MAXIMUM, FP32_STATES, NO_CLIPPING

#endif
