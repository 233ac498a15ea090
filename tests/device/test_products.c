/* test_products.c - the methods of matrix products: every operation by each of them, the list of a model's products,
 * the choice as text, the choice from speeds, and the measurement. */
#include "near.h"
#include "reference.h"
#include "suite.h"

#include "cspeed/ops.h"
#include "device/products.h"
#include "device/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 4 };

static cs_device *device;

static void open_device(const char *kind, int threads)
{
    CS_MUST(ce_device_open(&device, &(ce_device_settings){ .kind = kind, .threads = threads, .local_ranks = 1 }));
}

/* ---- operations by each method ---- */

typedef struct {
    cs_dtype dtype;
    int rows, inputs, outputs;
    cs_layout layout;
} linear;

static ce_method method;

/* Returns the allowed error, in addition to the error of rounding the result once. */
static double tolerance(cs_dtype dtype)
{
    return method == CE_METHOD_X3 ? 3e-5 : dtype == CS_F32 ? 2e-6 : 1e-6;
}

static void check_forward(const linear *l, cs_tensor x, cs_tensor w, cs_tensor bias)
{
    cs_tensor y = near_random(l->dtype, l->rows, l->outputs, 4, 1);
    double *a = near_doubles(x), *b = near_doubles(w), *add = near_doubles(bias);
    double *want = calloc((size_t)(l->rows * l->outputs), sizeof *want);
    reference_product(want, a, b, add,
                      (reference_shape){ l->rows, l->outputs, l->inputs, .transpose_b = l->layout == CS_OUT_IN });
    bias = cs_vector(bias.data, l->dtype, l->outputs);
    cs_op_matmul(ce_device_stream(device, CE_COMPUTE), y, x, w, bias, l->layout);
    ck_assert(near_all("forward", y, want, tolerance(l->dtype)));
    free(a), free(b), free(add), free(want);
    near_free(y);
}

static void check_grad_input(const linear *l, cs_tensor dy, cs_tensor w)
{
    cs_tensor dx = near_random(l->dtype, l->rows, l->inputs, 5, 1);
    double *a = near_doubles(dy), *b = near_doubles(w);
    double *want = calloc((size_t)(l->rows * l->inputs), sizeof *want);
    reference_product(want, a, b, NULL,
                      (reference_shape){ l->rows, l->inputs, l->outputs, .transpose_b = l->layout == CS_IN_OUT });
    cs_op_matmul_grad_input(ce_device_stream(device, CE_COMPUTE), dx, dy, w, l->layout);
    ck_assert(near_all("gradient of the input", dx, want, tolerance(l->dtype)));
    free(a), free(b), free(want);
    near_free(dx);
}

static void check_grad_weight(const linear *l, cs_tensor x, cs_tensor dy, bool add)
{
    bool in_out = l->layout == CS_IN_OUT;
    int rows = in_out ? l->inputs : l->outputs, columns = in_out ? l->outputs : l->inputs;
    cs_tensor dw = near_random(CS_F32, rows, columns, 6, 1), none = { 0 };
    double *a = near_doubles(in_out ? x : dy), *b = near_doubles(in_out ? dy : x), *want = near_doubles(dw);
    reference_product(want, a, b, NULL, (reference_shape){ rows, columns, l->rows, .transpose_a = true, .add = add });
    dw.overwrite = !add;
    cs_op_matmul_grad_weight(ce_device_stream(device, CE_COMPUTE), dw, none, x, dy, l->layout);
    ck_assert(near_all("gradient of the weight", dw, want, tolerance(CS_F32)));
    free(a), free(b), free(want);
    near_free(dw);
}

static void check_linear(linear l)
{
    bool in_out = l.layout == CS_IN_OUT;
    cs_tensor x = near_random(l.dtype, l.rows, l.inputs, 1, 1), dy = near_random(l.dtype, l.rows, l.outputs, 2, 1);
    cs_tensor w = near_random(l.dtype, in_out ? l.inputs : l.outputs, in_out ? l.outputs : l.inputs, 3, 1);
    cs_tensor bias = near_random(l.dtype, 1, l.outputs, 7, 1);
    check_forward(&l, x, w, bias);
    check_grad_input(&l, dy, w);
    check_grad_weight(&l, x, dy, false);
    check_grad_weight(&l, x, dy, true);
    near_free(x), near_free(dy), near_free(w), near_free(bias);
}

