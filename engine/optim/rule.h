/* rule.h - the hyper-parameters of an update rule, and the macro by which a rule compiles for every device. */
#ifndef CS_OPTIM_RULE_H
#define CS_OPTIM_RULE_H

#include <math.h>

#ifdef __CUDACC__
#define CS_RULE static __host__ __device__ inline
#else
#define CS_RULE static inline
#endif

/* The hyper-parameters of one parameter group at step t. */
typedef struct {
    float rate;         /* learning rate                                                               */
    float beta1, beta2; /* Adam's betas; beta1 is also SGD's and Muon's momentum, beta2 SGD's dampening */
    float rest1, rest2; /* 1 - beta1 and 1 - beta2, computed in double and rounded once, as PyTorch does */
    float epsilon, decay;
    float fix1, fix2; /* bias corrections 1 / (1 - beta^t); LAMB has one factor, fix1 */
    float grad_scale; /* factor on the gradient: unscaling, mean and clipping */
    int nesterov;
    int first;       /* 1 in the optimizer's first step */
    int inside_root; /* epsilon is added under LAMB's square root */
} ce_hyper;

#endif
