/* test_matmul.c - the two methods of the CPU's matrix operations, panel by panel. One method is oneDNN's primitives, in
 * fp32 on any CPU, and in bf16 if oneDNN has bf16 products for this CPU. The other method is cspeed's packed product.
 * Then the operations that use oneDNN's primitives are tested. */
#include "near.h"
#include "reference.h"
#include "suite.h"

#include "device/cpu/cpu.h"
#include "device/cpu/gemm.h"
#include "device/isa.h"
#include "device/products.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 4, MARGIN = 5, GUARD = 256, POISON = 0xff, MARK = 0xa5 };

static cs_device *device;

static void open_device(int threads)
{
    CS_MUST(ce_device_open(&device, &(ce_device_settings){ .kind = "cpu", .threads = threads, .local_ranks = 1 }));
}

/* Returns true if oneDNN multiplies this type on this CPU, even if only by its reference loops. Otherwise prints that
 * the bf16 part of the test is skipped. */
static bool multiplies(cs_dtype dtype, const char *test)
{
    static const char *reported;
    bool there = ce_matmul_grade_of(ce_cpu_of(device)->matmul, dtype) != CE_MATMUL_NONE;
    if (!there && reported != test)
        printf("%s: bf16 is skipped, oneDNN has no bf16 products for this CPU (%s)\n", test,
               ce_isa_name(ce_device_isa(device)));
    reported = test;
    return there;
}

/* ---- one product, split into panels ---- */

/* c is a part of a wider matrix, whose other columns must not change. */
typedef struct {
    reference_shape shape;
    cs_dtype dtype, to;
    cs_tensor a, b, bias, c; /* bias may be absent */
    double *want;            /* expected values of the whole c */
} product;

static product make_product(cs_dtype dtype, cs_dtype to, reference_shape s, bool with_bias)
{
    product p = { s,
                  dtype,
                  to,
                  near_random(dtype, s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, 1, 1),
                  near_random(dtype, s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, 2, 1),
                  near_random(dtype, 1, s.n, 3, 1),
                  near_random(to, s.m, s.n + MARGIN, 4, 1),
                  NULL };
    double *a = near_doubles(p.a), *b = near_doubles(p.b), *add = near_doubles(p.bias);
    double *block = calloc((size_t)(s.m * s.n), sizeof *block);
    int wide = s.n + MARGIN;
    p.want = near_doubles(p.c);
    for (int i = 0; i < s.m * s.n; i++)
        block[i] = p.want[i / s.n * wide + i % s.n];
    reference_product(block, a, b, with_bias ? add : NULL, s);
    for (int i = 0; i < s.m * s.n; i++)
        p.want[i / s.n * wide + i % s.n] = block[i];
    free(a), free(b), free(add), free(block);
    if (!with_bias) {
        near_free(p.bias);
        p.bias = (cs_tensor){ 0 };
    }
    return p;
}

static void check_product(const char *what, product *p)
{
    ck_assert(near_all(what, p->c, p->want, 2e-6));
    near_free(p->a), near_free(p->b), near_free(p->c);
    if (p->bias.data)
        near_free(p->bias);
    free(p->want);
}

static void *element(cs_tensor x, int64_t index)
{
    return (char *)x.data + (size_t)index * cs_dtype_bytes(x.dtype);
}

/* Returns the panel of rows [from, to) of c. */
static ce_panel rows_of(const product *p, int from, int to)
{
    reference_shape s = p->shape;
    return (ce_panel){
        s.transpose_a, s.transpose_b,      to - from, s.n, s.k, s.transpose_a ? s.m : s.k, s.transpose_b ? s.k : s.n,
        s.n + MARGIN,  s.add ? 1.0f : 0.0f
    };
}

/* ---- oneDNN's primitives ---- */

/* A product divided into tasks. Each task has its rows, and its scratch memory between two guards that are filled with
 * NaN. */
typedef struct {
    const product *p;
    int from[MAX_THREADS + 1];
    ce_matmul_shape shape[MAX_THREADS];
    size_t bytes[MAX_THREADS];
    unsigned char *scratch[MAX_THREADS]; /* address of the first guard */
} cutting;

