/* gemm.h - cspeed's own matrix product, for CPUs and shapes where it is faster than oneDNN's. */
#ifndef CE_DEVICE_CPU_GEMM_H
#define CE_DEVICE_CPU_GEMM_H

#include "device/cpu/cpu.h"

/* Returns the end of the block that begins at `from`: from + block, but at most `whole`. */
static inline int64_t ce_gemm_end(int64_t from, int64_t block, int64_t whole)
{
    return from + block < whole ? from + block : whole;
}

/* Returns whether gemm.c is compiled for AVX2, the set of instructions for which this product is written. */
bool ce_gemm_fits(void);
size_t ce_gemm_scratch(void); /* returns the bytes of scratch memory for each thread */
/* Computes a panel. c is fp32, a and b have the type `dtype`, and beta is 0 or 1. */
void ce_gemm_run(const ce_panel *panel, cs_dtype dtype, const void *a, const void *b, float *c, float *scratch);

/* The next functions are in gemv.c. They compute products in which c has few rows and a is not transposed. */
bool ce_gemv_fits(const ce_product *product);
void ce_gemv_run(cs_device *device, const ce_product *product);

#endif
