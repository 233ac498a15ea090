/* bench_four_bit.c - products with a weight of 4 bits compared with products with the same weight in bf16, on a CPU, with
 * the shape of a Llama 7B's gate projection: forward (y = x W^T) and the gradient of the input (dx = dy W). As in
 * layer/linear.c, the weight is dequantised in panels of at most 32 MB. Both are measured alternately; the last column is
 * the median of the ratios of their speeds, with the least and the greatest.
 *
 *     bench_four_bit [THREADS [TOKENS [ROUNDS]]] */
#include "bench.h"
#include "base/clock.h"
#include "base/four_bit.h"
#include "base/must.h"
#include "base/range.h"
#include "device/device.h"
#include "device/products.h"
#include "cspeed/ops.h"

#include <math.h>
#include <stdio.h>

enum { INPUTS = 4096, OUTPUTS = 11008, PANEL = (32 << 20) / 2, ROUNDS = 101 };

static cs_device *device;
static cs_stream *stream;
static cs_tensor x, y, weight, panel;
static cs_four_bit packed;

static cs_tensor make(cs_dtype dtype, int64_t rows, int64_t columns)
{
    cs_tensor made = cs_matrix(NULL, dtype, rows, columns);
    made.data = ce_device_alloc(device, (size_t)cs_count(made) * cs_dtype_bytes(dtype));
    return made;
}

static int64_t step_of(int64_t count, int64_t width)
{
    int64_t chunks = ce_divide_up(count, PANEL / width / 64 * 64);
    return ce_round_up(ce_divide_up(count, chunks), 64);
}

static void dense(bool forward)
{
    if (forward)
        cs_op_matmul(stream, y, x, weight, (cs_tensor){ 0 }, CS_OUT_IN);
    else
        cs_op_matmul_grad_input(stream, x, y, weight, CS_OUT_IN);
}

static void quantised(bool forward)
{
    int64_t count = forward ? OUTPUTS : INPUTS, step = step_of(count, forward ? INPUTS : OUTPUTS);
    for (int64_t at = 0; at < count; at += step) {
        int64_t some = at + step < count ? step : count - at;
        cs_tensor part = cs_matrix(panel.data, CS_BF16, forward ? some : OUTPUTS, forward ? INPUTS : some);
        cs_op_dequantize(stream, part, &packed, forward ? at : 0, forward ? 0 : at);
        if (forward)
            cs_op_matmul_columns(stream, y, at, x, part, (cs_tensor){ 0 }, CS_OUT_IN);
        else
            cs_op_matmul_grad_input_columns(stream, x, at, y, part, CS_OUT_IN);
    }
}

static double seconds_of(void (*run)(bool forward), bool forward)
{
    double from = ce_clock_seconds();
    run(forward);
    ce_stream_sync(stream);
    return ce_clock_seconds() - from;
}

static void measure(bool forward, int rounds, double flops)
{
    double ratio[ROUNDS], best[2] = { INFINITY, INFINITY };
    for (int i = -1; i < rounds; i++) {
        double numbers = seconds_of(dense, forward), codes = seconds_of(quantised, forward);
        if (i < 0) /* the first products prepare oneDNN's primitives */
            continue;
        ratio[i] = numbers / codes;
        best[0] = numbers < best[0] ? numbers : best[0];
        best[1] = codes < best[1] ? codes : best[1];
    }
    bench_sort(ratio, rounds);
    printf("%-8s bf16 %7.1f GFLOP/s   nf4 %7.1f GFLOP/s   nf4 / bf16 %.2f (%.2f to %.2f)\n", forward ? "forward" : "dx",
           flops / best[0] / 1e9, flops / best[1] / 1e9, ratio[rounds / 2], ratio[0], ratio[rounds - 1]);
}

int main(int count, char **arguments)
{
    int threads = 1, tokens = 512, rounds = 11;
    const bench_option options[] = { { "THREADS", .number = &threads, .min = 1, .max = 1024 },
                                     { "TOKENS", .number = &tokens, .min = 1, .max = 1 << 20 },
                                     { "ROUNDS", .number = &rounds, .min = 1, .max = ROUNDS },
                                     { 0 } };
    bench_arguments(count, arguments, options);
    CS_MUST(ce_device_open(&device, &(ce_device_settings){ .kind = "cpu", .threads = threads, .local_ranks = 1 }));
    stream = ce_device_stream(device, CE_COMPUTE);
    ce_product_choice choice = { .dtype = CS_BF16, .others = CE_METHOD_NATIVE };
    if (ce_device_methods(device, CS_BF16, false) & 1u << CE_METHOD_NATIVE)
        ce_device_use_products(device, &choice);
    x = make(CS_BF16, tokens, INPUTS);
    y = make(CS_BF16, tokens, OUTPUTS);
    weight = make(CS_BF16, OUTPUTS, INPUTS);
    panel = make(CS_BF16, 1, PANEL);
    int64_t blocks = (int64_t)OUTPUTS * INPUTS / CE_FOUR_BIT_BLOCK, groups = ce_divide_up(blocks, CE_FOUR_BIT_GROUP);
    packed = (cs_four_bit){ .rows = OUTPUTS,
                            .columns = INPUTS,
                            .codes = make(CS_F32, OUTPUTS, INPUTS / 8).data,
                            .absmax = make(CS_F32, 1, blocks / 4).data,
                            .nested = make(CS_F32, 1, groups + 1).data };
    cs_op_fill(stream, x, 0.5f);
    cs_op_fill(stream, weight, 0.25f);
    measure(true, rounds, 2.0 * tokens * OUTPUTS * INPUTS);
    measure(false, rounds, 2.0 * tokens * OUTPUTS * INPUTS);
    ce_device_close(device);
    return 0;
}