static void check_method(cs_dtype dtype)
{
    static const int sizes[][3] = { { 1, 1, 1 },     { 7, 9, 17 },    { 65, 129, 63 },
                                    { 97, 300, 33 }, { 19, 40, 601 }, { 401, 31, 130 } };
    ce_device_use_products(device, &(ce_product_choice){ .dtype = dtype, .others = method });
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int layout = CS_IN_OUT; layout <= CS_OUT_IN; layout++)
            check_linear((linear){ dtype, sizes[i][0], sizes[i][1], sizes[i][2], (cs_layout)layout });
}

START_TEST(every_method_multiplies)
{
    for (int threads = 1; threads <= MAX_THREADS; threads++) {
        open_device("cpu", threads);
        for (int dtype = CS_F32; dtype <= CS_F16; dtype++)
            for (method = CE_METHOD_FIXED; method < CE_METHODS; method++)
                if (ce_device_methods(device, (cs_dtype)dtype, true) & 1u << method)
                    check_method((cs_dtype)dtype);
                else if (threads == 1)
                    printf("type %d by method %s is skipped: this CPU or build does not have it\n", dtype,
                           ce_method_name((ce_method)method));
        ce_device_close(device);
    }
}
END_TEST

/* ---- the list of a dry device ---- */

static cs_tensor nowhere(cs_dtype dtype, int64_t rows, int64_t columns)
{
    return cs_matrix((void *)64, dtype, rows, columns);
}

static void multiply_nowhere(int64_t rows, int64_t outputs)
{
    cs_stream *stream = ce_device_stream(device, CE_COMPUTE);
    cs_tensor x = nowhere(CS_BF16, rows, 10), y = nowhere(CS_BF16, rows, outputs), none = { 0 };
    cs_tensor bias = cs_vector((void *)64, CS_BF16, outputs);
    cs_op_matmul(stream, y, x, nowhere(CS_BF16, 10, outputs), bias, CS_IN_OUT);
    cs_op_matmul_grad_input(stream, x, y, nowhere(CS_BF16, 10, outputs), CS_IN_OUT);
    cs_op_matmul_grad_weight(stream, nowhere(CS_F32, 10, outputs), none, x, y, CS_IN_OUT);
}

static void check_use(const ce_product_use *use, const ce_product_use *want)
{
    ck_assert(use->of.transpose_a == want->of.transpose_a && use->of.transpose_b == want->of.transpose_b);
    ck_assert(use->of.rows == want->of.rows && use->of.columns == want->of.columns);
    ck_assert(use->dtype == want->dtype && use->to == want->to && use->add == want->add && use->bias == want->bias);
    ck_assert_int_eq(use->tokens, want->tokens);
    ck_assert_double_eq(use->flops, want->flops);
}

START_TEST(a_dry_device_lists_products)
{
    open_device("dry", 1);
    const ce_product_list *list = ce_device_product_list(device);
    ck_assert_int_eq(list->count, 0);
    multiply_nowhere(30, 20);
    multiply_nowhere(50, 20);
    ck_assert_int_eq(list->count, 3);
    double flops = 2.0 * 10 * 20 * (30 + 50);
    check_use(&list->use[0], &(ce_product_use){ { false, false, 10, 20 }, CS_BF16, CS_BF16, false, true, 50, flops });
    check_use(&list->use[1], &(ce_product_use){ { false, true, 20, 10 }, CS_BF16, CS_BF16, false, false, 50, flops });
    check_use(&list->use[2], &(ce_product_use){ { true, false, 10, 20 }, CS_BF16, CS_F32, true, false, 50, flops });
    ce_product_size size = ce_product_size_of(&list->use[1].of, 50);
    ck_assert(size.m == 50 && size.n == 10 && size.k == 20);
    size = ce_product_size_of(&list->use[2].of, 50);
    ck_assert(size.m == 10 && size.n == 20 && size.k == 50);
    for (int i = 1; i < CE_PRODUCTS; i++)
        multiply_nowhere(30, 20 + i);
    ck_assert_int_eq(list->count, CE_PRODUCTS); /* classes that do not fit into the list are left out */
    ck_assert_uint_eq(ce_device_methods(device, CS_F32, true), 0);
    ck_assert_ptr_null(ce_device_products(device));
    ck_assert_str_eq(ce_device_products_on(device), "");
    ce_device_use_products(device, &(ce_product_choice){ 0 }); /* has no effect on a dry device */
    ce_device_close(device);
    open_device("cpu", 1);
    ck_assert_ptr_null(ce_device_product_list(device));
    ce_device_close(device);
}
END_TEST

