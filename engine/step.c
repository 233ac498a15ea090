/* step.c - cs_step: boundary, overflow, clip, update, publish. */
#include "engine.h"
#include "base/beat.h"
#include "base/must.h"
#include "base/say.h"

#include <math.h>
#include <string.h>

/* What ranks tell each other at the boundary, in one all-reduce of integers: sums in any order, the same bits. */
typedef struct {
    cs_exact squares, loss;
    int64_t  rows, saved; /* saved: ranks whose part of a checkpoint in flight is done */
} judgement;

/* What is computed from here on sees what collectives brought. */
static void follow_comm(cs_engine *engine)
{
    cs_stream_wait(cs_device_stream(engine->device, CS_COMPUTE),
                   cs_stream_record(cs_device_stream(engine->device, CS_COMM)));
}

static judgement judge(cs_engine *engine)
{
    judgement sum  = { .rows = engine->loss_rows_counted };
    sum.saved      = cs_saving_ready(engine);
    double started = cs_clock_seconds();
    for (int i = 0; i < engine->model->count; i++)
        cs_gradient_squares(engine->shards[i], &sum.squares, 1 / engine->scaler.scale);
    cs_walk_settle(engine);
    sum.loss = engine->loss_sum;
    _Static_assert(sizeof sum % sizeof(int64_t) == 0, "a judgement is made of integers");
    cs_comm_all_reduce(engine->comm, &sum, sizeof sum / sizeof(int64_t), CS_I64, CS_SUM);
    engine->seconds.gradients += cs_clock_seconds() - started;
    return sum;
}

/* What a gradient element is multiplied with: unscaled, averaged over the rows that counted, and clipped. The
 * seed of backward gave each row scale / (rows of a micro-batch), the way between ranks zero.before. */
static double gradient_factor(const cs_engine *engine, int64_t rows)
{
    const cs_settings *settings   = engine->settings;
    double             micro_rows = (double)cs_rows(engine->loss_rows);
    double             given      = engine->scaler.scale * (double)engine->zero.before;
    double             factor     = rows ? micro_rows / ((double)rows * given) : 0;
    return settings->gradient_sum ? factor * engine->world.size : factor;
}

/* DeepSpeed's and PyTorch's: the small constant keeps a zero norm harmless. */
static double clip_factor(double norm, double most)
{
    if (most <= 0 || !isfinite(norm))
        return 1;
    double factor = most / (norm + 1e-6);
    return factor < 1 ? factor : 1;
}

static double next_rate(const cs_engine *engine)
{
    if (!engine->rate)
        return cs_schedule_rate(&engine->settings->schedule, engine->scheduled);
    double rate = engine->rate(engine->scheduled, engine->rate_argument);
    if (!(rate >= 0 && isfinite(rate)))
        cs_fatal(CS_BAD_CONFIG, "the program's schedule answered %g for step %lld: a rate is a number of 0 or more",
                 rate, (long long)engine->scheduled);
    return rate;
}

static bool overflowed(const cs_engine *engine, const judgement *sum)
{
    const cs_precision *precision = &engine->settings->precision;
    bool checked = precision->scaled || (precision->values == CS_BF16 && engine->settings->check_grad_overflow);
    return checked && sum->squares.nonfinite > 0;
}

static void update(cs_engine *engine, double factor)
{
    cs_saving_hold(engine);
    cs_move    move  = { .rate = engine->metrics.learning_rate, .t = engine->updates + 1, .grad_scale = factor };
    double     begun = cs_clock_seconds();
    move.cycles      = !engine->rate &&
                  cs_schedule_momentum(&engine->settings->schedule, engine->scheduled, &move.betas[0], &move.betas[1]);
    cs_update_begin(engine->update, &move);
    double moving = cs_clock_seconds() - begun;
    for (int i = 0; i < engine->model->count; i++) {
        double started = cs_clock_seconds();
        cs_update_take(engine->update, i);
        moving += cs_clock_seconds() - started;
        cs_shard_publish(engine->shards[i]);
    }
    follow_comm(engine);
    engine->seconds.update += moving;
    engine->seconds.publish += cs_walk_clock(engine) - begun - moving;
    engine->updates++;
    engine->scheduled++;
}

/* Moves the loss scale; says what DeepSpeed says. A step without a target tells nothing of the scale. */
static void judge_scale(cs_engine *engine, int64_t rows, bool skip)
{
    const char *said = "";
    if (rows == 0) {
        CS_SAY_LOGGED("step %lld had no target in any sample, and moved nothing", (long long)engine->metrics.step);
        return;
    }
    cs_status status = cs_scaler_judge(&engine->scaler, &engine->settings->scaler, skip, &said);
    if (said[0])
        CS_SAY_LOGGED("%s", said);
    if (status != CS_OK)
        cs_fatal(status, "%s", cs_error());
}

bool cs_step(cs_engine *engine)
{
    cs_forward_expect(engine, CS_EXPECT_STEP, "cs_step");
    cs_occupancy_print(engine, "Engine before step");
    double started = cs_clock_seconds();
    engine->phase  = CS_EXPECT_FORWARD;
    if (++engine->micro < engine->settings->accumulation) {
        engine->seconds.step += cs_clock_seconds() - started;
        cs_report_micro(engine);
        return false;
    }
    engine->micro = 0;
    for (int i = engine->model->count - 1; i >= 0; i--)
        cs_gradient_finish(engine->shards[i]);
    follow_comm(engine);
    double reduced = cs_walk_clock(engine); /* what was not reduced yet belongs to backward */
    engine->seconds.backward += reduced - started;
    engine->seconds.reduce += reduced - started;

    cs_device_enter(engine->device, "step");
    judgement sum    = judge(engine);
    bool      skip   = sum.rows == 0 || overflowed(engine, &sum);
    double    factor = gradient_factor(engine, sum.rows);
    double    norm =
        sum.squares.nonfinite ? (double)INFINITY : sqrt(cs_exact_value(&sum.squares)) * factor * engine->scaler.scale;
    cs_metrics *metrics    = &engine->metrics;
    metrics->learning_rate = next_rate(engine);
    metrics->loss_scale    = engine->scaler.scale;
    metrics->grad_norm     = norm;
    metrics->loss          = sum.rows ? cs_exact_value(&sum.loss) / (double)sum.rows : (double)NAN;
    metrics->tokens += sum.rows;
    metrics->samples += engine->settings->train_batch_size;
    metrics->skipped += skip;
    metrics->step++;
    if (!skip)
        update(engine, factor * clip_factor(norm, engine->settings->gradient_clipping));
    cs_device_leave(engine->device);
    judge_scale(engine, sum.rows, skip);
    cs_saving_turn(engine, sum.saved);
    engine->seconds.step += cs_clock_seconds() - reduced;
    engine->last_seconds = engine->seconds;
    cs_report_step(engine);
    cs_beat_step(metrics->step);
    return true;
}

float cs_loss(cs_engine *engine)
{
    return (float)engine->metrics.loss;
}

cs_metrics cs_last_step(const cs_engine *engine)
{
    return engine->metrics;
}
