/* rule.h - what a rule of one element's update is given, and the one word that makes it compile for every device. */
#ifndef CS_OPTIM_RULE_H
#define CS_OPTIM_RULE_H

#include <math.h>

#ifdef __CUDACC__
#define CS_RULE static __host__ __device__ inline
#else
#define CS_RULE static inline
#endif

/* Of one parameter group at step t. */
typedef struct {
    float rate;         /* learning rate                                                               */
    float beta1, beta2; /* Adam's; beta1 is SGD's and Muon's momentum, beta2 SGD's dampening           */
    float rest1, rest2; /* 1 - beta1, 1 - beta2: rounded once, as PyTorch does                         */
    float epsilon, decay;
    float fix1, fix2; /* bias corrections 1 / (1 - beta^t), made once a step; LAMB's one factor is fix1 */
    float grad_scale; /* unscale, average and clip in one factor on the gradient                        */
    int nesterov;
    int first;       /* the optimizer's first step          */
    int inside_root; /* epsilon stands under LAMB's root    */
} cs_hyper;

#endif
