/* softmax.cu - the softmax of rows and its gradient, and the divergence of two rows of logits.
 *
 * A block computes one row. It reads the row once for the maximum, once for the sum of the powers and once for the result;
 * after the first time, the row is in the L2 cache. */
#include "device/cuda/run.cuh"

#include <math.h>

/* The scores factor x + bias of a matrix. If bias.data is NULL, there is no bias. */
struct row_scores {
    ce_view x, bias;
    float factor;
    int64_t columns, bias_rows, each;
};

static row_scores scores_of(cs_tensor x, cs_softmax_scores given)
{
    return row_scores{
        ce_run_view(x), ce_run_view(given.bias), given.factor, cs_columns(x), given.bias.data ? cs_rows(given.bias) : 1,
        given.each
    };
}

static __device__ int64_t first_run()
{
    return (int64_t)threadIdx.x * CE_RUN;
}

static __device__ int64_t run_step()
{
    return (int64_t)blockDim.x * CE_RUN;
}

/* Reads eight scores of a row. Scores behind the last are -infinity. */
static __device__ void read_scores(float *z, const row_scores &scores, int64_t row, int64_t at)
{
    ce_range within = { 0, scores.columns };
    float bias[CE_RUN] = {};
    ce_run_read(z, ce_run_from(scores.x, row * scores.columns), at, within);
    if (scores.bias.data)
        ce_run_read(bias, ce_run_from(scores.bias, row / scores.each % scores.bias_rows * scores.columns), at, within);
    for (int i = 0; i < CE_RUN; i++)
        z[i] = ce_run_has(at + i, within) ? scores.factor * z[i] + bias[i] : -INFINITY;
}

/* What a row's powers are divided by: e^(score - shift) / sum. The greatest score is the shift, but 0 if it is infinite. */
struct row_facts {
    float shift, sum;
};

static __device__ row_facts facts_of(const row_scores &scores, int64_t row, float *scratch)
{
    float z[CE_RUN], max = -INFINITY, sum = 0;
    for (int64_t at = first_run(); at < scores.columns; at += run_step()) {
        read_scores(z, scores, row, at);
        for (int i = 0; i < CE_RUN; i++)
            max = fmaxf(max, z[i]);
    }
    max = ce_block_max(max, scratch);
    max = isfinite(max) ? max : 0;
    for (int64_t at = first_run(); at < scores.columns; at += run_step()) {
        read_scores(z, scores, row, at);
        for (int i = 0; i < CE_RUN; i++)
            sum += expf(z[i] - max);
    }
    return row_facts{ max, ce_block_sum(sum, scratch) };
}

static __global__ void __launch_bounds__(CE_RUN_THREADS) softmax_rows(ce_view y, row_scores scores, int64_t rows)
{
    CE_SHARED float scratch[CE_RUN_THREADS / CE_WARP];
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        row_facts facts = facts_of(scores, row, scratch);
        float inverse = 1 / facts.sum;
        for (int64_t at = first_run(); at < scores.columns; at += run_step()) {
            float z[CE_RUN];
            read_scores(z, scores, row, at);
            for (int i = 0; i < CE_RUN; i++)
                z[i] = expf(z[i] - facts.shift) * inverse;
            ce_run_store(ce_run_from(y, row * scores.columns), at, ce_range{ 0, scores.columns }, z);
        }
    }
}

extern "C" void ce_cuda_softmax(cs_device *device, cs_tensor y, cs_tensor x, cs_softmax_scores scores)
{
    ce_launch(ce_cuda_compute(device), ce_run_rows_shape(cs_rows(x), cs_columns(x)), softmax_rows, ce_run_view(y),
              scores_of(x, scores), cs_rows(x));
}

static __global__ void __launch_bounds__(CE_RUN_THREADS)
    softmax_grad_rows(ce_view ds, ce_view dy, ce_view y, int64_t rows, int64_t columns)
{
    CE_SHARED float scratch[CE_RUN_THREADS / CE_WARP];
    ce_range within = { 0, columns };
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        ce_view row_y = ce_run_from(y, row * columns), row_dy = ce_run_from(dy, row * columns);
        float wide[CE_RUN], slope[CE_RUN], mean = 0;
        for (int64_t at = first_run(); at < columns; at += run_step()) {
            ce_run_read(wide, row_y, at, within);
            ce_run_read(slope, row_dy, at, within);
            for (int i = 0; i < CE_RUN; i++)
                mean += wide[i] * slope[i];
        }
        mean = ce_block_sum(mean, scratch);
        for (int64_t at = first_run(); at < columns; at += run_step()) {
            ce_run_read(wide, row_y, at, within);
            ce_run_read(slope, row_dy, at, within);
            for (int i = 0; i < CE_RUN; i++)
                slope[i] = wide[i] * (slope[i] - mean);
            ce_run_store(ce_run_from(ds, row * columns), at, within, slope);
        }
    }
}

extern "C" void ce_cuda_softmax_grad(cs_device *device, cs_tensor ds, cs_tensor dy, cs_tensor y)
{
    ce_launch(ce_cuda_compute(device), ce_run_rows_shape(cs_rows(y), cs_columns(y)), softmax_grad_rows, ce_run_view(ds),
              ce_run_view(dy), ce_run_view(y), cs_rows(y), cs_columns(y));
}

/* ---- the divergence; in forward, dy is absent and `loss` is the output, in backward the gradient of the loss ---- */

static __global__ void __launch_bounds__(CE_RUN_THREADS)
    divergence_rows(float *loss, ce_view dy, row_scores logits, row_scores target, int64_t rows)
{
    CE_SHARED float scratch[CE_RUN_THREADS / CE_WARP];
    ce_range within = { 0, logits.columns };
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        row_facts of_y = facts_of(logits, row, scratch), of_t = facts_of(target, row, scratch);
        float lse_y = of_y.shift + logf(of_y.sum), lse_t = of_t.shift + logf(of_t.sum), sum = 0;
        for (int64_t at = first_run(); at < logits.columns; at += run_step()) {
            float y[CE_RUN], t[CE_RUN];
            read_scores(y, logits, row, at);
            read_scores(t, target, row, at);
            for (int i = 0; i < CE_RUN; i++) {
                float log_y = y[i] - lse_y, log_t = t[i] - lse_t, p = expf(log_t);
                sum += p == 0 ? 0 : p * (log_t - log_y);
                y[i] = dy.data ? loss[row] * (expf(log_y) - p) : 0;
            }
            if (dy.data)
                ce_run_store(ce_run_from(dy, row * logits.columns), at, within, y);
        }
        sum = ce_block_sum(sum, scratch);
        if (!dy.data && threadIdx.x == 0)
            loss[row] = sum;
    }
}

static void divergence(cs_device *device, cs_tensor loss, cs_tensor y, cs_tensor target, cs_tensor dy)
{
    cs_softmax_scores plain = { 1, {}, 1 };
    ce_launch(ce_cuda_compute(device), ce_run_rows_shape(cs_rows(y), cs_columns(y)), divergence_rows,
              (float *)loss.data, ce_run_view(dy), scores_of(y, plain), scores_of(target, plain), cs_rows(y));
}

extern "C" void ce_cuda_divergence(cs_device *device, cs_tensor loss, cs_tensor y, cs_tensor target)
{
    divergence(device, loss, y, target, cs_tensor{});
}

extern "C" void ce_cuda_divergence_grad(cs_device *device, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target)
{
    divergence(device, dloss, y, target, dy);
}
