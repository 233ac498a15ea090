/* loss.c - cross-entropy over a large vocabulary, and losses of elements. Rows are independent. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"
#include "device/need.h"

#include <math.h>

typedef struct {
    cs_tensor loss, x;
    cs_tensor targets, dloss;
    int64_t classes; /* number of columns of x that are logits; the columns after them are padding */
    int64_t first;   /* the number of the first column of x among the columns of all ranks */
    cs_tensor facts, hits;
    cs_entropy_terms terms;
} loss_job;

static int64_t target_of(const loss_job *all, int64_t row)
{
    return ((const int32_t *)all->targets.data)[row];
}

static void softmax_chunk(float *restrict out, const float *restrict x, int64_t count, float lse, float scale)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = ce_elements_exp_one(x[i] - lse) * scale;
}

/* Returns the greatest of the first `width` logits of a row. */
static float row_max(const loss_job *all, int64_t row, int64_t width)
{
    int64_t first = row * cs_columns(all->x);
    float wide[CE_CHUNK], max = -INFINITY;
    for (int64_t from = 0; from < width; from += CE_CHUNK) {
        int64_t count = ce_elements_chunk(from, width);
        max = fmaxf(max, ce_elements_max(ce_elements_read(all->x, first + from, count, wide), count));
    }
    return max;
}

/* Returns what is subtracted from the logits before the exponential is computed. An infinite maximum is not subtracted,
 * because inf - inf is NaN. The sum is then 0 or inf, and its logarithm is -inf or inf, respectively. */
static float shift_of(float max)
{
    return isfinite(max) ? max : 0;
}

/* Returns the sum of a row's exponentials after the subtraction of shift_of(max); the sums of chunks are added in
 * double. */
static double row_sum(const loss_job *all, int64_t row, float max)
{
    int64_t width = all->classes, first = row * cs_columns(all->x);
    float wide[CE_CHUNK], power[CE_CHUNK];
    double sum = 0;
    for (int64_t from = 0; from < width; from += CE_CHUNK) {
        int64_t count = ce_elements_chunk(from, width);
        softmax_chunk(power, ce_elements_read(all->x, first + from, count, wide), count, shift_of(max), 1);
        sum += (double)ce_elements_sum(power, count);
    }
    return sum;
}

static float row_lse(const loss_job *all, int64_t row)
{
    float max = row_max(all, row, all->classes);
    return shift_of(max) + (float)log(row_sum(all, row, max));
}

/* Subtracts the gradient of the mean of the logits. */
static void subtract_mean(float *out, int64_t count, const cs_entropy_terms *terms, float scale)
{
    float share = terms->smoothing > 0 ? scale * terms->smoothing / (float)terms->classes : 0;
    for (int64_t i = 0; share != 0 && i < count; i++)
        out[i] -= share;
}

/* Replaces the row's logits by their gradient while they are in the cache. `target` is a column of all ranks. */
static void grad_row(const loss_job *all, int64_t row, int64_t target, float lse)
{
    int64_t width = all->classes, stride = cs_columns(all->x), first = row * stride, own = target - all->first;
    float scale = ((const float *)all->dloss.data)[row], lse_scale = scale;
    float wide[CE_CHUNK], out[CE_CHUNK] = { 0 }, zeros[CE_CHUNK] = { 0 };
    if (all->terms.z_loss > 0)
        lse_scale *= 1 + 2 * all->terms.z_loss * lse;
    for (int64_t from = 0; from < width; from += CE_CHUNK) {
        int64_t count = ce_elements_chunk(from, width);
        if (target >= 0) {
            softmax_chunk(out, ce_elements_read(all->x, first + from, count, wide), count, lse, lse_scale);
            subtract_mean(out, count, &all->terms, scale);
        }
        if (own >= from && own < from + count)
            out[own - from] -= scale * (1 - all->terms.smoothing);
        ce_elements_write(all->x, first + from, count, out);
    }
    for (int64_t from = width; from < stride; from += CE_CHUNK)
        ce_elements_write(all->x, first + from, ce_elements_chunk(from, stride), zeros);
}

static void cross_entropy_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const loss_job *all = argument;
    float *loss = all->loss.data, one;
    for (int64_t row = range.from; row < range.to; row++) {
        int64_t target = target_of(all, row);
        float lse = target < 0 ? 0 : row_lse(all, row);
        loss[row] = target < 0 ? 0 : lse - *ce_elements_read(all->x, row * cs_columns(all->x) + target, 1, &one);
        if (all->dloss.data)
            grad_row(all, row, target, lse);
    }
}

void ce_cpu_cross_entropy(cs_device *device, cs_tensor loss, cs_tensor logits, cs_tensor targets, int64_t classes,
                          cs_tensor dloss)
{
    loss_job all = { .loss = loss, .x = logits, .targets = targets, .dloss = dloss, .classes = classes };
    ce_need_below("target", targets, true, classes);
    ce_cpu_walk(device, cs_rows(logits), 1, cross_entropy_rows, &all);
}

/* ---- hits: rows whose largest logit is the target ---- */

