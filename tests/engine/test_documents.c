/* test_documents.c - packed documents: losses and gradients equal those of each document in its own sample. */
#include "suite.h"
#include "pieces.h"
#include "runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SIZES                                                                                                          \
    "\"vocab_size\": 61, \"hidden_size\": 24, \"intermediate_size\": 36, \"num_hidden_layers\": 2, "                   \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 16, "                        \
    "\"initializer_range\": 0.1"

enum { ROWS = 2 * RUN_LENGTH };

/* cs_batch.starts of both samples: for each token the position at which its document begins. The first sample ends
 * inside its third document. */
static const int32_t packed[ROWS] = { 0, 0, 0, 0, 0, 5, 6, 6, 6, 6, 6, 6, 0, 0, 0, 3, 3, 3, 3, 3, 3, 3, 10, 10 };

/* Result of one micro-batch: the loss of each row, and all gradients in one array. */
typedef struct {
    float loss[ROWS];
    double *gradient;
    int64_t count;
} outcome;

static void take_gradients(outcome *out, cs_engine *engine)
{
    out->count = 0;
    for (int i = 0; i < engine->model->count; i++) {
        ce_shard_piece pieces[32];
        int count = pieces_take(engine, i, pieces);
        for (int at = 0; at < count; at++) {
            int64_t length = ce_range_length(pieces[at].range);
            out->gradient = realloc(out->gradient, (size_t)(out->count + length) * sizeof *out->gradient);
            ck_assert_ptr_nonnull(out->gradient);
            for (int64_t e = 0; e < length; e++)
                out->gradient[out->count + e] = (double)((float *)pieces[at].gradient)[e];
            out->count += length;
        }
    }
}

/* Forward and backward without a step. */
static void run(outcome *out, cs_engine *engine, const cs_batch *batch)
{
    cs_forward(engine, batch);
    ce_stream_fetch(ce_device_stream(engine->device, CE_COMPUTE), out->loss, engine->loss_rows.data, sizeof out->loss);
    cs_backward(engine);
    engine->phase = CE_FORWARD;
    take_gradients(out, engine);
}

/* Removes the targets at the borders of documents. */
static void mask_borders(int32_t *targets)
{
    for (int t = 0; t < ROWS - 1; t++)
        if (packed[t + 1] != packed[t])
            targets[t] = -1;
}

/* Makes a batch that has only the document that begins at `row`, placed at the start of the document's sample. Returns
 * the number of rows of the document. */
static int alone(cs_batch *batch, const cs_batch *from, int row)
{
    static int32_t inputs[ROWS], targets[ROWS];
    int sample = row / RUN_LENGTH * RUN_LENGTH, count = 0;
    memset(inputs, 0, sizeof inputs);
    memset(targets, -1, sizeof targets);
    while (row + count < sample + RUN_LENGTH && packed[row + count] == row - sample) {
        inputs[sample + count] = ((int32_t *)from->inputs.data)[row + count];
        targets[sample + count] = ((int32_t *)from->targets.data)[row + count];
        count++;
    }
    *batch = (cs_batch){ .inputs = cs_matrix(inputs, CS_I32, 2, RUN_LENGTH),
                         .targets = cs_matrix(targets, CS_I32, 2, RUN_LENGTH) };
    return count;
}

/* The losses equal those of the separate documents, and the gradient is the sum of the documents' gradients. */
static void check_alone(cs_engine *engine, const cs_batch *batch, const outcome *whole)
{
    outcome one = { 0 };
    double *sum = calloc((size_t)whole->count, sizeof *sum), max = 0;
    ck_assert_ptr_nonnull(sum);
    for (int row = 0, count; row < ROWS; row += count) {
        cs_batch document;
        int sample = row / RUN_LENGTH * RUN_LENGTH;
        count = alone(&document, batch, row);
        run(&one, engine, &document);
        ck_assert_int_eq(one.count, whole->count);
        for (int t = 0; t < count; t++)
            ck_assert_double_le(fabs((double)whole->loss[row + t] - (double)one.loss[sample + t]),
                                1e-6 * fabs((double)one.loss[sample + t]));
        for (int64_t e = 0; e < one.count; e++)
            sum[e] += one.gradient[e];
    }
    for (int64_t e = 0; e < whole->count; e++)
        max = fmax(max, fabs(sum[e]));
    ck_assert_double_gt(max, 0);
    for (int64_t e = 0; e < whole->count; e++)
        ck_assert_msg(fabs(whole->gradient[e] - sum[e]) <= 1e-6 * max, "gradient %lld: packed %.9g, alone %.9g",
                      (long long)e, whole->gradient[e], sum[e]);
    free(one.gradient);
    free(sum);
}

static void check_model(const char *model, const char *recompute)
{
    run_spec spec = { .world = 1, .steps = 1, .precision = "fp32", .recompute = recompute, .set = { model } };
    cs_engine *engine = run_open(&spec, NULL);
    cs_batch batch = run_batch(engine, &spec, 0);
    outcome whole = { 0 }, blind = { 0 };
    int32_t starts[ROWS];
    memcpy(starts, packed, sizeof starts);
    mask_borders(batch.targets.data);
    batch.starts = cs_matrix(starts, CS_I32, 2, RUN_LENGTH);
    run(&whole, engine, &batch);
    check_alone(engine, &batch, &whole);
    batch.starts = (cs_tensor){ 0 };
    run(&blind, engine, &batch);
    ck_assert_msg(fabsf(blind.loss[7] - whole.loss[7]) > 1e-4f, "starts change nothing, so nothing was tested");
    free(whole.gradient);
    free(blind.gradient);
    cs_destroy(engine);
}

START_TEST(packed_documents_train_as_if_alone)
{
    static const char *const models[] = { NULL, "cspeed.model={\"model_type\": \"llama\", " SIZES "}",
                                          "cspeed.model={\"model_type\": \"mistral\", \"sliding_window\": 3, " SIZES
                                          "}",
                                          "cspeed.model={\"model_type\": \"qwen3\", \"head_dim\": 6, " SIZES "}" };
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        check_model(models[i], "none");
        check_model(models[i], "unit");
    }
}
END_TEST

/* Samples that have one document each give the same bits with `starts` as without. */
START_TEST(one_document_equals_no_packing)
{
    static const char *const precisions[] = { "fp32", "bf16", "fp16" };
    static int32_t starts[ROWS];
    for (int i = 0; i < 3; i++) {
        run_spec spec = { .world = 1, .steps = 1, .precision = precisions[i], .recompute = "none", .dropout = 0.2 };
        cs_engine *engine = run_open(&spec, NULL);
        cs_batch batch = run_batch(engine, &spec, 0);
        outcome plain = { 0 }, listed = { 0 };
        run(&plain, engine, &batch);
        batch.starts = cs_matrix(starts, CS_I32, 2, RUN_LENGTH);
        run(&listed, engine, &batch);
        ck_assert_mem_eq(plain.loss, listed.loss, sizeof plain.loss);
        ck_assert_mem_eq(plain.gradient, listed.gradient, (size_t)plain.count * sizeof *plain.gradient);
        free(plain.gradient);
        free(listed.gradient);
        cs_destroy(engine);
    }
}
END_TEST

SUITE_MAIN("documents", packed_documents_train_as_if_alone, one_document_equals_no_packing)
