/* test_expert_products.c - the products of a mixture of experts compared with plain loops in double precision, with
 * uneven routings; the results must have the same bits with any number of threads. */
#include "near.h"
#include "suite.h"

#include "device/device.h"
#include "device/products.h"
#include "cspeed/ops.h"

#include <math.h>
#include <stdlib.h>

enum { LISTED = 8 };

/* Each of the experts has a matrix (m, k), or (k, m) if `turned` is true. Expert e has counts[e % listed] slots. */
typedef struct {
    int experts, listed, counts[LISTED], m, k;
    bool turned; /* the matrices are (k, m) */
} shape;

/* The tensors of the three products of a shape. */
typedef struct {
    shape shape;
    int64_t slots;
    cs_tensor bounds, rows, x, w, dy, y, dx, dw;
} example;

static cs_stream *stream;
static ce_method tiles = CE_METHOD_FIXED; /* the method on tiles that the device uses for its type, or FIXED */

/* Opens the device, whose products are computed on tiles if `tiles` says so. */
static void open_device(int threads)
{
    cs_device *device = near_open(threads);
    stream = ce_device_stream(device, CE_COMPUTE);
    ce_device_use_products(device,
                           &(ce_product_choice){ .dtype = tiles == CE_METHOD_X6 ? CS_F32 : CS_BF16, .others = tiles });
}

static int32_t first_slot(const example *all, int e)
{
    return ((const int32_t *)all->bounds.data)[e];
}

/* Returns random elements that begin `shift` elements after an address that is aligned to 64 bytes. */
static cs_tensor shifted(cs_dtype dtype, int64_t rows, int64_t columns, uint64_t seed, int shift)
{
    cs_tensor x = near_random(dtype, 1, rows * columns + shift, seed, 1);
    return cs_matrix((char *)x.data + (size_t)shift * cs_dtype_bytes(dtype), dtype, rows, columns);
}

static example make(shape s, cs_dtype dtype, int shift)
{
    example all = { .shape = s, .bounds = near_new(CS_I32, s.experts + 1, 1) };
    int32_t *bounds = all.bounds.data;
    for (int e = 0; e < s.experts; e++)
        bounds[e + 1] = bounds[e] + s.counts[e % s.listed];
    all.slots = bounds[s.experts];
    all.rows = near_new(CS_I32, all.slots, 1);
    all.x = shifted(dtype, all.slots, s.k, 1, shift);
    int rows = s.turned ? s.k : s.m, columns = s.turned ? s.m : s.k;
    all.w = near_random(dtype, (int64_t)s.experts * rows, columns, 2, 1);
    all.dy = near_random(dtype, all.slots, s.m, 3, 1);
    all.y = near_random(dtype, all.slots, s.m, 4, 1);
    all.dx = near_random(dtype, all.slots, s.k, 5, 1);
    all.dw = near_random(CS_F32, (int64_t)s.experts * rows, columns, 6, 1);
    return all;
}

static void drop(example *all, int shift)
{
    cs_tensor tensors[] = { all->bounds, all->rows, all->w, all->dy, all->y, all->dx, all->dw };
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        near_free(tensors[i]);
    all->x.data = (char *)all->x.data - (size_t)shift * cs_dtype_bytes(all->x.dtype);
    near_free(cs_vector(all->x.data, all->x.dtype, cs_count(all->x) + shift));
}

static cs_routing routing_of(const example *all)
{
    return (cs_routing){ .rows = near_at(all->rows), .bounds = near_at(all->bounds) };
}

/* Runs the three operations. If `fresh` is false, the gradient of the matrices is added to all->dw. */
static void run(example *all, bool fresh)
{
    cs_routing routing = routing_of(all);
    cs_layout layout = all->shape.turned ? CS_IN_OUT : CS_OUT_IN;
    all->dw.overwrite = fresh;
    cs_op_experts(stream, near_at(all->y), near_at(all->x), near_at(all->w), layout, &routing);
    cs_op_experts_grad_input(stream, near_at(all->dx), near_at(all->dy), near_at(all->w), layout, &routing);
    cs_op_experts_grad_weight(stream, near_at(all->dw), near_at(all->x), near_at(all->dy), layout, &routing);
    cs_op_experts_grad_weight(stream, (cs_tensor){ 0 }, near_at(all->x), near_at(all->dy), CS_OUT_IN,
                              &routing); /* frozen */
    near_fetch();
}

/* Adds the products of one slot of expert e to the results y, dx and dw. */
static void add_slot(double *y, double *dx, double *dw, const double *x, const double *dy, const double *w, shape s)
{
    for (int m = 0; m < s.m; m++)
        for (int k = 0; k < s.k; k++) {
            int at = s.turned ? k * s.m + m : m * s.k + k;
            y[m] += x[k] * w[at];
            dx[k] += dy[m] * w[at];
            dw[at] += dy[m] * x[k];
        }
}

