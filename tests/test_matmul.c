/* test_matmul.c - the two products under the matrix operations, panel by panel: oneDNN's primitives, which
 * operations use for types the CPU multiplies itself, here in fp32 on any CPU; and our own packed product. */
#include "near.h"
#include "reference.h"
#include "suite.h"

#include "device/cpu/gemm.h"
#include "device/device.h"

#include <stdlib.h>

static cs_device *device;

typedef enum { PRIMITIVE, PACKED } maker;

static void make(maker how, const cs_panel *panel, const cs_tensor *operand, const float *bias, float *c, void *scratch)
{
    if (how == PACKED) {
        cs_gemm_run(panel, operand[0].dtype, operand[0].data, operand[1].data, c, scratch);
        return;
    }
    cs_matmul *matmul = cs_cpu_of(device)->matmul;
    cs_matmul_prepare(matmul, panel, CS_F32, CS_F32, bias != NULL);
    cs_matmul_run(matmul, panel, CS_F32, CS_F32, operand[0].data, operand[1].data, bias, c, 0);
}

/* c is a part of a wider matrix, whose other columns must stay. */
static void check_panel(maker how, cs_dtype dtype, reference_shape s, bool with_bias)
{
    enum { MARGIN = 5 };
    int       m = s.m, n = s.n, k = s.k, wide = n + MARGIN;
    cs_tensor operand[2] = { near_random(dtype, s.transpose_a ? k : m, s.transpose_a ? m : k, 1, 1),
                             near_random(dtype, s.transpose_b ? n : k, s.transpose_b ? k : n, 2, 1) };
    cs_tensor bias = near_random(CS_F32, 1, n, 3, 1), c = near_random(CS_F32, m, wide, 4, 1);
    double   *a = near_doubles(operand[0]), *b = near_doubles(operand[1]), *add = near_doubles(bias);
    double   *want = near_doubles(c), *block = calloc((size_t)(m * n), sizeof *block);
    for (int i = 0; i < m * n; i++)
        block[i] = want[i / n * wide + i % n];
    reference_product(block, a, b, with_bias ? add : NULL, s);
    for (int i = 0; i < m * n; i++)
        want[i / n * wide + i % n] = block[i];
    cs_panel panel   = { s.transpose_a, s.transpose_b, m, n, k, s.transpose_a ? m : k, s.transpose_b ? k : n, wide,
                         s.add ? 1.0f : 0.0f };
    void    *scratch = aligned_alloc(64, cs_gemm_scratch());
    make(how, &panel, operand, with_bias ? bias.data : NULL, c.data, scratch);
    ck_assert(near_all(how == PACKED ? "packed" : "primitive", c, want, 2e-6));
    free(a), free(b), free(add), free(want), free(block), free(scratch);
    near_free(operand[0]), near_free(operand[1]), near_free(bias), near_free(c);
}

static void check_all(maker how, cs_dtype dtype)
{
    static const int sizes[][3] = { { 1, 1, 1 }, { 7, 17, 9 }, { 65, 63, 129 }, { 200, 33, 300 }, { 19, 1601, 40 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int bits = 0; bits < 8; bits++)
            check_panel(how, dtype,
                        (reference_shape){ sizes[i][0], sizes[i][1], sizes[i][2], bits & 1, bits & 2, bits & 4 },
                        how == PRIMITIVE && bits % 3 == 0);
}

START_TEST(primitives_multiply)
{
    CS_MUST(cs_device_open(&device, &(cs_device_settings){ .kind = "cpu", .threads = 1, .local_ranks = 1 }));
    for (int round = 0; round < 2; round++) /* made, then found */
        check_all(PRIMITIVE, CS_F32);
    cs_device_close(device);
}
END_TEST

START_TEST(packed_products_multiply)
{
    for (int dtype = CS_F32; dtype <= CS_F16; dtype++)
        check_all(PACKED, (cs_dtype)dtype);
}
END_TEST

SUITE_MAIN("matmul", primitives_multiply, packed_products_multiply)
