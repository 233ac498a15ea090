/* evaluate.c - cs_evaluate, cs_score, cs_predict: forward passes that keep no activations. The mean loss is one
 * division of exact sums, so its bits do not depend on the number of ranks. */
#include "engine.h"
#include "base/log.h"
#include "base/must.h"
#include "base/progress.h"
#include "data/data.h"
#include "input/loader.h"

#include <math.h>

/* Sums over this rank's batches, in device memory; then over all ranks. */
typedef struct {
    ce_exact loss, hits;
    int64_t rows;
} sums;

/* Evaluates one batch and adds to *all. Returns the number of rows that have a target. */
static int64_t add_batch(cs_engine *engine, const cs_batch *batch, cs_tensor hits, sums *all)
{
    const int32_t *target = batch->targets.data;
    int64_t rows = 0;
    cs_stream *stream = cs_pass_stream(engine->pass);
    if (hits.data)
        cs_op_fill(stream, hits, -1); /* remains if the last unit does not count hits */
    cs_tensor loss = ce_forward_units(engine, &(ce_forward_input){ .mode = CS_PASS_EVALUATION,
                                                                   .inputs = batch->inputs,
                                                                   .targets = batch->targets,
                                                                   .starts = batch->starts,
                                                                   .hits = hits });
    ce_state_sum(stream, &all->loss, loss.data, cs_count(loss));
    if (hits.data)
        ce_state_sum(stream, &all->hits, hits.data, cs_count(hits));
    ce_pass_let_go(engine->pass, loss);
    ce_pass_end(engine->pass);
    for (int64_t i = 0; i < cs_count(batch->targets); i++)
        rows += target[i] >= 0;
    return rows;
}

/* Whether a forward pass needs every rank, because each has a part of the parameters in memory of its own. */
static bool gathers_values(const cs_engine *engine)
{
    return engine->zero.stage.params == CS_SHARDED && !engine->zero.common && engine->world.size > 1;
}

/* hits: scratch of shape (rows, 1), or absent if only the loss is wanted. */
static cs_scores evaluate(cs_engine *engine, cs_data *data, int64_t batches, cs_tensor hits)
{
    sums all, *there = ce_device_alloc(engine->device, sizeof all);
    int64_t rows = 0;
    int64_t micro = engine->settings->micro_batch;
    int64_t whole = (ce_windows_count(data->windows) + micro - 1) / micro;
    int64_t wanted = batches > 0 && batches < whole ? batches : whole;
    bool alone = engine->settings->eval_on == CS_EVALUATE_ON_RANK0;
    int sharers = alone ? 1 : engine->world.size; /* ranks that divide the batches */
    int64_t rounds = (wanted + sharers - 1) / sharers;
    if (alone && engine->world.rank > 0 && !gathers_values(engine))
        rounds = 0;
    ce_progress progress;
    ce_phase_begin(engine, CS_EVALUATE);
    ce_step_settle(engine); /* prints the messages about the previous step first */
    ce_progress_begin(&progress, "evaluating", "batches", wanted);
    for (int64_t round = 0; round < rounds; round++) {
        int64_t first = round * sharers, lane = first + engine->world.rank;
        bool mine = engine->world.rank < sharers && lane < wanted;
        cs_batch batch = ce_loader_lane(data, mine ? lane : -1);
        rows += add_batch(engine, &batch, hits, there);
        ce_progress_add(&progress, wanted - first < sharers ? wanted - first : sharers);
    }
    ce_walk_settle(engine);
    ce_progress_end(&progress);
    ce_stream_fetch(cs_pass_stream(engine->pass), &all, there, sizeof all);
    ce_device_free(engine->device, there);
    all.rows = rows;
    cs_comm_all_reduce(engine->comm, &all, sizeof all / sizeof(int64_t), CS_I64, CS_SUM);
    ce_phase_end(engine, CS_EVALUATE);
    double correct = ce_exact_value(&all.hits);
    return (cs_scores){ all.rows ? ce_exact_value(&all.loss) / (double)all.rows : (double)NAN, all.rows,
                        correct < 0 ? -1 : (int64_t)correct };
}

cs_status cs_evaluate(cs_engine *engine, cs_data *data, int64_t batches, double *loss)
{
    ce_phase_expect(engine, CS_FORWARD, "cs_evaluate");
    ce_forward_drop_prediction(engine);
    *loss = evaluate(engine, data, batches, (cs_tensor){ 0 }).loss;
    return CS_OK;
}