static void check_layout(shape s, cs_dtype dtype, int shift, bool fresh)
{
    example all = make(s, dtype, shift);
    double *x = near_doubles(all.x), *w = near_doubles(all.w), *dy = near_doubles(all.dy);
    double *dw = near_doubles(all.dw), *y = calloc((size_t)(all.slots * s.m + 1), sizeof *y);
    double *dx = calloc((size_t)(all.slots * s.k + 1), sizeof *dx);
    for (int64_t i = 0; fresh && i < cs_count(all.dw); i++) {
        near_set(all.dw, i, NAN);
        dw[i] = 0;
    }
    run(&all, fresh);
    for (int e = 0; e < s.experts; e++)
        for (int64_t slot = first_slot(&all, e); slot < first_slot(&all, e + 1); slot++)
            add_slot(y + slot * s.m, dx + slot * s.k, dw + (int64_t)e * s.m * s.k, x + slot * s.k, dy + slot * s.m,
                     w + (int64_t)e * s.m * s.k, s);
    ck_assert(near_all("experts", all.y, y, 4e-6));
    ck_assert(near_all("experts_grad_input", all.dx, dx, 4e-6));
    ck_assert(near_all("experts_grad_weight", all.dw, dw, 4e-6));
    free(x), free(w), free(dy), free(dw), free(y), free(dx);
    drop(&all, shift);
}

static void check(shape s, cs_dtype dtype, int shift, bool fresh)
{
    check_layout(s, dtype, shift, fresh);
    s.turned = true;
    check_layout(s, dtype, shift, fresh);
}

/* Experts without slots, with fewer slots than a tile has rows, and with two tiles and one slot more. */
static const shape uneven = { 7, 7, { 0, 129, 3, 257, 16, 0, 45 }, 136, 200, false };

static const shape shapes[] = {
    { 4, 4, { 0, 0, 130, 0, false }, 264, 40, false },              /* one expert has all slots */
    { 40, 8, { 0, 17, 1, 16, 0, 33, 0, 2 }, 136, 72, false },       /* few slots for each expert */
    { 1024, 3, { 0, 2, 1, false }, 8, 16, false },                  /* as many experts as there can be */
    { 3, 1, { 0 }, 16, 24, false },                                 /* no slots at all */
    { 7, 7, { 0, 129, 3, 257, 16, 0, 45, false }, 17, 300, false }, /* rows that are not aligned to 16 bytes */
    { 7, 7, { 2, 65, 0, 64, 1, 0, 63, false }, 300, 33, false },
    { 7, 7, { 2, 65, 0, 64, 1, 0, 63, false }, 40, 17, false },
};
static const cs_dtype types[] = { CS_F32, CS_BF16, CS_F16 };

START_TEST(uneven_routings)
{
    open_device(2);
    for (int type = 0; type < 3; type++)
        for (int fresh = 0; fresh < 2; fresh++) {
            check(uneven, types[type], 0, fresh);
            for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
                check(shapes[i], types[type], 0, fresh);
        }
    near_close();
}
END_TEST

START_TEST(factors_need_no_alignment)
{
    static const shape s = { 3, 3, { 70, 0, 9 }, 24, 40, false };
    open_device(2);
    for (int type = 0; type < 3; type++)
        check(s, types[type], 1, true);
    near_close();
}
END_TEST

static void check_threads(cs_dtype dtype)
{
    example one = make(uneven, dtype, 0), other = make(uneven, dtype, 0);
    open_device(1);
    run(&one, true);
    near_close();
    for (int threads = 2; threads <= 5; threads += 3) {
        open_device(threads);
        run(&other, true);
        near_close();
        ck_assert(near_same_bits("experts", other.y, one.y));
        ck_assert(near_same_bits("experts_grad_input", other.dx, one.dx));
        ck_assert(near_same_bits("experts_grad_weight", other.dw, one.dw));
    }
    drop(&one, 0);
    drop(&other, 0);
}

START_TEST(threads_do_not_change_bits)
{
    for (int type = 0; type < 2; type++)
        check_threads(types[type]);
}
END_TEST

/* Checks that the first slots of expert 0 have the same bits if the expert has `few` slots and if it has `many`. A GPU
 * uses lower tiles if the experts have few slots. */
static void check_few(cs_dtype dtype, int few, int many)
{
    example alone = make((shape){ 1, 1, { few }, 264, 104, false }, dtype, 0);
    example among = make((shape){ 1, 1, { many }, 264, 104, false }, dtype, 0);
    run(&alone, true);
    run(&among, true);
    ck_assert(near_same_bits("experts", alone.y, among.y));
    ck_assert(near_same_bits("experts_grad_input", alone.dx, among.dx));
    drop(&alone, 0);
    drop(&among, 0);
}

START_TEST(other_slots_do_not_change_bits)
{
    open_device(1);
    for (int type = 0; type < 3 && !near_is_cpu(); type++)
        check_few(types[type], 9, 140);
    near_close();
}
END_TEST

START_TEST(experts_on_tiles)
{
    open_device(2);
    bool there = near_is_cpu();
    near_close();
    for (int type = 0; type < 2 && there; type++) {
        tiles = type ? CE_METHOD_TILES : CE_METHOD_X6;
        open_device(2);
        check(uneven, types[type], 0, false);
        check(shapes[1], types[type], 0, true);
        near_close();
        check_threads(types[type]);
    }
    tiles = CE_METHOD_FIXED;
}
END_TEST

SUITE_MAIN("expert_products", uneven_routings, factors_need_no_alignment, threads_do_not_change_bits,
           other_slots_do_not_change_bits, experts_on_tiles)