/* ---- text ---- */

START_TEST(a_choice_is_read_as_it_is_printed)
{
    static const char text[] =
        "bf16: nn 768x2304 native, nt 2304x768 sgemm, tn 768x50304 packed, nn 1x1 tiles, nn 1x2 x6, nn 1x3 x3, "
        "others fixed";
    static const char *const bad[] = {
        "",
        "bf16",
        "bf16: ",
        "bf17: others fixed",
        "bf16: others quick",
        "bf16: others fixed ",
        "bf16: others",
        "bf16: nn 768x2304 native",
        "bf16: nn 768x2304 native, others fixe",
        "bf16: nx 768x2304 native, others fixed",
        "bf16: nn 0x2304 native, others fixed",
        "bf16: nn 768x native, others fixed",
        "bf16: nn 768x2304 quick, others fixed",
        "bf16: nn 768x2304 native, nn 768x2304 native, others fixed",
        "bf16: nn 99999999999999999999x1 native, others fixed",
    };
    char again[CE_PRODUCTS_TEXT];
    ce_product_choice choice, full = { .dtype = CS_F16 };
    ck_assert(ce_products_read(&choice, text));
    ce_products_print(again, &choice);
    ck_assert_str_eq(again, text);
    ck_assert(choice.dtype == CS_BF16 && choice.count == 6 && choice.others == CE_METHOD_FIXED);
    ck_assert_int_eq(ce_products_method(&choice, &(ce_product_class){ false, true, 2304, 768 }), CE_METHOD_SGEMM);
    ck_assert_int_eq(ce_products_method(&choice, &(ce_product_class){ true, true, 2304, 768 }), CE_METHOD_FIXED);
    ck_assert_uint_eq(ce_products_methods(&choice), (1u << CE_METHODS) - 1);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!ce_products_read(&choice, bad[i]), "read: %s", bad[i]);
    for (full.count = 0; full.count < CE_PRODUCTS; full.count++) {
        full.entry[full.count].of = (ce_product_class){ true, false, INT64_MAX - full.count, INT64_MAX };
        full.entry[full.count].method = CE_METHOD_PACKED;
    }
    ce_products_print(again, &full); /* the longest possible text */
    ck_assert(ce_products_read(&choice, again) && choice.count == CE_PRODUCTS && choice.dtype == CS_F16);
}
END_TEST

/* ---- the choice from speeds ---- */

static const ce_product_list three = {
    .use = { { { false, false, 10, 20 }, CS_F32, CS_F32, false, false, 8, 300 },
             { { false, false, 10, 30 }, CS_F32, CS_F32, false, false, 8, 100 },
             { { true, false, 10, 20 }, CS_F32, CS_F32, false, false, 8, 200 } },
    .count = 3,
};

static ce_method picked(const ce_product_choice *choice, int index)
{
    return ce_products_method(choice, &three.use[index].of);
}

