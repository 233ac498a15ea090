/* muon.h - Muon's direction (Jordan et al. 2024) before it is made orthogonal: Nesterov momentum of averages. beta1 is
 * the momentum. */
#ifndef CS_OPTIM_MUON_H
#define CS_OPTIM_MUON_H

#include "optim/rule.h"

CS_RULE float muon(float p, float g, float *buffer, float *unused, cs_hyper h)
{
    (void)p, (void)unused;
    *buffer += h.rest1 * (g - *buffer);
    return g + h.beta1 * (*buffer - g);
}

#endif
