/* step.c - cs_step: at the gradient accumulation boundary, reduces the gradients, decides whether the parameters are
 * updated, clips the gradients, updates the parameters, and sends the new values to the ranks that need them. */
#include "core/engine.h"
#include "base/asked.h"
#include "base/must.h"
#include "base/say.h"
#include "base/trace.h"

#include <math.h>
#include <string.h>

/* Makes all later operations on the compute stream wait for the collectives that were started, so that the operations
 * see the results. */
static void follow_comm(cs_engine *engine)
{
    ce_stream_follow(ce_device_stream(engine->device, CE_COMPUTE), ce_device_stream(engine->device, CE_COMM));
}

double cs_schedule_rate(const cs_engine *engine, int64_t step)
{
    if (step < 0)
        ce_fatal(CS_MISUSE, "cs_schedule_rate: update %lld does not exist", (long long)step);
    if (!engine->rate)
        return ce_schedule_rate(&engine->settings->schedule, step);
    double rate = engine->rate(step, engine->rate_argument);
    if (!(rate >= 0 && isfinite(rate)))
        ce_fatal(CS_MISUSE,
                 "the program's schedule returned %g for step %lld: a learning rate is a number of 0 or more", rate,
                 (long long)step);
    return rate;
}

static ce_update_terms next_update(cs_engine *engine)
{
    ce_update_terms terms = { .rate = cs_schedule_rate(engine, engine->scheduled),
                              .t = engine->updates + 1,
                              .gate = ce_step_judge_gate(engine) };
    terms.cycles = !engine->rate && ce_schedule_momentum(&engine->settings->schedule, engine->scheduled,
                                                         &terms.betas[0], &terms.betas[1]);
    return terms;
}

static void update(cs_engine *engine, const ce_update_terms *terms)
{
    CE_OBSERVE(engine, before_update, (engine));
    double begun = ce_clock_seconds();
    ce_update_begin(engine->update, terms);
    double moving = ce_clock_seconds() - begun;
    for (int i = 0; i < engine->model->count; i++) {
        double started = ce_clock_seconds(), traced = ce_trace_begin();
        ce_update_take(engine->update, i);
        ce_trace_end(CE_TRACE_COMPUTE, "update", ce_unit_label(engine->model->units[i]), traced);
        moving += ce_clock_seconds() - started;
        ce_shard_publish(engine->shards[i]);
    }
    ce_shard_published(&engine->zero);
    follow_comm(engine);
    engine->seconds.update += moving;
    engine->seconds.publish += ce_phase_clock(engine) - begun - moving;
}

/* Returns true if the host reads the verdict on this step one step later. The host reads the verdict at once for LAMB
 * and Muon, whose update needs the verdict on the host (zero/update.c), and on a CPU, where this costs nothing. */
static bool reads_late(const cs_engine *engine)
{
    const ce_groups *groups = &engine->settings->groups;
    bool late = ce_device_has_own_memory(engine->device);
    for (int i = 0; i < groups->count; i++)
        late &= !groups->group[i].optimizer.directs;
    return late;
}

/* ---- reading the verdict ---- */

/* Updates the loss scale and prints DeepSpeed's lines about the loss scale. A step in which no row has a target does
 * not change the loss scale. */
static void update_scale(cs_engine *engine, int64_t rows, bool skip)
{
    const char *said = "";
    if (rows == 0) {
        CE_SAY_LOGGED("step %lld had no target in any sample, so no parameter changed",
                      (long long)engine->metrics.step);
        return;
    }
    cs_status status = ce_scaler_judge(&engine->scaler, &engine->settings->scaler, skip, &said);
    if (said[0])
        CE_SAY_LOGGED("%s", said);
    if (status != CS_OK && !engine->must_end)
        engine->must_end = strdup(cs_error());
}

bool ce_step_settle(cs_engine *engine)
{
    cs_metrics *metrics = &engine->metrics;
    const ce_verdict *verdict = ce_step_judge_read(engine);
    if (!verdict)
        return false;
    bool moved = verdict->gate.open;
    metrics->grad_norm = verdict->norm;
    metrics->loss = verdict->loss;
    metrics->tokens += verdict->targets;
    metrics->skipped += !moved;
    ce_preference_report(&metrics->preference, verdict->pairs);
    engine->updates += moved;
    engine->scheduled += moved;
    engine->parts_saved = verdict->saved;
    engine->save_asked |= verdict->asked > 0;
    if (verdict->asked >= CE_END_ASKED)
        ce_asked_agree_to_end();
    CE_OBSERVE(engine, settled, (engine, verdict));
    update_scale(engine, verdict->rows, !moved);
    return moved;
}

/* ---- the step ---- */

/* Completes the reduction of the gradients of all micro-batches. The time for this is counted as time of backward. */
static void finish_gradients(cs_engine *engine)
{
    bool due = !ce_backward_finishes(engine);
    for (int i = engine->model->count - 1; i >= 0 && due; i--)
        ce_gradient_finish(engine->shards[i]);
    follow_comm(engine);
    ce_phase_reduced(engine);
}

/* Reads the verdict as all ranks do at this point, so that the observers may communicate. Returns the result of
 * ce_step_settle. */
static bool agree(cs_engine *engine)
{
    bool moved = ce_step_settle(engine);
    CE_OBSERVE(engine, agreed, (engine));
    return moved;
}

/* Decides on the step and updates the parameters. Called after the verdict on the previous step is read, so that the
 * metrics of that step are final before this step changes them. */
static void judge_and_update(cs_engine *engine)
{
    double started = ce_clock_seconds();
    ce_update_terms terms = next_update(engine);
    ce_step_judge_step(engine);
    engine->seconds.gradients += ce_phase_clock(engine) - started;
    cs_metrics *metrics = &engine->metrics;
    metrics->learning_rate = terms.rate;
    metrics->loss_scale = engine->scaler.scale;
    metrics->samples += engine->settings->train_batch_size;
    metrics->step++;
    if (reads_late(engine) || agree(engine))
        update(engine, &terms);
}

bool cs_step(cs_engine *engine)
{
    ce_phase_begin(engine, CE_STEP);
    engine->micro = (engine->micro + 1) % engine->settings->accumulation;
    bool boundary = engine->micro == 0;
    if (boundary) {
        finish_gradients(engine);
        agree(engine);
        judge_and_update(engine);
    }
    ce_phase_end(engine, CE_STEP);
    return boundary;
}
