/* activation.c - GELU in its tanh form, computed as x times a logistic function: x / (1 + e^(-2 u)), u = c (x + a
 * x^3). */
#include "device/cpu/activation.h"
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

#define TWICE_ROOT 1.5957691216057308f /* 2 c, where c = sqrt(2 / pi) */
#define CUBIC 0.044715f                /* the factor a of x^3 */

void ce_gelu_chunk(float *restrict y, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float twice_u = TWICE_ROOT * (x[i] + CUBIC * x[i] * x[i] * x[i]);
        y[i] = x[i] / (1 + ce_elements_exp_one(-twice_u));
    }
}

/* The derivative of x s(2u) is s + x s (1 - s) 2 u', where s is the logistic function and u' is the derivative of u.
 * With e = e^(-2u), 1 - s is computed as e s: the difference 1 - s would lose its digits for large u. e is limited so
 * that it stays finite and 0 times e is 0. */
void ce_gelu_grad_chunk(float *restrict dx, const float *restrict dy, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float square = x[i] * x[i];
        float twice_u = TWICE_ROOT * (x[i] + CUBIC * x[i] * square);
        float slope = TWICE_ROOT * (1 + 3 * CUBIC * square);
        float e = ce_elements_exp_one(twice_u < -88 ? 88 : -twice_u);
        float s = 1 / (1 + e);
        dx[i] = dy[i] * (s + x[i] * slope * (e * s * s));
    }
}

void ce_cpu_gelu(cs_device *device, cs_tensor y, cs_tensor x)
{
    ce_cpu_activation(device, y, x, CS_GELU_TANH);
}

void ce_cpu_gelu_grad(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x)
{
    ce_cpu_activation_grad(device, dx, dy, x, CS_GELU_TANH);
}
