/* gemm.h - cspeed's own matrix product, for CPUs and shapes where it is faster than oneDNN's. */
#ifndef CS_DEVICE_CPU_GEMM_H
#define CS_DEVICE_CPU_GEMM_H

#include "device/cpu/cpu.h"

/* Whether this build has the vector instructions (AVX2) that the product is written for. */
bool cs_gemm_fits(void);
size_t cs_gemm_scratch(void); /* bytes for each thread */
/* c is fp32, a and b have the type `dtype`, and beta is 0 or 1. */
void cs_gemm_run(const cs_panel *panel, cs_dtype dtype, const void *a, const void *b, float *c, float *scratch);

/* gemv.c: products with few rows of c and a that is not transposed. */
bool cs_gemv_fits(const cs_product *product);
void cs_gemv_run(cs_device *device, const cs_product *product);

#endif
