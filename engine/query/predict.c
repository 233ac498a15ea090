/* predict.c - cs_predict, and the forward passes of a cs_context: computes the outputs of the last unit instead of its
 * loss. */
#include "query/query.h"
#include "base/misuse.h"
#include "base/must.h"

#include <stdlib.h>

struct ce_predictor {
    cs_pass *pass;    /* the engine's pass, or a larger pass; NULL until the first prediction */
    void *block;      /* memory of the pass; NULL if it is the engine's */
    cs_tensor output; /* output of the last prediction, valid until the next public call */
};

/* Returns the bytes that the predictor must have; 0 means that engine->pass is large enough. cs_predict computes all
 * rows of the output and needs memory.prediction. A cs_context computes one row of logits for each text. For up to
 * `length` texts the result is an upper bound: continuation.text, plus continuation.row (the bytes of a row of logits)
 * for each text. continuation.text is enough for all tensors except the logits, because they have at most `length`
 * rows. For more than `length` texts the result is memory.prediction. */
static size_t prediction_bytes(const cs_engine *engine, const ce_forward_input *input)
{
    int64_t texts = input->inputs.shape[0];
    if (!input->sequences || texts > engine->length)
        return engine->memory.prediction;
    return engine->continuation.text + (size_t)texts * (size_t)ce_round_up((int64_t)engine->continuation.row, 64);
}

static void close_pass(cs_engine *engine, ce_predictor *predictor)
{
    if (predictor->pass != engine->pass)
        ce_pass_close(predictor->pass);
    ce_device_free(engine->device, predictor->block);
    *predictor = (ce_predictor){ 0 };
}

void ce_predict_close(cs_engine *engine)
{
    if (engine->predictor)
        close_pass(engine, engine->predictor);
    free(engine->predictor);
}

/* Releases the output of the last prediction. */
static void drop(cs_engine *engine)
{
    ce_predictor *predictor = engine->predictor;
    if (!predictor || !predictor->output.data)
        return;
    ce_pass_let_go(predictor->pass, predictor->output);
    predictor->output = (cs_tensor){ 0 };
    ce_pass_end(predictor->pass);
}

static void begin_phase(cs_engine *engine, ce_phase phase)
{
    if (phase == CE_FORWARD || phase == CE_EVALUATE)
        drop(engine);
}

const ce_observer ce_predict_observer = { .phase_begin = begin_phase };

/* Gives engine->predictor a pass of at least `bytes`. A loss needs only chunks of the last unit's output, but a
 * prediction needs all wanted rows of that output. If these rows need more than the memory of a step, predictions get
 * memory of their own. */
static cs_status open_pass(cs_engine *engine, size_t bytes)
{
    const ce_settings *settings = engine->settings;
    if (!engine->predictor)
        engine->predictor = ce_must_alloc(sizeof *engine->predictor);
    ce_predictor *predictor = engine->predictor;
    if (!predictor->pass)
        predictor->pass = engine->pass;
    if (ce_pass_block_bytes(predictor->pass) >= bytes)
        return CS_OK;
    close_pass(engine, predictor);
    predictor->block = ce_device_alloc(engine->device, bytes);
    ce_pass_shape shape = { .device = engine->device,
                            .dtype = settings->precision.values,
                            .products = settings->precision.products,
                            .block = predictor->block,
                            .block_bytes = bytes,
                            .chunk_bytes = engine->chunk_bytes,
                            .exchange = engine->exchange,
                            .cuts_rows = engine->model->tp.rows };
    return ce_pass_open(&predictor->pass, &shape);
}

/* The output stays valid until the next public call. */
cs_status ce_predict_output(cs_engine *engine, const char *verb, const ce_forward_input *input, cs_tensor *output)
{
    cs_unit *last = engine->model->units[engine->model->count - 1];
    int64_t longest = engine->model->inputs ? engine->model->inputs : engine->length;
    ce_phase_expect(engine, CE_FORWARD, verb);
    drop(engine);
    if (!last->kind->predict)
        return ce_fail(CS_UNSUPPORTED, "not supported: %s, because the last unit (%s) has no predict function", verb,
                       last->kind->name);
    bool fits = input->inputs.shape[0] <= engine->settings->micro_batch && input->inputs.shape[1] <= longest;
    if (!fits && !input->sequences)
        return ce_fail(CS_BAD_CONFIG, "%s: a batch of %lld x %lld is larger than the %lld x %lld of training", verb,
                       (long long)input->inputs.shape[0], (long long)input->inputs.shape[1],
                       (long long)engine->settings->micro_batch, (long long)longest);
    CE_TRY(open_pass(engine, prediction_bytes(engine, input)));
    *output = engine->predictor->output = ce_forward_units(engine, engine->predictor->pass, input);
    if (!output->data)
        ce_misuse(verb, "the function predict of the last unit (%s) has not set its output", last->kind->name);
    return ce_upload_fetch_output(engine, output);
}

cs_status cs_predict(cs_engine *engine, const cs_batch *batch, cs_tensor *output)
{
    CE_GIVEN(engine, batch, output);
    return ce_predict_output(engine, "cs_predict",
                             &(ce_forward_input){ .mode = CE_PASS_EVALUATION,
                                                  .inputs = batch->inputs,
                                                  .starts = batch->starts,
                                                  .predict = true },
                             output);
}
