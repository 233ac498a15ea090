/* gemm.h - matrix products of our own, for CPUs where they are faster than oneDNN's. */
#ifndef CS_DEVICE_CPU_GEMM_H
#define CS_DEVICE_CPU_GEMM_H

#include "device/cpu/cpu.h"

/* Whether this build's vectors are the ones it is written for. */
bool cs_gemm_fits(void);
size_t cs_gemm_scratch(void); /* bytes a thread */
/* c fp32; a and b of `dtype`; beta 0 or 1. */
void cs_gemm_run(const cs_panel *panel, cs_dtype dtype, const void *a, const void *b, float *c, float *scratch);

#endif
