/* normal.h - the normal distribution function in fp32, which the CPU and the CUDA kernels share. */
#ifndef CE_BASE_NORMAL_H
#define CE_BASE_NORMAL_H

#include "base/host_device.h"

CE_HOST_DEVICE float ce_normal_divisor(float x)
{
    return 1 + 0.3f * (x < 0 ? -x : x);
}

/* Returns the normal distribution function of x, with an error of a few ulp, also in the tail. The caller passes what
 * each device computes by its own instructions: `e`, which must be e^(-x^2 / 2), and `t`, which must be
 * 1 / ce_normal_divisor(x). The tail is e t q(t), where q is a polynomial (least squares, error below 5e-9). The
 * functions have no branches. */
CE_HOST_DEVICE float ce_normal(float x, float e, float t)
{
    float p = -2.087826139e-2f;
    p = p * t + 1.138065161e-1f;
    p = p * t - 2.314002860e-1f;
    p = p * t + 1.959741850e-1f;
    p = p * t - 8.284755026e-2f;
    p = p * t + 9.795569717e-2f;
    p = p * t + 7.778385849e-2f;
    p = p * t + 1.103611909e-1f;
    p = p * t + 1.195572413e-1f;
    p = p * t + 1.196874067e-1f;
    float tail = e * t * p;
    return x < 0 ? tail : 1 - tail;
}

#endif