cs_status cs_score(cs_engine *engine, cs_data *data, int64_t batches, cs_scores *scores)
{
    int64_t rows = engine->settings->micro_batch * engine->length;
    ce_phase_expect(engine, CS_FORWARD, "cs_score");
    ce_forward_drop_prediction(engine);
    float *hits = ce_device_alloc(engine->device, (size_t)rows * sizeof *hits);
    *scores = evaluate(engine, data, batches, cs_matrix(hits, CS_F32, rows, 1));
    ce_device_free(engine->device, hits);
    return CS_OK;
}

/* Returns the bytes of the pass of a prediction. cs_predict returns all rows of the output, contexts one row for each
 * text. The sum is an upper bound: the other tensors of fewer rows need less, and the logits may lie behind them. */
static size_t prediction_bytes(const cs_engine *engine, const ce_forward_input *input)
{
    int64_t texts = input->inputs.shape[0];
    if (!input->sequences || texts > engine->length)
        return engine->memory.prediction;
    return engine->continuation.text + (size_t)texts * (size_t)ce_round_up((int64_t)engine->continuation.row, 64);
}

void ce_evaluate_close(cs_engine *engine)
{
    if (engine->predictor != engine->pass)
        ce_pass_close(engine->predictor);
    if (engine->predictor_block)
        ce_device_free(engine->device, engine->predictor_block);
    engine->predictor = NULL;
    engine->predictor_block = NULL;
}

/* Sets engine->predictor to a pass of at least `bytes`. A loss needs only chunks of the last unit's output, and a
 * prediction all rows of it that are wanted: where these are larger than the memory of a step, predictions have memory
 * of their own. */
static cs_status open_predictor(cs_engine *engine, size_t bytes)
{
    const ce_settings *settings = engine->settings;
    if (!engine->predictor)
        engine->predictor = engine->pass;
    if (ce_pass_room(engine->predictor) >= bytes)
        return CS_OK;
    ce_evaluate_close(engine);
    engine->predictor_block = ce_device_alloc(engine->device, bytes);
    ce_pass_shape shape = {
        engine->device, settings->precision.values, settings->precision.products, engine->predictor_block,
        bytes,          engine->chunk_bytes
    };
    return ce_pass_open(&engine->predictor, &shape);
}

static cs_tensor predict(cs_engine *engine, const ce_forward_input *input)
{
    cs_pass *pass = engine->pass;
    engine->pass = engine->predictor;
    cs_tensor output = ce_forward_units(engine, input);
    engine->pass = pass;
    return output;
}

/* The output stays valid until the next call of a verb. */
cs_status ce_evaluate_output(cs_engine *engine, const char *verb, const ce_forward_input *input, cs_tensor *output)
{
    cs_unit *last = engine->model->units[engine->model->count - 1];
    int64_t longest = engine->model->inputs ? engine->model->inputs : engine->length;
    ce_phase_expect(engine, CS_FORWARD, verb);
    ce_forward_drop_prediction(engine);
    if (!last->kind->predict)
        return ce_fail(CS_UNSUPPORTED, "not supported: %s, because the last unit (%s) has no predict function", verb,
                       last->kind->name);
    bool fits = input->inputs.shape[0] <= engine->settings->micro_batch && input->inputs.shape[1] <= longest;
    if (!fits && !input->sequences)
        return ce_fail(CS_BAD_CONFIG, "%s: a batch of %lld x %lld is larger than the %lld x %lld of training", verb,
                       (long long)input->inputs.shape[0], (long long)input->inputs.shape[1],
                       (long long)engine->settings->micro_batch, (long long)longest);
    CS_TRY(open_predictor(engine, prediction_bytes(engine, input)));
    engine->prediction = predict(engine, input);
    *output = engine->prediction;
    return ce_upload_fetch_output(engine, output);
}

cs_status cs_predict(cs_engine *engine, const cs_batch *batch, cs_tensor *output)
{
    return ce_evaluate_output(engine, "cs_predict",
                              &(ce_forward_input){ .mode = CS_PASS_EVALUATION,
                                                   .inputs = batch->inputs,
                                                   .starts = batch->starts,
                                                   .predict = true },
                              output);
}
