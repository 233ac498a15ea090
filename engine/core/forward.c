/* forward.c - cs_forward: the forward pass of one micro-batch, unit by unit. */
#include "core/engine.h"
#include "base/asked.h"
#include "base/misuse.h"
#include "base/must.h"
#include "base/rng.h"

static ce_pass_batch_info batch_info(const cs_engine *engine, const ce_forward_input *input)
{
    bool tokens = engine->model->inputs == 0;
    return (ce_pass_batch_info){
        .mode = input->mode,
        .batch = input->inputs.shape[0],
        .length = tokens ? cs_columns(input->inputs) : 1,
        .targets = input->targets,
        .keys = input->keys,
        .starts = input->starts,
        .sequences = input->sequences,
        /* preference training computes the trained model and the reference model without dropout, as TRL does */
        .no_dropout = ce_preference_is_on(engine),
        .whole_rows = input->predict,
        .hits = input->hits,
    };
}

/* Computes the gradient of each row's loss before the last unit's forward runs, so that the last unit may compute its
 * own gradients within forward (ce_backward_open prepares memory for them). Here all rows have the same weight. The
 * factor in the verdict later makes the gradients a mean over the rows that have a target. The loss scale of this step
 * is known already, since it is a part of the previous step's verdict. */
static void weigh(cs_engine *engine, int64_t rows)
{
    cs_tensor dloss = cs_pass_make(engine->pass, CS_F32, rows, 1);
    ce_step_judge_seed(engine, dloss);
    ce_pass_hold(engine->pass, dloss);
    ce_pass_weigh(engine->pass, dloss);
    if (ce_preference_is_on(engine))
        ce_preference_begin(engine);
}

/* Predicts only the last row of a continued text, because only this row predicts a new token. In a batch of several
 * texts each text has one row. */
static cs_tensor predict(cs_pass *pass, cs_unit *unit, cs_tensor x, bool continues)
{
    if (continues && cs_pass_batch(pass) == 1)
        x = cs_matrix_rows(x, cs_rows(x) - 1, 1);
    cs_tensor output = { 0 };
    unit->kind->predict(unit, pass, x, &output);
    return output;
}

/* Runs unit i. The last unit returns one loss for each row, or its prediction; every other unit returns rows x
 * width. */
static cs_tensor run_unit(cs_engine *engine, cs_pass *pass, int i, cs_tensor x, const ce_forward_input *input)
{
    cs_unit *unit = engine->model->units[i];
    bool last = i == engine->model->count - 1;
    int64_t rows = last ? cs_pass_batch(pass) * cs_pass_length(pass) : ce_pass_rows(pass);
    if (last && input->predict)
        return predict(pass, unit, x, input->sequences);
    if (last && cs_pass_training(pass)) {
        weigh(engine, rows);
        ce_backward_open(engine, i);
    }
    cs_tensor y = cs_pass_make(pass, last ? CS_F32 : cs_pass_dtype(pass), rows, last ? 1 : engine->model->width);
    unit->kind->forward(unit, pass, x, y);
    if (last && ce_pass_weighs_later(pass))
        ce_fatal(CS_UNSUPPORTED,
                 "not supported: cspeed.dpo with this model, because its last unit (%s) is not a "
                 "cross-entropy, cs_entropy_forward",
                 unit->kind->name);
    return y;
}

cs_tensor ce_forward_units(cs_engine *engine, cs_pass *pass, const ce_forward_input *given)
{
    ce_forward_input input = ce_upload_batch(engine, given);
    ce_pass_batch_info info = batch_info(engine, &input);
    bool training = input.mode == CE_PASS_TRAINING;
    bool recompute = training && engine->settings->recompute == CE_RECOMPUTE_UNIT;
    int last = engine->model->count - 1;
    cs_tensor x = input.inputs;
    engine->batch.targets = input.targets;
    engine->batch.references = input.references;
    CE_OBSERVE(engine, units_begin, (engine, &input));
    ce_pass_begin(pass, &info);
    engine->ahead = -1;
    for (int i = 0; i <= last; i++) {
        ce_walk_enter(engine, pass, i, CE_DOWN);
        int mark = ce_pass_mark(pass);
        cs_tensor y = run_unit(engine, pass, i, x, &input);
        ce_pass_hold(pass, y);
        bool skipped = training && i < engine->model->first_trained; /* backward does not run this unit */
        if (skipped || (recompute && i < last))
            ce_pass_rewind(pass, mark);
        if (recompute && i < last && !skipped)
            engine->inputs[i] = x;
        else
            ce_pass_let_go(pass, x);
        ce_walk_leave(engine, pass, i, CE_DOWN, !(training && i == last));
        x = y;
    }
    CE_OBSERVE(engine, units_end, (engine));
    return x;
}

