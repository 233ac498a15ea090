/* muon.h - the direction of Muon (Jordan et al. 2024) before orthogonalization. It is the Nesterov momentum of an
 * exponential average; beta1 is the momentum. */
#ifndef CS_OPTIM_MUON_H
#define CS_OPTIM_MUON_H

#include "optim/rule.h"

CS_HOST_DEVICE float muon(float p, float g, float *buffer, float *unused, ce_hyper h)
{
    (void)p, (void)unused;
    *buffer += h.one_minus_beta1 * (g - *buffer);
    return g + h.beta1 * (*buffer - g);
}

/* The keys of this optimizer in optimizer.params; types.c makes a key table of them. */
#define MUON_KEYS                                                                                                      \
    NUMBER("lr", rate, "0.02", 0, "learning rate of both sides where the next two are not given"),                     \
        NUMBER("muon_lr", matrix_rate, "null", 0, "of matrices; null: lr, else 0.02"),                                 \
        NUMBER("adam_lr", other_rate, "null", 0,                                                                       \
               "of what is no matrix, of embeddings and the head; null: lr, else 3e-4"),                               \
        { "momentum", CS_KEY_NUMBER, AT(momentum), "0.95", 0, 1, "auto", "of the matrices' gradients" }, DECAY(ASKED), \
        { "ns_method",                                                                                                 \
          CS_KEY_CHOICE,                                                                                               \
          AT(ns_method),                                                                                               \
          "\"gram\"",                                                                                                  \
          0,                                                                                                           \
          0,                                                                                                           \
          "gram|standard",                                                                                             \
          "one loop for both here, five iterations in fp32: they are the same polynomial" },                           \
        BETAS("[0.9, 0.95]", "AdamW's, for the other side"),                                                           \
        NUMBER("eps", epsilon, "1e-10", 0, "AdamW's, for the other side"), NO_CLIPPING

#endif
