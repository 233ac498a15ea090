/* tile_product.h - matrix products on tiles (tiles.h): of bf16 operands, and of fp32 operands as sums of bf16 parts. */
#ifndef CE_DEVICE_CPU_TILE_PRODUCT_H
#define CE_DEVICE_CPU_TILE_PRODUCT_H

#include "device/cpu/tile_pack.h"

/* Products are cut into panels at multiples of this number of rows or columns. */
enum { CE_TILE_PRODUCT_CUT = CE_TILE_PACK_SIDE };

/* The product c (m, n) = a (m, k) b (k, n) + bias. Both operands have the same number of parts. Three parts: six
 * products of parts are added up ("x6"); two parts: three products ("x3"). */
typedef struct {
    int64_t m, n, k;
    ce_tile_operand a, b;
    cs_tensor c; /* its first element is c (0, 0); bf16, or fp32 */
    int64_t ldc;
    bool add;       /* the product is added to c, which is fp32 */
    cs_tensor bias; /* n elements, bf16 or fp32; absent: no bias */
} ce_tile_product;

/* Returns the bytes of scratch memory for a product of this size, or of a smaller one; it must be aligned to 64. */
size_t ce_tile_product_scratch(int64_t m, int64_t n, int64_t k, int parts);
/* Computes a product in the calling thread. The terms of an element of c are added in one order, which does not depend
 * on m and n. So the bits of c do not depend on how a product is cut into panels. */
void ce_tile_product_run(const ce_tile_product *product, void *scratch);

#endif
