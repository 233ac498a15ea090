/* test_gemv.c - matrix products with few rows: they are correct for every type, transposition and edge, and a row gets
 * the same bits alone and together with other rows. */
#include "near.h"
#include "reference.h"
#include "suite.h"

#include "device/cpu/cpu.h"
#include "device/cpu/gemm.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 8 };

static cs_device *device;

static void open_device(int threads)
{
    CS_MUST(ce_device_open(&device, &(ce_device_settings){ .kind = "cpu", .threads = threads, .local_ranks = 1 }));
}

typedef struct {
    cs_tensor a, b, bias, c;
    reference_shape shape;
} example;

static example make(reference_shape s, cs_dtype dtype, cs_dtype to, bool with_bias)
{
    return (example){ .a = near_random(dtype, s.m, s.k, 1, 1),
                      .b = near_random(dtype, s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, 2, 1),
                      .bias = with_bias ? near_random(dtype, 1, s.n, 3, 1) : (cs_tensor){ 0 },
                      .c = near_random(to, s.m, s.n, 4, 1),
                      .shape = s };
}

static void drop(example *all)
{
    near_free(all->a), near_free(all->b), near_free(all->c);
    if (all->bias.data)
        near_free(all->bias);
}

static ce_product product_of(const example *all)
{
    ce_product product = { .a = all->a,
                           .b = all->b,
                           .c = all->c,
                           .bias = all->bias,
                           .transpose_b = all->shape.transpose_b,
                           .add = all->shape.add };
    ck_assert(ce_gemv_fits(&product));
    return product;
}

static void check(reference_shape s, cs_dtype dtype, cs_dtype to, bool with_bias)
{
    example all = make(s, dtype, to, with_bias);
    double *a = near_doubles(all.a), *b = near_doubles(all.b), *want = near_doubles(all.c);
    double *bias = with_bias ? near_doubles(all.bias) : NULL;
    ce_product product = product_of(&all);
    reference_product(want, a, b, bias, all.shape);
    ce_gemv_run(device, &product);
    ck_assert(near_all("gemv", all.c, want, 3e-5)); /* the result of a sum of 100 terms may be close to 0 */
    free(a), free(b), free(want), free(bias);
    drop(&all);
}

START_TEST(every_type_and_edge_is_right)
{
    static const int columns[] = { 1, 15, 16, 17, 63, 64, 130, 1024, 1041, 2100 }, inner[] = { 1, 7, 8, 31, 32, 100 };
    static const cs_dtype types[] = { CS_F32, CS_BF16, CS_F16 };
    open_device(2);
    for (size_t n = 0; n < sizeof columns / sizeof *columns; n++)
        for (size_t k = 0; k < sizeof inner / sizeof *inner; k++)
            for (int m = 1; m <= MAX_ROWS; m += 1 + (columns[n] > 200))
                for (int type = 0; type < 3; type++)
                    for (int transpose = 0; transpose < 2; transpose++) {
                        reference_shape s = { .m = m, .n = columns[n], .k = inner[k], .transpose_b = transpose };
                        check(s, types[type], types[type], m % 2);
                        s.add = true;
                        check(s, types[type], CS_F32, m % 2 == 0);
                    }
    ce_device_close(device);
}
END_TEST

START_TEST(a_row_has_the_same_bits_alone_and_among_others)
{
    open_device(2);
    for (int transpose = 0; transpose < 2; transpose++) {
        reference_shape s = { .m = MAX_ROWS, .n = 300, .k = 77, .transpose_b = transpose };
        example all = make(s, CS_BF16, CS_F32, true);
        ce_product product = product_of(&all);
        ce_gemv_run(device, &product);
        for (int m = 1; m < MAX_ROWS; m++)
            for (int first = 0; first + m <= MAX_ROWS; first++) {
                float out[MAX_ROWS * 300];
                ce_product part = product;
                part.a = cs_matrix((uint16_t *)all.a.data + first * s.k, CS_BF16, m, s.k);
                part.c = cs_matrix(out, CS_F32, m, s.n);
                ce_gemv_run(device, &part);
                ck_assert(!memcmp(out, (float *)all.c.data + first * s.n, (size_t)(m * s.n) * sizeof *out));
            }
        drop(&all);
    }
    ce_device_close(device);
}
END_TEST

SUITE_MAIN("gemv", every_type_and_edge_is_right, a_row_has_the_same_bits_alone_and_among_others)
