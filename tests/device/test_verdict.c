/* test_verdict.c - the verdict on a step compared with plain double arithmetic, and the gate of an update, on any
 * device. */
#include "near.h"
#include "suite.h"

#include "device/state.h"

#include <math.h>
#include <string.h>

#define DYNAMIC                                                                                                        \
    {                                                                                                                  \
        .initial_scale_power = 8, .loss_scale_window = 3, .hysteresis = 1, .min_loss_scale = 1                         \
    }
#define TERMS(way, by, max, looks)                                                                                     \
    {                                                                                                                  \
        .step_rows = 8, .prescale_factor = way, .sum_factor = by, .clipping = max, .checked = looks, .scaler = DYNAMIC \
    }

static const struct {
    const char *name;
    double gradient, loss; /* value of each of 100 gradients, without the loss scale; loss of each of `rows` rows */
    int64_t rows, nonfinite;
    ce_step_terms terms;
    double scale;
    bool open;
    double factor, norm, next; /* expected values; `factor` is the value before clipping */
} table[] = {
    { "as it is", 3, 2, 8, 0, TERMS(1, 1, 0, false), 1, true, 1, 30, 1 },
    { "half of the rows count", 3, 2, 4, 0, TERMS(1, 1, 0, false), 1, true, 2, 60, 1 },
    { "a sum over two ranks", 3, 2, 8, 0, TERMS(1, 2, 0, false), 1, true, 2, 60, 1 },
    { "divided before it travelled", 3, 2, 8, 0, TERMS(0.25, 1, 0, false), 1, true, 4, 120, 1 },
    { "clipped", 3, 2, 8, 0, TERMS(1, 1, 5, false), 1, true, 1, 30, 1 },
    { "short enough", 3, 2, 8, 0, TERMS(1, 1, 31, false), 1, true, 1, 30, 1 },
    { "a zero gradient", 0, 2, 8, 0, TERMS(1, 1, 1, true), 256, true, 1.0 / 256, 0, 256 },
    { "scaled", 3, 2, 8, 0, TERMS(1, 1, 5, true), 256, true, 1.0 / 256, 30, 256 },
    { "an overflow", 3, 2, 8, 1, TERMS(1, 1, 5, true), 256, false, 1.0 / 256, INFINITY, 128 },
    { "an overflow that is not checked", 3, 2, 8, 1, TERMS(1, 1, 5, false), 1, true, 1, INFINITY, 1 },
    { "no row", 0, 0, 0, 0, TERMS(1, 1, 5, true), 256, false, 0, 0, 256 },
    { "no row, and an overflow", 0, 0, 0, 1, TERMS(1, 1, 5, true), 256, false, 0, INFINITY, 256 },
};

static ce_step_sums words_of(size_t number)
{
    ce_step_sums words = { .rows = table[number].rows, .saved = 2 };
    for (int i = 0; i < 100; i++)
        ce_exact_add(&words.squares, table[number].gradient * table[number].gradient);
    for (int64_t i = 0; i < words.rows; i++)
        ce_exact_add(&words.loss, table[number].loss);
    words.squares.nonfinite += table[number].nonfinite;
    return words;
}

static ce_scaler scaler_of(size_t number)
{
    bool scaled = table[number].terms.checked;
    return (ce_scaler){ .dynamic = scaled, .scale = table[number].scale, .hysteresis = 1, .last_overflow = -1 };
}

START_TEST(every_row_has_its_verdict)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *name = table[i].name;
        double clipping = table[i].terms.clipping, norm = table[i].norm;
        double clip = clipping > 0 && isfinite(norm) ? fmin(1, clipping / (norm + 1e-6)) : 1;
        ce_step_sums words = words_of(i);
        ce_verdict got = ce_verdict_judge(&words, &table[i].terms, scaler_of(i));
        ck_assert_msg(got.gate.open == table[i].open, "%s: open %d", name, got.gate.open);
        ck_assert_msg(got.gate.factor == (float)(table[i].factor * clip), "%s: factor %.9g", name,
                      (double)got.gate.factor);
        ck_assert_msg(got.norm == norm, "%s: norm %.17g", name, got.norm);
        ck_assert_msg(table[i].rows ? got.loss == table[i].loss : isnan(got.loss), "%s: loss %g", name, got.loss);
        ck_assert_msg(got.scaler.scale == table[i].next, "%s: next scale %g", name, got.scaler.scale);
        ck_assert_int_eq(got.scaler.iteration, table[i].rows != 0);
        ck_assert_int_eq(got.rows, table[i].rows);
        ck_assert_int_eq(got.saved, 2);
    }
}
END_TEST

/* Checks that two verdicts have the same bytes, padding between members excluded. */
static void check_same(const char *name, const ce_verdict *a, const ce_verdict *b)
{
    ck_assert_msg(a->gate.factor == b->gate.factor && a->gate.open == b->gate.open, "%s: gate", name);
    ck_assert_msg(memcmp(&a->norm, &b->norm, sizeof a->norm) == 0, "%s: norm", name);
    ck_assert_msg(a->loss == b->loss || (isnan(a->loss) && isnan(b->loss)), "%s: loss", name);
    ck_assert_msg(a->scaler.scale == b->scaler.scale && a->scaler.hysteresis == b->scaler.hysteresis &&
                      a->scaler.iteration == b->scaler.iteration &&
                      a->scaler.last_overflow == b->scaler.last_overflow && a->scaler.dynamic == b->scaler.dynamic,
                  "%s: scaler", name);
    ck_assert_msg(a->rows == b->rows && a->saved == b->saved, "%s: counts", name);
}