static void prepare_task(cutting *cut, int task)
{
    const product *p = cut->p;
    cut->shape[task] =
        (ce_matmul_shape){ rows_of(p, cut->from[task], cut->from[task + 1]), p->dtype, p->to, p->bias.data != NULL };
    cut->bytes[task] = ce_matmul_prepare(ce_cpu_of(device)->matmul, &cut->shape[task]);
    size_t whole = (size_t)ce_round_up((int64_t)cut->bytes[task] + 2 * GUARD, 64);
    cut->scratch[task] = aligned_alloc(64, whole);
    ck_assert_ptr_nonnull(cut->scratch[task]);
    memset(cut->scratch[task], MARK, whole);
    memset(cut->scratch[task] + GUARD, POISON, cut->bytes[task]);
}

static void run_task(void *argument, int task, int thread)
{
    (void)thread;
    const cutting *cut = argument;
    const product *p = cut->p;
    int64_t from = cut->from[task];
    ce_matmul_operands with = { element(p->a, p->shape.transpose_a ? from : from * p->shape.k), p->b.data, p->bias.data,
                                element(p->c, from * (p->shape.n + MARGIN)), cut->scratch[task] + GUARD };
    ce_matmul_run(ce_cpu_of(device)->matmul, &cut->shape[task], &with, task);
}

static void check_guards(const cutting *cut, int task)
{
    const unsigned char *scratch = cut->scratch[task];
    for (size_t i = 0; i < GUARD; i++)
        ck_assert_msg(scratch[i] == MARK && scratch[GUARD + cut->bytes[task] + i] == MARK,
                      "panel %d of %lld rows wrote beside its %zu bytes of scratch", task,
                      (long long)cut->shape[task].panel.m, cut->bytes[task]);
}

/* One task for each thread; later panels are larger. */
static void check_primitives(cs_dtype dtype, cs_dtype to, reference_shape s, bool with_bias)
{
    int tasks = ce_device_threads(device) < s.m ? ce_device_threads(device) : s.m, steps = tasks * (tasks + 1) / 2;
    product p = make_product(dtype, to, s, with_bias);
    cutting cut = { .p = &p };
    for (int task = 0; task < tasks; task++) {
        int grown = s.m * ((task + 1) * (task + 2) / 2) / steps;
        cut.from[task + 1] = grown > cut.from[task] ? grown : cut.from[task] + 1;
    }
    cut.from[tasks] = s.m;
    for (int task = 0; task < tasks; task++)
        prepare_task(&cut, task);
    ce_team_run(ce_cpu_of(device)->team, tasks, run_task, &cut);
    for (int task = 0; task < tasks; task++) {
        check_guards(&cut, task);
        free(cut.scratch[task]);
    }
    check_product("primitive", &p);
}

static const int sizes[][3] = { { 1, 1, 1 }, { 7, 17, 9 }, { 65, 63, 129 }, { 200, 33, 300 }, { 19, 1601, 40 } };
enum { SIZES = sizeof sizes / sizeof *sizes };

static reference_shape shape_of(int size, int bits)
{
    return (reference_shape){ sizes[size][0], sizes[size][1], sizes[size][2], bits & 1, bits & 2, bits & 4 };
}

static void check_all_primitives(bool half)
{
    for (int size = 0; size < SIZES; size++)
        for (int bits = 0; bits < 8; bits++) {
            bool bias = bits % 3 == 0;
            check_primitives(CS_F32, CS_F32, shape_of(size, bits), bias);
            if (half)
                check_primitives(CS_BF16, CS_F32, shape_of(size, bits), bias);
            if (half && !(bits & 4)) /* a product that is added to c needs an fp32 c */
                check_primitives(CS_BF16, CS_BF16, shape_of(size, bits), bias);
        }
}

START_TEST(primitives_multiply_within_their_scratch)
{
    for (int threads = 1; threads <= MAX_THREADS; threads++) {
        open_device(threads);
        bool half = multiplies(CS_BF16, "primitives");
        for (int round = 0; round < 2; round++) /* the first round creates primitives, the second finds them */
            check_all_primitives(half);
        ce_device_close(device);
    }
}
END_TEST