/* Returns the number of rows that count in the loss: rows of tokens and of classes that have a target; of numbers, all. */
static int64_t count_targets(cs_tensor targets)
{
    if (targets.dtype != CS_I32)
        return targets.shape[0];
    int64_t counted = 0, count = cs_count(targets);
    const int32_t *target = targets.data;
    for (int64_t i = 0; i < count; i++)
        counted += target[i] >= 0;
    return counted;
}

void ce_forward_check(const cs_engine *engine, const cs_batch *batch, const char *verb, bool references)
{
    ce_misuse_given(verb, "batch", (const void *const[]){ batch }, 1);
    bool tokens = engine->model->inputs == 0;
    int64_t samples = engine->sequences, columns = tokens ? engine->length : engine->model->inputs;
    cs_tensor inputs = batch->inputs, targets = batch->targets;
    if (inputs.dims != 2 || inputs.dtype != (tokens ? CS_I32 : CS_F32) || inputs.shape[0] != samples ||
        inputs.shape[1] != columns)
        ce_misuse(verb, "inputs must be %s (%lld, %lld): samples of a micro-batch and %s; they are (%lld, %lld)",
                  tokens ? "CS_I32" : "CS_F32", (long long)samples, (long long)columns,
                  tokens ? "seq_len" : "inputs of a sample", (long long)inputs.shape[0], (long long)inputs.shape[1]);
    if (batch->starts.data && (!tokens || cs_count(batch->starts) != cs_count(inputs)))
        ce_misuse(verb, "starts are allowed only with tokens, one for each token");
    if (references && ce_preference_is_on(engine) && !engine->settings->preference.reference_free &&
        (!batch->references.data || cs_count(batch->references) != samples))
        ce_misuse(verb, "with cspeed.dpo references are needed, one for each of the %lld sequences",
                  (long long)samples);
    if (!targets.data || targets.shape[0] != samples || (tokens && cs_count(targets) != cs_count(inputs)))
        ce_misuse(verb, "inputs and targets must have the same number of samples, %lld", (long long)samples);
    if (targets.dtype != (tokens ? CS_I32 : engine->model->target_dtype))
        ce_misuse(verb, "targets of this model are %s",
                  tokens || engine->model->target_dtype == CS_I32 ? "CS_I32" : "CS_F32");
}

/* Micro-batch m of lane l is number m * lanes + l of all micro-batches of the step. */
int64_t ce_forward_sample(const cs_engine *engine, int64_t b)
{
    int64_t number = engine->micro * ce_mesh_lanes(&engine->mesh) + ce_mesh_lane(&engine->mesh);
    return engine->metrics.samples + number * engine->settings->micro_batch + b;
}

/* Derives the key of each sample's dropout from the seed and the sample's number. */
static void derive_dropout_keys(cs_engine *engine, const cs_batch *batch)
{
    uint64_t seed = ce_rng_key((uint64_t)engine->settings->seed, "dropout");
    for (int64_t b = 0; b < batch->inputs.shape[0]; b++)
        engine->keys[b] =
            ce_rng_mix(seed, (uint64_t)(batch->samples ? batch->samples[b] : ce_forward_sample(engine, b)));
}

static void compute_losses(cs_engine *engine, const cs_batch *batch)
{
    engine->loss_rows = ce_forward_units(engine, engine->pass,
                                         &(ce_forward_input){ .mode = CE_PASS_TRAINING,
                                                              .inputs = batch->inputs,
                                                              .targets = batch->targets,
                                                              .starts = batch->starts,
                                                              .references = batch->references });
    int64_t targets = count_targets(batch->targets);
    engine->targets_counted += targets;
    if (ce_preference_is_on(engine)) {
        engine->loss_rows_counted += ce_preference_count(batch->targets);
    } else {
        engine->loss_rows_counted += targets;
        ce_step_judge_add(engine, engine->loss_rows);
    }
}

static void forward_batch(cs_engine *engine, const cs_batch *whole)
{
    cs_batch batch = *whole;
    CE_OBSERVE(engine, batch, (engine, &batch));
    if (engine->micro == 0)
        ce_step_judge_begin(engine);
    derive_dropout_keys(engine, whole);
    compute_losses(engine, &batch);
}

/* Ends the process after the step at which a signal has asked for it (cs_save_asked). */
static void end_if_asked(cs_engine *engine)
{
    if (!ce_asked_ends() || engine->save_asked)
        return;
    const char *kept;
    CS_MUST(ce_phase_end_run(engine, &kept));
    ce_asked_end();
}

void cs_forward(cs_engine *engine, const cs_batch *batch)
{
    end_if_asked(engine);
    ce_phase_begin(engine, CE_FORWARD);
    if (engine->config->reads)
        ce_fatal(CS_MISUSE, "cs_forward: this model was opened by cs_reopen, which does not train; to train it, use "
                            "a configuration with cspeed.load");
    engine->fresh = false;
    ce_forward_check(engine, batch, "cs_forward", true);
    forward_batch(engine, batch);
    ce_phase_end(engine, CE_FORWARD);
}