static cs_tensor memory_of(void *at, size_t bytes)
{
    return near_at(cs_vector(at, CS_I64, (int64_t)(bytes / sizeof(int64_t))));
}

/* Consecutive steps, so that the scaler's state passes from step to step on the device. */
START_TEST(a_device_judges_alike)
{
    cs_stream *stream = ce_device_stream(near_open(1), CE_COMPUTE);
    ce_scaler scaler = { .dynamic = true, .scale = 256, .hysteresis = 1, .last_overflow = -1 };
    ce_verdict got = { .scaler = scaler };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        ce_step_sums words = words_of(i);
        ce_verdict want = ce_verdict_judge(&words, &table[i].terms, scaler);
        ce_state_judge(stream, memory_of(&got, sizeof got).data, memory_of(&words, sizeof words).data, &table[i].terms);
        near_fetch();
        check_same(table[i].name, &got, &want);
        scaler = want.scaler;
    }
    near_close();
}
END_TEST

START_TEST(a_seed_is_the_scale_over_its_divisor)
{
    cs_stream *stream = ce_device_stream(near_open(1), CE_COMPUTE);
    double scale = 1024;
    for (int64_t rows = 1; rows < 100; rows += 19) {
        cs_tensor dy = near_new(CS_F32, rows, 1);
        ce_state_seed(stream, near_at(dy), memory_of(&scale, sizeof scale).data, 3 * (double)rows);
        near_fetch();
        for (int64_t i = 0; i < rows; i++)
            ck_assert(near_element(dy, i) == (double)(float)(1024 / (3 * (double)rows)));
        near_free(dy);
    }
    near_close();
}
END_TEST

enum { COUNT = 1003, TENSORS = 5 };

/* Fills master, gradient, two slots and the published copy; the state is fp32, or 16-bit if `narrow`. */
static void fill(cs_tensor *all, bool narrow)
{
    for (int i = 0; i < TENSORS; i++)
        all[i] = near_random(i == 4 || narrow ? CS_BF16 : CS_F32, 1, COUNT, (uint64_t)i + 1, 1);
    for (int64_t k = 0; k < COUNT; k++)
        near_set(all[3], k, fabs(near_element(all[3], k)));
}

static void update(cs_stream *stream, const cs_tensor *all, double grad_scale, ce_gate *gate)
{
    ce_optim_settings settings = {
        .kind = CE_OPTIM_ADAMW, .betas = { 0.9, 0.95 }, .epsilon = 1e-8, .weight_decay = 0.1, .bias_correction = true
    };
    ce_optimizer optimizer = ce_optim_find(&settings);
    ce_hyper hyper = ce_optim_hyper(&settings, 0.01, 3, grad_scale);
    cs_tensor at[TENSORS];
    const ce_gate *there = gate ? memory_of(gate, sizeof *gate).data : NULL;
    for (int i = 0; i < TENSORS; i++)
        at[i] = near_at(all[i]);
    ce_state_range whole = { .to = COUNT, .decays = 1 };
    ce_state_rows rows = { .master = at[0],
                           .gradient = at[1],
                           .slots = { at[2], at[3] },
                           .publish = at[4],
                           .ranges = near_ranges(near_at, &whole, 1),
                           .gate = there };
    ce_state_update(stream, &optimizer, hyper, &rows);
    near_fetch();
}

/* An open gate multiplies the gradient by its factor: the results are bit for bit those of an update with this factor
 * and without a gate. A closed gate changes no bit. */
START_TEST(a_gate_lets_through_or_not)
{
    cs_stream *stream = ce_device_stream(near_open(1), CE_COMPUTE);
    ce_gate open = { 0.37f, 1 }, shut = { 0.37f, 0 };
    for (int narrow = 0; narrow < 2; narrow++) {
        cs_tensor gated[TENSORS], plain[TENSORS], kept[TENSORS];
        fill(gated, narrow), fill(plain, narrow), fill(kept, narrow);
        update(stream, gated, 1, &shut);
        for (int i = 0; i < TENSORS; i++)
            ck_assert(near_same_bits("shut", gated[i], kept[i]));
        update(stream, gated, 1, &open);
        update(stream, plain, (double)0.37f, NULL);
        for (int i = 0; i < TENSORS; i++) {
            ck_assert(near_same_bits("open", gated[i], plain[i]));
            near_free(gated[i]), near_free(plain[i]), near_free(kept[i]);
        }
    }
    near_close();
}
END_TEST

SUITE_MAIN("verdict", every_row_has_its_verdict, a_device_judges_alike, a_seed_is_the_scale_over_its_divisor,
           a_gate_lets_through_or_not)
