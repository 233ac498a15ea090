/* adam.h - Adam (Kingma & Ba 2015) with weight decay added to the gradient: "Adam" with "adam_w_mode": false. */
#ifndef CE_OPTIM_ADAM_H
#define CE_OPTIM_ADAM_H

#include "optim/adamw.h"

CE_HOST_DEVICE float adam(float p, float g, float *m, float *v, ce_hyper h)
{
    g += h.decay * p;
    *m = h.beta1 * *m + h.one_minus_beta1 * g;
    *v = h.beta2 * *v + h.one_minus_beta2 * g * g;
    return p - h.rate * ((*m * h.correction1) / (sqrtf(*v * h.correction2) + h.epsilon));
}

/* "Adam" and "AdamW" have the same keys; adam_w_mode decides which of the two is used. */
#define ADAM_KEYS ADAMW_KEYS

#endif
