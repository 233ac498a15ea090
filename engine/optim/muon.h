/* muon.h - the direction of Muon (Jordan et al. 2024) before orthogonalization. It is the Nesterov momentum of an
 * exponential average; beta1 is the momentum. */
#ifndef CE_OPTIM_MUON_H
#define CE_OPTIM_MUON_H

#include "optim/rule.h"

CE_HOST_DEVICE float muon(float p, float g, float *buffer, float *unused, ce_hyper h)
{
    (void)p, (void)unused;
    *buffer += h.one_minus_beta1 * (g - *buffer);
    return g + h.beta1 * (*buffer - g);
}

/* The keys of this optimizer in optimizer.params; types.c makes a key table of them. */
#define MUON_KEYS                                                                                                           \
    NUMBER("lr", rate, "0.02", 0, "learning rate where muon_lr or adam_lr is not given"),                                   \
        NUMBER("muon_lr", matrix_rate, "null", 0,                                                                           \
               "learning rate of the matrices, which Muon updates; null: lr, or 0.02 without lr"),                          \
        NUMBER(                                                                                                             \
            "adam_lr", other_rate, "null", 0,                                                                               \
            "learning rate of vectors, embeddings and the output head, which AdamW updates; null: lr, or 3e-4 without lr"), \
        { "momentum", CE_KEY_NUMBER, AT(momentum), "0.95", 0, 1, "auto", "momentum of the matrices, which Muon updates" },  \
        DECAY(ASKED),                                                                                                       \
        { "ns_method",                                                                                                      \
          CE_KEY_CHOICE,                                                                                                    \
          AT(ns_method),                                                                                                    \
          "\"gram\"",                                                                                                       \
          0,                                                                                                                \
          0,                                                                                                                \
          "gram|standard",                                                                                                  \
          "Newton-Schulz method; both values mean the same here: five iterations in fp32" },                                \
        BETAS("[0.9, 0.95]", "AdamW's, for vectors, embeddings and the output head"),                                       \
        NUMBER("eps", epsilon, "1e-10", 0, "AdamW's, for vectors, embeddings and the output head"), NO_CLIPPING

#endif
