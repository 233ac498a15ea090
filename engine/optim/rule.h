/* rule.h - the hyper-parameters of an update rule. The rules are functions that the CPU and CUDA kernels share. */
#ifndef CE_OPTIM_RULE_H
#define CE_OPTIM_RULE_H

#include "base/host_device.h"

#include <math.h>

/* The hyper-parameters of one parameter group at step t. */
typedef struct {
    float rate;         /* learning rate */
    float beta1, beta2; /* Adam's betas; beta1 is also the momentum of SGD and Muon, and beta2 the dampening of SGD */
    float one_minus_beta1,
        one_minus_beta2; /* 1 - beta1 and 1 - beta2, computed in double and rounded once, as PyTorch does */
    float epsilon, decay;
    /* Bias corrections 1 / (1 - beta1^t) and 1 / (1 - beta2^t). For LAMB, correction1 is sqrt(1 - beta2^t) / (1 -
     * beta1^t), and correction2 is not used. Without bias correction correction1 and correction2 are 1. */
    float correction1, correction2;
    float grad_scale; /* factor by which the gradient is multiplied: unscaling, mean and clipping */
    int nesterov;
    int first;       /* 1 in the optimizer's first step, otherwise 0 */
    int inside_root; /* 1 if epsilon is added under LAMB's square root, otherwise 0 */
} ce_hyper;

#endif
