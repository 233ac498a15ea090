/* softmax.c - the softmax of rows and its gradient, and the divergence of two rows of logits. Rows are independent. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

#include <math.h>

enum { MIN_ROWS = 4 };

typedef struct {
    cs_tensor y, x, dy;
    cs_softmax_scores scores;
} softmax_job;

/* Sets z to the elements of a row of x from column `at` on, times the factor and plus the bias. */
static void read_scores(float *restrict z, cs_tensor x, const cs_softmax_scores *scores, int64_t row, int64_t at,
                        int64_t count)
{
    int64_t columns = cs_columns(x);
    float wide[CE_CHUNK];
    ce_elements_scale(z, ce_elements_read(x, row * columns + at, count, wide), scores->factor, count);
    if (!scores->bias.data)
        return;
    int64_t bias_row = row / scores->each % cs_rows(scores->bias);
    ce_elements_add(z, ce_elements_read(scores->bias, bias_row * columns + at, count, wide), count);
}

/* Replaces the scores of a chunk by e^(score - shift) and returns their sum. */
static float powers(float *z, int64_t count, float shift)
{
    return ce_elements_exp(z, count, 1, shift);
}

/* Returns the greatest score of a row, or 0 if it is infinite, and the sum of the powers. */
static float row_shift(cs_tensor x, const cs_softmax_scores *scores, int64_t row, double *sum)
{
    int64_t columns = cs_columns(x);
    float z[CE_CHUNK], max = -INFINITY;
    for (int64_t at = 0; at < columns; at += CE_CHUNK) {
        int64_t count = ce_elements_chunk(at, columns);
        read_scores(z, x, scores, row, at, count);
        max = fmaxf(max, ce_elements_max(z, count));
    }
    max = isfinite(max) ? max : 0;
    *sum = 0;
    for (int64_t at = 0; at < columns; at += CE_CHUNK) {
        int64_t count = ce_elements_chunk(at, columns);
        read_scores(z, x, scores, row, at, count);
        *sum += (double)powers(z, count, max);
    }
    return max;
}

static void softmax_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const softmax_job *all = argument;
    int64_t columns = cs_columns(all->x);
    float z[CE_CHUNK];
    for (int64_t row = range.from; row < range.to; row++) {
        double sum;
        float max = row_shift(all->x, &all->scores, row, &sum), inverse = (float)(1 / sum);
        for (int64_t at = 0; at < columns; at += CE_CHUNK) {
            int64_t count = ce_elements_chunk(at, columns);
            read_scores(z, all->x, &all->scores, row, at, count);
            powers(z, count, max);
            for (int64_t i = 0; i < count; i++)
                z[i] *= inverse;
            ce_elements_write(all->y, row * columns + at, count, z);
        }
    }
}

void ce_cpu_softmax(cs_device *device, cs_tensor y, cs_tensor x, cs_softmax_scores scores)
{
    ce_cpu_walk(device, cs_rows(x), MIN_ROWS, softmax_rows, &(softmax_job){ .y = y, .x = x, .scores = scores });
}

static void slope_chunk(float *restrict out, const float *restrict dy, const float *restrict y, int64_t count,
                        float mean)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = y[i] * (dy[i] - mean);
}

static void softmax_grad_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const softmax_job *all = argument;
    int64_t columns = cs_columns(all->y);
    float wide_y[CE_CHUNK], wide_dy[CE_CHUNK], out[CE_CHUNK];
    for (int64_t row = range.from; row < range.to; row++) {
        double mean = 0;
        for (int64_t pass = 0; pass < 2; pass++)
            for (int64_t at = 0; at < columns; at += CE_CHUNK) {
                int64_t count = ce_elements_chunk(at, columns), place = row * columns + at;
                const float *y = ce_elements_read(all->y, place, count, wide_y);
                const float *dy = ce_elements_read(all->dy, place, count, wide_dy);
                if (pass == 0) {
                    mean += (double)ce_elements_dot(dy, y, count);
                    continue;
                }
                slope_chunk(out, dy, y, count, (float)mean);
                ce_elements_write(all->x, place, count, out);
            }
    }
}

void ce_cpu_softmax_grad(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor y)
{
    ce_cpu_walk(device, cs_rows(y), MIN_ROWS, softmax_grad_rows, &(softmax_job){ .x = dx, .y = y, .dy = dy });
}

/* ---- the divergence of two rows of logits ---- */

typedef struct {
    cs_tensor loss, y, target, dy; /* in forward, `loss` is the output; in backward, it is the gradient of the loss */
} divergence_job;

/* Replaces the logits of a chunk by their probabilities, and returns the sum of the chunk's terms p_t (log p_t - log
 * p_y). A probability of 0 adds 0. `lse_y` and `lse_t` are the logarithms of the sums of powers. */
static double divergence_chunk(float *restrict y, float *restrict t, int64_t count, float lse_y, float lse_t)
{
    float terms[CE_CHUNK];
    for (int64_t i = 0; i < count; i++) {
        float log_y = y[i] - lse_y, log_t = t[i] - lse_t;
        y[i] = ce_elements_exp_one(log_y);
        t[i] = ce_elements_exp_one(log_t);
        terms[i] = t[i] == 0 ? 0 : t[i] * (log_t - log_y);
    }
    return (double)ce_elements_sum(terms, count);
}

static void divergence_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const divergence_job *all = argument;
    const cs_softmax_scores plain = { .factor = 1 };
    int64_t columns = cs_columns(all->y);
    float y[CE_CHUNK], t[CE_CHUNK], *loss = all->loss.data;
    for (int64_t row = range.from; row < range.to; row++) {
        double sum_y, sum_t, sum = 0;
        float lse_y = row_shift(all->y, &plain, row, &sum_y), lse_t = row_shift(all->target, &plain, row, &sum_t);
        lse_y += (float)log(sum_y), lse_t += (float)log(sum_t);
        for (int64_t at = 0; at < columns; at += CE_CHUNK) {
            int64_t count = ce_elements_chunk(at, columns);
            read_scores(y, all->y, &plain, row, at, count);
            read_scores(t, all->target, &plain, row, at, count);
            sum += divergence_chunk(y, t, count, lse_y, lse_t);
            if (!all->dy.data)
                continue;
            for (int64_t i = 0; i < count; i++)
                y[i] = loss[row] * (y[i] - t[i]);
            ce_elements_write(all->dy, row * columns + at, count, y);
        }
        if (!all->dy.data)
            loss[row] = (float)sum;
    }
}

void ce_cpu_divergence(cs_device *device, cs_tensor loss, cs_tensor y, cs_tensor target)
{
    ce_cpu_walk(device, cs_rows(y), MIN_ROWS, divergence_rows, &(divergence_job){ loss, y, target, { 0 } });
}

void ce_cpu_divergence_grad(cs_device *device, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target)
{
    ce_cpu_walk(device, cs_rows(y), MIN_ROWS, divergence_rows, &(divergence_job){ dloss, y, target, dy });
}
