/* step.c - cs_step: boundary, overflow, clip, update, publish. */
#include "engine.h"
#include "base/beat.h"
#include "base/must.h"
#include "base/say.h"

#include <math.h>

/* What is computed from here on sees what collectives brought. */
static void follow_comm(cs_engine *engine)
{
    cs_stream_wait(cs_device_stream(engine->device, CS_COMPUTE),
                   cs_stream_record(cs_device_stream(engine->device, CS_COMM)));
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

static cs_move next_move(cs_engine *engine)
{
    cs_move move = { .rate = next_rate(engine), .t = engine->updates + 1, .gate = cs_boundary_gate(engine) };
    move.cycles = !engine->rate &&
                  cs_schedule_momentum(&engine->settings->schedule, engine->scheduled, &move.betas[0], &move.betas[1]);
    return move;
}

static void update(cs_engine *engine, const cs_move *move)
{
    cs_saving_hold(engine);
    double begun = cs_clock_seconds();
    cs_update_begin(engine->update, move);
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
}

/* A direction's step needs numbers of the host's (zero/update.c): its verdict is read at once, on any device. */
static bool reads_late(const cs_engine *engine)
{
    const cs_groups *groups = &engine->settings->groups;
    bool late = cs_device_has_own_memory(engine->device);
    for (int i = 0; i < groups->count; i++)
        late &= !groups->group[i].optimizer.directs;
    return late;
}

/* ---- the verdict, read ---- */

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
        cs_finite_give_up(engine, cs_error());
}

bool cs_step_settle(cs_engine *engine)
{
    cs_metrics *metrics = &engine->metrics;
    const cs_verdict *verdict = cs_boundary_read(engine);
    if (!verdict)
        return false;
    bool moved = verdict->gate.open;
    metrics->grad_norm = verdict->norm;
    metrics->loss = verdict->loss;
    metrics->tokens += verdict->rows;
    metrics->skipped += !moved;
    engine->updates += moved;
    engine->scheduled += moved;
    engine->parts_saved = verdict->saved;
    cs_finite_count(engine, verdict); /* with the scaler as it was in this step */
    judge_scale(engine, verdict->rows, !moved);
    return moved;
}

/* Collective: all ranks have read the same verdict last when they come here, whoever asked for numbers before. */
static void turn_saving(cs_engine *engine)
{
    int64_t ready = engine->parts_saved;
    engine->parts_saved = 0;
    cs_saving_turn(engine, ready);
}

/* ---- the step ---- */

/* The step before is settled by now, so that its numbers are true before this one's. */
static void judge_and_move(cs_engine *engine)
{
    double started = cs_clock_seconds();
    cs_move move = next_move(engine);
    cs_boundary_judge(engine);
    engine->seconds.gradients += cs_walk_clock(engine) - started;
    cs_metrics *metrics = &engine->metrics;
    metrics->learning_rate = move.rate;
    metrics->loss_scale = engine->scaler.scale;
    metrics->samples += engine->settings->train_batch_size;
    metrics->step++;
    bool late = reads_late(engine);
    bool moves = late || cs_step_settle(engine);
    if (!late)
        cs_finite_tell(engine); /* the gradients are still those of this step */
    if (moves)
        update(engine, &move);
}

bool cs_step(cs_engine *engine)
{
    cs_forward_expect(engine, CS_EXPECT_STEP, "cs_step");
    cs_occupancy_print(engine, "Engine before step");
    double started = cs_clock_seconds();
    engine->phase = CS_EXPECT_FORWARD;
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
    cs_step_settle(engine);
    cs_finite_tell(engine);
    turn_saving(engine); /* before the parts are counted that are done now */
    judge_and_move(engine);
    cs_device_leave(engine->device);
    turn_saving(engine);
    engine->seconds.step += cs_clock_seconds() - reduced;
    engine->last_seconds = engine->seconds;
    cs_report_step(engine);
    cs_beat_step(engine->metrics.step);
    return true;
}

float cs_loss(cs_engine *engine)
{
    cs_step_settle(engine);
    return (float)engine->metrics.loss;
}

/* What is known of the engine changes by asking, the engine does not. */
cs_metrics cs_last_step(const cs_engine *engine)
{
    cs_step_settle((cs_engine *)(uintptr_t)engine);
    return engine->metrics;
}
