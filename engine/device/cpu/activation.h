/* activation.h - GELU in its tanh form, and its derivative, for a chunk of elements. */
#ifndef CE_DEVICE_CPU_ACTIVATION_H
#define CE_DEVICE_CPU_ACTIVATION_H

#include <stdint.h>

void ce_gelu_chunk(float *restrict y, const float *restrict x, int64_t count);
/* Sets dx to dy times the derivative of GELU at x. */
void ce_gelu_grad_chunk(float *restrict dx, const float *restrict dy, const float *restrict x, int64_t count);

#endif