/* More shapes than the table holds, so that primitives are dropped and created again. */
START_TEST(any_number_of_shapes)
{
    enum { SHAPES = 700 };
    open_device(2);
    bool half = multiplies(CS_BF16, "any number of shapes");
    for (int m = 1; m <= SHAPES; m++) {
        check_primitives(half ? CS_BF16 : CS_F32, CS_F32, (reference_shape){ m, 16 + m % 5, 8, .add = true }, false);
        /* one of three shapes, which are used again and again */
        check_primitives(CS_F32, CS_F32, (reference_shape){ m % 3 + 1, 16, 8, .add = true }, true);
    }
    ce_device_close(device);
}
END_TEST

/* ---- the operations: panels of one product run in parallel and share scratch memory ---- */

static void check_operation(reference_shape s)
{
    cs_stream *stream = ce_device_stream(device, CE_COMPUTE);
    ce_cpu *cpu = ce_cpu_of(device);
    cs_tensor x = near_random(CS_BF16, s.m, s.k, 1, 1), w = near_random(CS_BF16, s.k, s.n, 2, 1);
    cs_tensor y = near_new(CS_BF16, s.m, s.n), dw = near_new(CS_F32, s.k, s.n), none = { 0 };
    double *a = near_doubles(x), *b = near_doubles(w), *want = calloc((size_t)(s.m * s.n), sizeof *want);
    reference_product(want, a, b, NULL, s);
    for (int round = 0; round < 6; round++) {
        if (cpu->memory[CE_CPU_SCRATCH])
            memset(cpu->memory[CE_CPU_SCRATCH], POISON, cpu->bytes[CE_CPU_SCRATCH]);
        memset(y.data, POISON, (size_t)cs_count(y) * cs_dtype_bytes(CS_BF16));
        cs_op_matmul(stream, y, x, w, none, CS_IN_OUT);
        ck_assert(near_all("bf16 operation", y, want, 1e-6));
    }
    double *gradient = near_doubles(y), *want_w = near_doubles(dw);
    reference_product(want_w, a, gradient, NULL, (reference_shape){ s.k, s.n, s.m, .transpose_a = true, .add = true });
    memset(cpu->memory[CE_CPU_SCRATCH], POISON, cpu->bytes[CE_CPU_SCRATCH]);
    cs_op_matmul_grad_weight(stream, dw, none, x, y, CS_IN_OUT);
    ck_assert(near_all("bf16 gradient", dw, want_w, 2e-6));
    free(a), free(b), free(want), free(gradient), free(want_w);
    near_free(x), near_free(w), near_free(y), near_free(dw);
}

/* Rows and columns that no number of threads divides into equal panels. */
START_TEST(operations_in_bf16_share_their_scratch_out)
{
    for (int threads = 1; threads <= MAX_THREADS; threads++) {
        open_device(threads);
        if (multiplies(CS_BF16, "operations")) {
            ce_device_use_products(device, &(ce_product_choice){ .dtype = CS_BF16, .others = CE_METHOD_NATIVE });
            check_operation((reference_shape){ .m = 83, .n = 70, .k = 300 });
            check_operation((reference_shape){ .m = 401, .n = 250, .k = 130 });
            check_operation((reference_shape){ .m = 33, .n = 599, .k = 200 });
            check_operation((reference_shape){ .m = 17, .n = 1, .k = 9 });
        }
        ce_device_close(device);
    }
}
END_TEST

/* ---- the packed product ---- */

START_TEST(packed_products_multiply)
{
    void *scratch = aligned_alloc(64, ce_gemm_scratch());
    for (int dtype = CS_F32; dtype <= CS_F16; dtype++)
        for (int size = 0; size < SIZES; size++)
            for (int bits = 0; bits < 8; bits++) {
                product p = make_product((cs_dtype)dtype, CS_F32, shape_of(size, bits), false);
                ce_panel panel = rows_of(&p, 0, p.shape.m);
                ce_gemm_run(&panel, p.dtype, p.a.data, p.b.data, p.c.data, scratch);
                check_product("packed", &p);
            }
    free(scratch);
}
END_TEST

SUITE_MAIN("matmul", primitives_multiply_within_their_scratch, any_number_of_shapes,
           operations_in_bf16_share_their_scratch_out, packed_products_multiply)
