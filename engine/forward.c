/* forward.c - cs_forward: down the list. */
#include "engine.h"
#include "base/must.h"
#include "base/rng.h"

void cs_forward_expect(cs_engine *engine, cs_phase phase, const char *verb)
{
    static const char *const names[] = { "cs_forward", "cs_backward", "cs_step" };
    if (engine->phase != phase)
        cs_fatal(CS_UNSUPPORTED, "%s was called where %s is due: the order is cs_forward, cs_backward, cs_step", verb,
                 names[engine->phase]);
}

void cs_forward_settle(cs_engine *engine)
{
    if (!engine->prediction.data)
        return;
    cs_pass_let_go(engine->pass, engine->prediction);
    engine->prediction = (cs_tensor){ 0 };
    cs_pass_end(engine->pass);
}

static cs_pass_batch_info batch_info(const cs_engine *engine, const cs_descent *descent)
{
    bool tokens = engine->model->inputs == 0;
    return (cs_pass_batch_info){
        .mode = descent->mode,
        .batch = descent->inputs.shape[0],
        .length = tokens ? cs_columns(descent->inputs) : 1,
        .targets = descent->targets,
        .keys = descent->keys,
        .start = descent->start,
        .starts = descent->starts,
        .cache = descent->cache,
        .hits = descent->hits,
    };
}

/* dy of the last unit, before its forward: every row weighs the same here, and cs_step divides by the rows that
 * counted. The loss scale of the step is known since the step before. */
static void weigh(cs_engine *engine, int64_t rows)
{
    cs_tensor dloss = cs_pass_make(engine->pass, CS_F32, rows, 1);
    cs_boundary_seed(engine, dloss);
    cs_pass_hold(engine->pass, dloss);
    cs_pass_weigh(engine->pass, dloss);
}

/* The last unit's output is a loss a row, or what it predicts; the others' is the residual's width. */
static cs_tensor run_unit(cs_engine *engine, int i, cs_tensor x, bool predict)
{
    cs_unit *unit = engine->model->units[i];
    bool last = i == engine->model->count - 1;
    int64_t rows = cs_pass_batch(engine->pass) * cs_pass_length(engine->pass);
    if (last && predict)
        return unit->kind->predict(unit, engine->pass, x);
    if (last && cs_pass_training(engine->pass))
        weigh(engine, rows);
    cs_tensor y = last ? cs_pass_make(engine->pass, CS_F32, rows, 1)
                       : cs_pass_make(engine->pass, cs_pass_dtype(engine->pass), rows, engine->model->width);
    unit->kind->forward(unit, engine->pass, x, y);
    return y;
}

cs_tensor cs_forward_descend(cs_engine *engine, const cs_descent *given)
{
    cs_descent fed = cs_feed_take(engine, given), *descent = &fed;
    cs_pass_batch_info info = batch_info(engine, descent);
    bool training = descent->mode == CS_PASS_TRAINING;
    bool recompute = training && engine->settings->recompute;
    int last = engine->model->count - 1;
    cs_tensor x = descent->inputs;
    cs_graphs_down(engine, descent);
    cs_pass_begin(engine->pass, &info);
    engine->ahead = -1;
    for (int i = 0; i <= last; i++) {
        cs_walk_enter(engine, i, CS_DOWN);
        int mark = cs_pass_mark(engine->pass);
        cs_profile_enter(engine);
        cs_tensor y = run_unit(engine, i, x, descent->predict);
        cs_profile_leave(engine, i);
        cs_pass_hold(engine->pass, y);
        if (recompute && i < last) {
            cs_pass_rewind(engine->pass, mark);
            engine->inputs[i] = x;
        } else {
            cs_pass_let_go(engine->pass, x);
        }
        cs_walk_leave(engine, i, !(training && i == last));
        x = y;
    }
    cs_graphs_end(engine);
    return x;
}

/* Rows that count: for tokens those with a target, else every sample is one. */
static int64_t count_targets(const cs_engine *engine, cs_tensor targets)
{
    if (engine->model->inputs)
        return targets.shape[0];
    int64_t counted = 0, count = cs_count(targets);
    const int32_t *target = targets.data;
    for (int64_t i = 0; i < count; i++)
        counted += target[i] >= 0;
    return counted;
}

/* Full micro-batches only: the pass's memory and the kernels' shapes are fixed. */
static void check_batch(const cs_engine *engine, const cs_batch *batch)
{
    bool tokens = engine->model->inputs == 0;
    int64_t samples = engine->settings->micro_batch, columns = tokens ? engine->length : engine->model->inputs;
    cs_tensor inputs = batch->inputs, targets = batch->targets;
    if (inputs.dims != 2 || inputs.dtype != (tokens ? CS_I32 : CS_F32) || inputs.shape[0] != samples ||
        inputs.shape[1] != columns)
        cs_fatal(CS_BAD_CONFIG,
                 "cs_forward: inputs must be %s (%lld, %lld): samples of a micro-batch and %s; they are (%lld, %lld)",
                 tokens ? "CS_I32" : "CS_F32", (long long)samples, (long long)columns,
                 tokens ? "seq_len" : "inputs of a sample", (long long)inputs.shape[0], (long long)inputs.shape[1]);
    if (batch->starts.data && (!tokens || cs_count(batch->starts) != cs_count(inputs)))
        cs_fatal(CS_BAD_CONFIG, "cs_forward: starts are for tokens, one for each");
    if (!targets.data || targets.shape[0] != samples || (tokens && cs_count(targets) != cs_count(inputs)))
        cs_fatal(CS_BAD_CONFIG, "cs_forward: targets must be of the same %lld samples as the inputs",
                 (long long)samples);
}

void cs_forward(cs_engine *engine, const cs_batch *batch)
{
    cs_forward_expect(engine, CS_EXPECT_FORWARD, "cs_forward");
    if (engine->config->reads)
        cs_fatal(CS_UNSUPPORTED, "cs_forward: this model was opened by cs_reopen, to be used; train it with a "
                                 "configuration of its own and cspeed.load");
    cs_forward_settle(engine);
    check_batch(engine, batch);
    cs_occupancy_print(engine, "Engine before forward");
    double started = cs_clock_seconds();
    cs_batch lesson = cs_curriculum_shorten(engine, batch);
    uint64_t seed = cs_rng_key((uint64_t)engine->settings->seed, "dropout");
    if (engine->micro == 0) {
        engine->seconds = (cs_phase_seconds){ 0 };
        cs_boundary_begin(engine);
    }
    for (int64_t b = 0; b < batch->inputs.shape[0]; b++)
        engine->keys[b] =
            cs_rng_mix(seed, (uint64_t)(batch->samples ? batch->samples[b] : cs_loader_sample(engine, b)));
    cs_profile_start(engine);
    cs_device_enter(engine->device, "forward");
    engine->loss_rows = cs_forward_descend(engine, &(cs_descent){ .mode = CS_PASS_TRAINING,
                                                                  .inputs = lesson.inputs,
                                                                  .targets = lesson.targets,
                                                                  .starts = lesson.starts });
    cs_boundary_add(engine, engine->loss_rows);
    cs_device_leave(engine->device);
    engine->loss_rows_counted += count_targets(engine, lesson.targets);
    engine->phase = CS_EXPECT_BACKWARD;
    engine->seconds.forward += cs_walk_clock(engine) - started;
    cs_profile_stop(engine);
    cs_occupancy_print(engine, "Engine after forward");
}