/* Returns the index of the first of the largest logits, as torch.argmax does; -1 for a row with a NaN. */
static int64_t largest_of(const loss_job *all, int64_t row)
{
    int64_t width = all->classes, first = row * cs_columns(all->x), best = -1;
    float max = 0, wide[CE_CHUNK];
    for (int64_t from = 0; from < width; from += CE_CHUNK) {
        int64_t count = ce_elements_chunk(from, width);
        const float *logits = ce_elements_read(all->x, first + from, count, wide);
        for (int64_t i = 0; i < count; i++) {
            if (isnan(logits[i]))
                return -1;
            if (best < 0 || logits[i] > max) {
                best = from + i;
                max = logits[i];
            }
        }
    }
    return best;
}

static void hits_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const loss_job *all = argument;
    for (int64_t row = range.from; row < range.to; row++) {
        int64_t target = target_of(all, row);
        ((float *)all->loss.data)[row] = target >= 0 && largest_of(all, row) == target ? 1 : 0;
    }
}

void ce_cpu_hits(cs_device *device, cs_tensor hits, cs_tensor logits, cs_tensor targets, int64_t classes)
{
    loss_job all = { .loss = hits, .x = logits, .targets = targets, .classes = classes };
    ce_need_below("target", targets, true, classes);
    ce_cpu_walk(device, cs_rows(logits), 4, hits_rows, &all);
}

/* ---- cross-entropy of logits whose columns are divided over ranks ---- */

enum { GREATEST, SUM, TARGET, IS_FIRST, TOTAL }; /* the facts of cs_op_entropy_facts */

/* Returns the sum of a row's logits. */
static float row_total(const loss_job *all, int64_t row)
{
    int64_t first = row * cs_columns(all->x);
    float wide[CE_CHUNK];
    double sum = 0;
    for (int64_t from = 0; from < all->classes; from += CE_CHUNK) {
        int64_t count = ce_elements_chunk(from, all->classes);
        sum += (double)ce_elements_sum(ce_elements_read(all->x, first + from, count, wide), count);
    }
    return (float)sum;
}

static void facts_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const loss_job *all = argument;
    for (int64_t row = range.from; row < range.to; row++) {
        int64_t count = cs_columns(all->facts);
        float *facts = (float *)all->facts.data + row * count, one;
        int64_t target = ((const int32_t *)all->targets.data)[row], own = target - all->first;
        memset(facts, 0, (size_t)count * sizeof *facts);
        if (target < 0)
            continue;
        float max = facts[GREATEST] = row_max(all, row, all->classes);
        facts[SUM] = (float)row_sum(all, row, max);
        if (count > TOTAL)
            facts[TOTAL] = row_total(all, row);
        facts[TARGET] = -INFINITY;
        if (own < 0 || own >= all->classes)
            continue;
        facts[TARGET] = *ce_elements_read(all->x, row * cs_columns(all->x) + own, 1, &one);
        if (facts[TARGET] == max)
            facts[IS_FIRST] = own == 0 || row_max(all, row, own) < max ? 1 : 0;
    }
}

void ce_cpu_entropy_facts(cs_device *device, cs_tensor facts, cs_tensor logits, cs_tensor targets, int64_t first,
                          int64_t classes)
{
    loss_job all = { .facts = facts, .x = logits, .targets = targets, .first = first, .classes = classes };
    ce_cpu_walk(device, cs_rows(logits), 1, facts_rows, &all);
}

/* Computes the loss and the hit of a row that has a target from the facts of all ranks. Returns log-sum-exp of the row.
 * The sum is NaN only if a logit is NaN. */
static float combine_facts(const loss_job *all, int64_t row)
{
    int64_t rows = cs_rows(all->x), ranks = cs_rows(all->facts) / rows, count = cs_columns(all->facts);
    float max = -INFINITY, target = -INFINITY, is_first = 0;
    double sum = 0, total = 0;
    for (int64_t rank = ranks - 1; rank >= 0; rank--) {
        const float *facts = (const float *)all->facts.data + (rank * rows + row) * count;
        is_first = facts[GREATEST] >= max ? facts[IS_FIRST] : is_first;
        max = fmaxf(max, facts[GREATEST]);
        target = facts[TARGET] == -INFINITY ? target : facts[TARGET];
    }
    for (int64_t rank = 0; rank < ranks; rank++) {
        const float *facts = (const float *)all->facts.data + (rank * rows + row) * count;
        sum += (double)facts[SUM] * exp((double)facts[GREATEST] - (double)shift_of(max));
        total += count > TOTAL ? (double)facts[TOTAL] : 0;
    }
    float lse = shift_of(max) + (float)log(sum), loss = lse - target, smoothing = all->terms.smoothing;
    if (smoothing > 0)
        loss += smoothing * (target - (float)(total / (double)all->terms.classes));
    if (all->terms.z_loss > 0)
        loss += all->terms.z_loss * lse * lse;
    ((float *)all->loss.data)[row] = loss;
    if (all->hits.data)
        ((float *)all->hits.data)[row] = isnan(sum) ? 0 : is_first;
    return lse;
}

