/* bench_products.c - the matrix products of GPT-2 124M by each method: GFLOP/s of one of the threads that compute them
 * together, by its CPU time, the best of several rounds in which the methods alternate. Also prints the method that cspeed chooses by its
 * measurement at the start (device/products.h), and the time of that measurement.
 *
 *     bench_products [--precision fp32|bf16] [--tokens N] [--threads N] [--vocabulary N] [--rounds N] */
#include "bench.h"
#include "cspeed/ops.h"
#include "device/cpu/cpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int tokens = 1024, threads = 2, vocabulary = 50304, rounds = 5;

static cs_tensor nowhere(cs_dtype dtype, int64_t rows, int64_t columns)
{
    return cs_matrix((void *)64, dtype, rows, columns);
}

/* Calls the three products of a linear layer on a dry device. The device adds the products to its list and computes
 * nothing. */
static void list_linear(cs_stream *stream, cs_dtype dtype, int64_t inputs, int64_t outputs, cs_layout layout)
{
    cs_tensor x = nowhere(dtype, tokens, inputs), y = nowhere(dtype, tokens, outputs), none = { 0 };
    bool in_out = layout == CS_IN_OUT;
    cs_tensor weight = nowhere(dtype, in_out ? inputs : outputs, in_out ? outputs : inputs), grown = weight;
    grown.dtype = CS_F32;
    cs_op_matmul(stream, y, x, weight, in_out ? cs_vector((void *)64, dtype, outputs) : none, layout);
    cs_op_matmul_grad_input(stream, x, y, weight, layout);
    cs_op_matmul_grad_weight(stream, grown, none, x, y, layout);
}

/* Returns the CPU time of this thread or of the process, in seconds. */
static double cpu_seconds(clockid_t whose)
{
    struct timespec used;
    clock_gettime(whose, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static cs_tensor filled(cs_device *device, cs_dtype dtype, int64_t rows, int64_t columns)
{
    cs_tensor made =
        cs_matrix(ce_device_alloc(device, (size_t)(rows * columns) * cs_dtype_bytes(dtype)), dtype, rows, columns);
    ce_cpu_fill(device, made, 0.01f);
    return made;
}

static void bench(cs_device *device, const ce_product_use *use, unsigned methods, double *speed)
{
    ce_product_size size = ce_product_size_of(&use->of, use->tokens);
    bool ta = use->of.transpose_a, tb = use->of.transpose_b;
    ce_product product = { .c = filled(device, use->to, size.m, size.n),
                           .a = filled(device, use->dtype, ta ? size.k : size.m, ta ? size.m : size.k),
                           .b = filled(device, use->dtype, tb ? size.n : size.k, tb ? size.k : size.n),
                           .bias = use->bias ? filled(device, use->dtype, 1, size.n) : (cs_tensor){ 0 },
                           .transpose_a = ta,
                           .transpose_b = tb,
                           .add = use->add };
    if (use->bias)
        product.bias = cs_vector(product.bias.data, use->dtype, size.n);
    ce_panel panel = {
        ta, tb, size.m, size.n, size.k, cs_columns(product.a), cs_columns(product.b), size.n, use->add ? 1.0f : 0
    };
    double flops = 2e-9 * (double)panel.m * (double)panel.n * (double)panel.k / threads;
    memset(speed, 0, CE_METHODS * sizeof *speed);
    for (int round = 0; round <= rounds; round++)
        for (int method = CE_METHOD_NATIVE; method < CE_METHODS; method++) {
            if (!(methods & 1u << method))
                continue;
            double from = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
            ce_cpu_product_panel(device, &product, &panel, (ce_method)method);
            if (round > 0) /* round 0 warms up and is not measured */
                speed[method] = fmax(speed[method], flops / (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - from));
        }
    ce_device_free(device, product.a.data);
    ce_device_free(device, product.b.data);
    ce_device_free(device, product.c.data);
    if (use->bias)
        ce_device_free(device, product.bias.data);
}

static void bench_all(const ce_product_list *list, cs_dtype dtype)
{
    static ce_product_trial trial;
    static ce_product_choice choice;
    cs_device *device;
    CS_MUST(ce_device_open(&device, &(ce_device_settings){ .kind = "cpu", .threads = threads, .local_ranks = 1 }));
    trial = (ce_product_trial){ .list = list, .methods = ce_device_methods(device, dtype, false), .seconds = 0.05 };
    double from = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID);
    ce_device_try_products(device, &trial);
    double took = cpu_seconds(CLOCK_PROCESS_CPUTIME_ID) - from, share = ce_products_pick(&choice, &trial);
    printf(
        "%s; %s, %d tokens; measured at the start in %.1f ms of CPU time: roof %.1f GFLOP/s a thread, %.0f %% of it chosen\n",
        ce_device_products_on(device), dtype == CS_F32 ? "fp32" : "bf16", tokens, 1e3 * took, 1e-9 * trial.roof,
        100 * share);
    const char *names = "native  sgemm  packed   tiles      x6      x3";
    printf("%-14s  %s  %48s  %s\n", "", names, "the same at the start", "chosen (without: fixed)");
    for (int i = 0; i < list->count; i++) {
        const ce_product_class *of = &list->use[i].of;
        double speed[CE_METHODS];
        bench(device, &list->use[i], trial.methods, speed);
        printf("%c%c %5lldx%-5lld ", of->transpose_a ? 't' : 'n', of->transpose_b ? 't' : 'n', (long long)of->rows,
               (long long)of->columns);
        for (int method = CE_METHOD_NATIVE; method < CE_METHODS; method++)
            printf("  %6.1f", speed[method]);
        printf("  ");
        for (int method = CE_METHOD_NATIVE; method < CE_METHODS; method++)
            printf("  %6.1f", 1e-9 * trial.speed[i][method]);
        printf("   %s (%s)\n", ce_method_name(ce_products_method(&choice, of)), ce_method_name(trial.fixed[i]));
    }
    ce_device_close(device);
}

int main(int argc, char **argv)
{
    const char *precision = NULL;
    bench_arguments(argc, argv,
                    (const bench_option[]){ { "--precision", .word = &precision, .choices = "fp32|bf16" },
                                            { "--tokens", .number = &tokens, .min = 64, .max = 1 << 20 },
                                            { "--threads", .number = &threads, .min = 1, .max = 1024 },
                                            { "--vocabulary", .number = &vocabulary, .min = 64, .max = 1 << 24 },
                                            { "--rounds", .number = &rounds, .min = 1, .max = 1000 },
                                            { .name = NULL } });
    for (int dtype = CS_F32; dtype <= CS_BF16; dtype++) {
        if (precision && strcmp(precision, dtype == CS_F32 ? "fp32" : "bf16") != 0)
            continue;
        cs_device *dry;
        CS_MUST(ce_device_open(&dry, &(ce_device_settings){ .kind = "dry", .threads = 1 }));
        cs_stream *stream = ce_device_stream(dry, CE_COMPUTE);
        for (int layer = 0; layer < 12; layer++) {
            list_linear(stream, (cs_dtype)dtype, 768, 2304, CS_IN_OUT);
            list_linear(stream, (cs_dtype)dtype, 768, 768, CS_IN_OUT);
            list_linear(stream, (cs_dtype)dtype, 768, 3072, CS_IN_OUT);
            list_linear(stream, (cs_dtype)dtype, 3072, 768, CS_IN_OUT);
        }
        list_linear(stream, (cs_dtype)dtype, 768, vocabulary, CS_OUT_IN);
        bench_all(ce_device_product_list(dry), (cs_dtype)dtype);
        ce_device_close(dry);
    }
    return 0;
}
