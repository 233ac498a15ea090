/* adamw.h - AdamW (Loshchilov & Hutter 2019): Adam with weight decay that does not enter the moments. */
#ifndef CE_OPTIM_ADAMW_H
#define CE_OPTIM_ADAMW_H

#include "optim/rule.h"

CE_HOST_DEVICE float adamw(float p, float g, float *m, float *v, ce_hyper h)
{
    *m = h.beta1 * *m + h.one_minus_beta1 * g;
    *v = h.beta2 * *v + h.one_minus_beta2 * g * g;
    float direction = (*m * h.correction1) / (sqrtf(*v * h.correction2) + h.epsilon);
    return p - h.rate * (direction + h.decay * p);
}

/* The keys of this optimizer in optimizer.params; types.c makes a key table of them. */
#define ADAMW_KEYS                                                                                                                  \
    RATE("1e-3"), BETAS("[0.9, 0.999]", MOMENTS),                                                                                   \
        NUMBER("eps", epsilon, "1e-8", 0,                                                                                           \
               "epsilon, added to the square root of the second moment; \"auto\": the default"),                                    \
        DECAY(ASKED),                                                                                                               \
        FLAG("bias_correction", bias_correction, "true",                                                                            \
             "true: divide the moments by 1 - beta^t, where t is the number of the update"),                                        \
        FLAG(                                                                                                                       \
            "adam_w_mode", adam_w_mode, "true",                                                                                     \
            "true: the type \"Adam\" means AdamW, as in DeepSpeed; false: Adam with L2 regularization; \"AdamW\" is always AdamW"), \
        INERT("torch_adam", "false", "there is one implementation of Adam, which computes as PyTorch's"), GRAD_NONE,                \
        BITS, NO_FOREACH, NO_AMSGRAD, NO_FUSED, NO_MAXIMUM, FP32_STATES,                                                            \
        REFUSED("freeze_step", "null", NULL, NO_ONE_BIT), NO_CLIPPING

#endif