static void finish_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const loss_job *all = argument;
    for (int64_t row = range.from; row < range.to; row++) {
        int64_t target = ((const int32_t *)all->targets.data)[row];
        float lse = 0;
        ((float *)all->loss.data)[row] = 0;
        if (all->hits.data)
            ((float *)all->hits.data)[row] = 0;
        if (target >= 0)
            lse = combine_facts(all, row);
        if (all->dloss.data)
            grad_row(all, row, target, lse);
    }
}

void ce_cpu_entropy_finish(cs_device *device, cs_tensor loss, cs_tensor hits, cs_tensor logits, cs_tensor targets,
                           int64_t first, int64_t classes, cs_tensor dloss, cs_tensor facts, cs_entropy_terms terms)
{
    loss_job all = { loss, logits, targets, dloss, classes, first, facts, hits, terms };
    ce_cpu_walk(device, cs_rows(logits), 1, finish_rows, &all);
}

/* ---- the means over columns of the losses of elements ---- */

/* The functions of a loss of elements. The caller of `slope` sets `scale` to factor * (gradient of the loss) / (number
 * of columns). */
typedef struct {
    double (*add)(double sum, const float *y, const float *target, int64_t count); /* adds the losses to `sum` */
    void (*slope)(float *dy, const float *y, const float *target, int64_t count, float scale);
    float factor;
} error_kind;

typedef struct {
    const error_kind *kind;
    cs_tensor y, target, dy, loss; /* in forward, `loss` is the output; in backward, it is the gradient of the loss */
} error_job;

static void subtract(float *restrict apart, const float *restrict y, const float *restrict target, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        apart[i] = y[i] - target[i];
}

static double add_squares(double sum, const float *y, const float *target, int64_t count)
{
    float apart[CE_CHUNK];
    subtract(apart, y, target, count);
    return sum + (double)ce_elements_dot(apart, apart, count);
}

static void square_slopes(float *dy, const float *y, const float *target, int64_t count, float scale)
{
    for (int64_t i = 0; i < count; i++)
        dy[i] = (y[i] - target[i]) * scale;
}

static double add_magnitudes(double sum, const float *y, const float *target, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        sum += (double)fabsf(y[i] - target[i]);
    return sum;
}

/* A difference of 0 has the gradient 0, and NaN stays NaN. */
static void sign_slopes(float *dy, const float *y, const float *target, int64_t count, float scale)
{
    for (int64_t i = 0; i < count; i++) {
        float apart = y[i] - target[i];
        dy[i] = (apart > 0 ? 1.0f : apart < 0 ? -1.0f : apart) * scale;
    }
}

/* log(1 + e^y) - target y, without a large power: max(y, 0) - target y + log(1 + e^-|y|). */
static double add_logistic(double sum, const float *y, const float *target, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        sum += (double)((y[i] < 0 ? 0 : y[i]) - target[i] * y[i] + log1pf(ce_elements_exp_one(-fabsf(y[i]))));
    return sum;
}

static void logistic_slopes(float *dy, const float *y, const float *target, int64_t count, float scale)
{
    for (int64_t i = 0; i < count; i++)
        dy[i] = (1 / (1 + ce_elements_exp_one(y[i] < -88 ? 88 : -y[i])) - target[i]) * scale;
}

static const error_kind kinds[] = {
    [CE_SQUARED] = { add_squares, square_slopes, 2 },
    [CE_ABSOLUTE] = { add_magnitudes, sign_slopes, 1 },
    [CE_LOGISTIC] = { add_logistic, logistic_slopes, 1 },
};

static void error_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const error_job *all = argument;
    int64_t width = cs_columns(all->y);
    float wide[CE_CHUNK], slope[CE_CHUNK];
    for (int64_t row = range.from; row < range.to; row++) {
        float *loss = (float *)all->loss.data + row;
        float scale = all->dy.data ? all->kind->factor * *loss / (float)width : 0;
        double sum = 0;
        for (int64_t from = 0; from < width; from += CE_CHUNK) {
            int64_t count = ce_elements_chunk(from, width), at = row * width + from;
            const float *y = ce_elements_read(all->y, at, count, wide), *target = (const float *)all->target.data + at;
            if (!all->dy.data) {
                sum = all->kind->add(sum, y, target, count);
                continue;
            }
            all->kind->slope(slope, y, target, count, scale);
            ce_elements_write(all->dy, at, count, slope);
        }
        if (!all->dy.data)
            *loss = (float)(sum / (double)width);
    }
}

void ce_cpu_error(cs_device *device, cs_tensor loss, cs_tensor y, cs_tensor target, ce_error kind)
{
    ce_cpu_walk(device, cs_rows(y), 16, error_rows, &(error_job){ &kinds[kind], y, target, { 0 }, loss });
}

void ce_cpu_error_grad(cs_device *device, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target, ce_error kind)
{
    ce_cpu_walk(device, cs_rows(y), 16, error_rows, &(error_job){ &kinds[kind], y, target, dy, dloss });
}