START_TEST(the_fastest_is_picked_if_it_gains_enough)
{
    static ce_product_trial trial;
    ce_product_choice choice = { .dtype = CS_F32 };
    trial = (ce_product_trial){ .list = &three, .methods = (1u << CE_METHODS) - 1, .roof = 200 };
    for (int i = 0; i < 3; i++)
        trial.fixed[i] = CE_METHOD_SGEMM;
    ck_assert(ce_products_pick(&choice, &trial) == 0 && choice.count == 0); /* no speed is measured */
    trial.speed[0][CE_METHOD_SGEMM] = 100;
    trial.speed[0][CE_METHOD_NATIVE] = 109;
    trial.speed[2][CE_METHOD_SGEMM] = 100;
    trial.speed[2][CE_METHOD_PACKED] = 111;
    trial.speed[2][CE_METHOD_NATIVE] = 110;
    trial.fixed[1] = CE_METHOD_PACKED;
    double share = ce_products_pick(&choice, &trial);
    ck_assert_int_eq(picked(&choice, 0), CE_METHOD_SGEMM);
    /* Class 1 was not measured. The similar class 0 keeps its FIXED method, so class 1 keeps its own FIXED method. */
    ck_assert_int_eq(picked(&choice, 1), CE_METHOD_PACKED);
    ck_assert_int_eq(picked(&choice, 2), CE_METHOD_PACKED);
    ck_assert_double_eq_tol(share, 600 / (300 / 100.0 + 100 / 100.0 + 200 / 111.0) / 200, 1e-12);
    trial.speed[0][CE_METHOD_NATIVE] = 111;
    ce_products_pick(&choice, &trial);
    ck_assert_int_eq(picked(&choice, 0), CE_METHOD_NATIVE);
    ck_assert_int_eq(picked(&choice, 1), CE_METHOD_NATIVE); /* not measured, so it gets the method of class 0 */
    ck_assert_int_eq(choice.others, CE_METHOD_FIXED);
    trial.methods &= ~(1u << CE_METHOD_PACKED);
    ce_products_pick(&choice, &trial);
    /* FIXED may stand for PACKED, and some rank lacks PACKED, so `others` is not FIXED */
    ck_assert_int_eq(choice.others, CE_METHOD_SGEMM);
}
END_TEST

/* ---- the measurement ---- */

static void check_trial(cs_dtype dtype, unsigned methods)
{
    static ce_product_trial trial;
    static ce_product_list list;
    ce_product_choice choice = { .dtype = dtype };
    list = (ce_product_list){ .count = 3 };
    list.use[0] = (ce_product_use){ { false, false, 70, 5000 }, dtype, dtype, false, true, 90, 3 };
    list.use[1] = (ce_product_use){ { false, true, 5000, 70 }, dtype, dtype, false, false, 90, 2 };
    list.use[2] = (ce_product_use){ { true, false, 70, 5000 }, dtype, CS_F32, true, false, 90, 1 };
    trial = (ce_product_trial){ .list = &list, .methods = methods, .seconds = 10 };
    ce_device_try_products(device, &trial);
    ck_assert_uint_eq(ce_device_allocated(device), 0);
    for (int how = CE_METHOD_NATIVE; how < CE_METHODS; how++)
        ck_assert((trial.speed[0][how] > 0) == (methods >> how & 1));
    double share = ce_products_pick(&choice, &trial);
    ck_assert(share > 0 && share <= 1);
    ck_assert_int_eq(choice.count, 3);
    ck_assert((ce_products_methods(&choice) & ~methods) == 0);
}

START_TEST(methods_are_measured)
{
    for (int threads = 1; threads <= 2; threads++) {
        open_device("cpu", threads);
        ck_assert_ptr_nonnull(strstr(ce_device_products_on(device), "oneDNN "));
        for (int dtype = CS_F32; dtype <= CS_F16; dtype++)
            check_trial((cs_dtype)dtype, ce_device_methods(device, (cs_dtype)dtype, false));
        check_trial(CS_F32, 1u << CE_METHOD_FIXED | 1u << CE_METHOD_SGEMM);
        ck_assert_int_eq(ce_device_products(device)->count, 0); /* a measurement alone does not choose methods */
        ce_device_close(device);
    }
}
END_TEST

SUITE_MAIN("products", every_method_multiplies, a_dry_device_lists_products, a_choice_is_read_as_it_is_printed,
           the_fastest_is_picked_if_it_gains_enough, methods_are_measured)
