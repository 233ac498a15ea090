/* sgd.h - stochastic gradient descent as in torch.optim.SGD. beta1 is the momentum and beta2 the dampening.
 *
 * In the first step the momentum buffer becomes the gradient with weight decay added, without dampening. Without
 * momentum there is no buffer, and `buffer` may be NULL. */
#ifndef CE_OPTIM_SGD_H
#define CE_OPTIM_SGD_H

#include "optim/rule.h"

CE_HOST_DEVICE float sgd(float p, float g, float *buffer, float *unused, ce_hyper h)
{
    (void)unused;
    g += h.decay * p;
    if (h.beta1 != 0) {
        *buffer = h.first ? g : h.beta1 * *buffer + h.one_minus_beta2 * g;
        g = h.nesterov ? g + h.beta1 * *buffer : *buffer;
    }
    return p - h.rate * g;
}

/* The keys of this optimizer in optimizer.params; types.c makes a key table of them. */
#define SGD_KEYS                                                                                                       \
    RATE("1e-3"), NUMBER("momentum", momentum, "0", 0, "momentum; 0: none, and no memory for it"),                     \
        NUMBER("dampening", dampening, "0", -MAX_VALUE,                                                                \
               "the gradient is multiplied by 1 - dampening before it is added to the momentum buffer"),               \
        DECAY("L2 regularization of matrices, added to the gradient; vectors (biases, norms) have none"),              \
        FLAG("nesterov", nesterov, "false", "true: Nesterov momentum; needs momentum above 0 and dampening 0"),        \
        NO_FOREACH, NO_FUSED, NO_MAXIMUM, NO_CLIPPING

#endif
