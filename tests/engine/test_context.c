/* test_context.c - incremental inference: a text that is read in pieces gives the same logits as the text read at
 * once. */
#include "suite.h"
#include "near.h"
#include "runs.h"
#include "core/engine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { POSITIONS = 16, LOGITS = POSITIONS * RUN_VOCABULARY };

#define SMALL                                                                                                          \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"hidden_size\": 32, \"max_position_embeddings\": 16, "     \
    "\"vocab_size\": 61, \"initializer_range\": 0.1, "
static const char *const models[] = {
    "cspeed.model={\"model_type\": \"gpt2\", \"n_layer\": 3, \"n_head\": 2, \"n_embd\": 24, \"n_positions\": 16, "
    "\"vocab_size\": 61, \"initializer_range\": 0.05}",
    "cspeed.model={\"model_type\": \"llama\", \"num_hidden_layers\": 2, \"num_attention_heads\": 6, "
    "\"num_key_value_heads\": 2, \"hidden_size\": 48, \"intermediate_size\": 64, \"max_position_embeddings\": 16, "
    "\"vocab_size\": 61, \"initializer_range\": 0.05, \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0}}",
    "cspeed.model={\"model_type\": \"mistral\", \"num_hidden_layers\": 3, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 4, \"hidden_size\": 32, \"intermediate_size\": 64, \"max_position_embeddings\": 16, "
    "\"vocab_size\": 61, \"initializer_range\": 0.05, \"sliding_window\": 5}",
    "cspeed.model={\"model_type\": \"qwen3\", \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
    "\"num_key_value_heads\": 2, \"head_dim\": 16, \"hidden_size\": 32, \"intermediate_size\": 64, "
    "\"max_position_embeddings\": 16, \"vocab_size\": 61, \"initializer_range\": 0.05, \"tie_word_embeddings\": true}",
    "cspeed.model={\"model_type\": \"gpt_neox\", " SMALL "\"intermediate_size\": 64}",
    "cspeed.model={\"model_type\": \"gemma2\", " SMALL
    "\"intermediate_size\": 64, \"head_dim\": 8, \"num_key_value_heads\": 2, \"sliding_window\": 5, "
    "\"attn_logit_softcapping\": 2}",
    "cspeed.model={\"model_type\": \"gemma3_text\", " SMALL
    "\"intermediate_size\": 64, \"head_dim\": 8, \"num_key_value_heads\": 2, \"sliding_window\": 5, "
    "\"sliding_window_pattern\": 2}",
    "cspeed.model={\"model_type\": \"olmo2\", " SMALL "\"intermediate_size\": 64}",
    "cspeed.model={\"model_type\": \"granite\", " SMALL
    "\"intermediate_size\": 64, \"attention_multiplier\": 0.5, \"logits_scaling\": 2}",
    "cspeed.model={\"model_type\": \"falcon\", " SMALL "\"new_decoder_architecture\": true, \"num_kv_heads\": 2}",
};
enum { MODELS = sizeof models / sizeof *models };

typedef struct {
    const char *precision, *threads;
    double within; /* bound of the difference, relative to the largest logit */
} arithmetic;

static const arithmetic ways[] = {
    { "fp32", "1", 1e-6 },
    { "fp32", "2", 1e-6 },
    { "bf16", "1", 2e-2 },
    { "fp16", "2", 2e-3 },
};
enum { WAYS = sizeof ways / sizeof *ways };

static int32_t tokens[POSITIONS];

static cs_engine *open_model(const char *model, const arithmetic *way, const char *length)
{
    run_spec spec = { .world = 1,
                      .steps = 1,
                      .micro = 1,
                      .precision = way->precision,
                      .threads = way->threads,
                      .set = { model, length } };
    for (int i = 0; i < POSITIONS; i++)
        tokens[i] = (i * i * 7 + 3 * i) % RUN_VOCABULARY;
    return run_open(&spec, NULL);
}

static void copy_rows(float *to, cs_tensor from, int64_t first)
{
    ck_assert_int_eq(cs_columns(from), RUN_VOCABULARY);
    for (int64_t i = 0; i < cs_count(from); i++)
        to[first * RUN_VOCABULARY + i] = cs_element(from, i);
}

static void read_at_once(cs_engine *engine, float *logits)
{
    cs_tensor output;
    cs_batch batch = { .inputs = cs_matrix(tokens, CS_I32, 1, POSITIONS) };
    CS_MUST(cs_predict(engine, &batch, &output));
    copy_rows(logits, output, 0);
}

static void read_in_pieces(cs_context *context, int64_t piece, float *logits)
{
    cs_tensor output;
    for (int64_t from = 0; from < POSITIONS; from += piece) {
        int64_t count = from + piece < POSITIONS ? piece : POSITIONS - from;
        ck_assert_int_eq(cs_context_count(context), from);
        CS_MUST(cs_context_read(context, tokens + from, count, &output));
        ck_assert_int_eq(cs_rows(output), 1);
        copy_rows(logits, output, from + count - 1);
    }
    ck_assert_int_eq(cs_context_count(context), POSITIONS);
}

/* Compares the logits of the last row of each piece. */
static void check_same(const float *whole, const float *pieces, const arithmetic *way, int64_t piece)
{
    double max = 0, apart = 0;
    for (int64_t i = 0; i < LOGITS; i++) {
        int64_t row = i / RUN_VOCABULARY;
        if ((row + 1) % piece != 0 && row != POSITIONS - 1)
            continue;
        max = fmax(max, fabs((double)whole[i]));
        apart = fmax(apart, fabs((double)whole[i] - (double)pieces[i]));
    }
    ck_assert_double_gt(max, 0.1);
    ck_assert_msg(apart <= way->within * max, "%s, pieces of %d: %g apart, of %g", way->precision, (int)piece, apart,
                  max);
}

static void check_model(const char *model, const arithmetic *way)
{
    static float whole[LOGITS], pieces[LOGITS];
    cs_engine *engine = open_model(model, way, "cspeed.data.seq_len=16");
    cs_context *context;
    read_at_once(engine, whole);
    CS_MUST(cs_context_open(&context, engine, 0));
    for (int64_t piece = 1; piece <= POSITIONS; piece++) {
        memset(pieces, 0, sizeof pieces);
        read_in_pieces(context, piece, pieces);
        check_same(whole, pieces, way, piece);
        cs_context_clear(context);
    }
    cs_context_close(context);
    cs_destroy(engine);
}

START_TEST(every_position_has_the_same_logits)
{
    for (int model = 0; model < MODELS; model++)
        for (int i = 0; i < WAYS; i++)
            check_model(models[model], &ways[i]);
}
END_TEST

/* Four contexts of different lengths make seven steps together; each must have the logits that it has alone. */
enum { TEXTS = 4, STEPS = 7 };

static void check_batch(const char *model, const arithmetic *way)
{
    static float alone[TEXTS][LOGITS];
    cs_engine *engine = open_model(model, way, "cspeed.data.seq_len=16");
    cs_context *contexts[TEXTS];
    cs_tensor output;
    int32_t next[TEXTS];
    for (int text = 0; text < TEXTS; text++) {
        CS_MUST(cs_context_open(&contexts[text], engine, 0));
        for (int i = 0; i <= 2 * text + STEPS; i++) {
            CS_MUST(cs_context_read(contexts[text], &tokens[(i + text) % POSITIONS], 1, &output));
            copy_rows(alone[text], output, i);
        }
        cs_context_clear(contexts[text]);
        for (int i = 0; i <= 2 * text; i++)
            CS_MUST(cs_context_read(contexts[text], &tokens[(i + text) % POSITIONS], 1, &output));
    }
    for (int step = 1; step <= STEPS; step++) {
        for (int text = 0; text < TEXTS; text++)
            next[text] = tokens[(2 * text + step + text) % POSITIONS];
        CS_MUST(cs_contexts_step(contexts, TEXTS, next, &output));
        ck_assert_int_eq(cs_rows(output), TEXTS);
        for (int i = 0; i < TEXTS * RUN_VOCABULARY; i++) {
            int text = i / RUN_VOCABULARY, column = i % RUN_VOCABULARY;
            float want = alone[text][(2 * text + step) * RUN_VOCABULARY + column];
            ck_assert_float_eq(cs_element(output, i), want);
        }
    }
    for (int text = 0; text < TEXTS; text++) {
        ck_assert_int_eq(cs_context_count(contexts[text]), 2 * text + STEPS + 1);
        cs_context_close(contexts[text]);
    }
    cs_destroy(engine);
}

START_TEST(texts_of_a_batch_are_the_same_as_alone)
{
    for (int model = 0; model < MODELS; model++)
        for (int i = 0; i < WAYS; i++)
            check_batch(models[model], &ways[i]);
}
END_TEST

/* Pieces of five tokens: the last piece of sixteen tokens has one row. */
START_TEST(a_long_text_is_read_in_pieces)
{
    static float whole[LOGITS];
    cs_engine *engine = open_model(models[0], &ways[0], "cspeed.data.seq_len=16");
    cs_context *context;
    cs_tensor output;
    read_at_once(engine, whole);
    cs_destroy(engine);
    engine = open_model(models[0], &ways[0], "cspeed.data.seq_len=5");
    CS_MUST(cs_context_open(&context, engine, POSITIONS));
    CS_MUST(cs_context_read(context, tokens, POSITIONS, &output));
    ck_assert_int_eq(cs_rows(output), 1);
    for (int64_t i = 0; i < RUN_VOCABULARY; i++)
        ck_assert_double_eq_tol(cs_element(output, i), whole[(POSITIONS - 1) * RUN_VOCABULARY + i], 1e-5);
    cs_context_close(context);
    cs_destroy(engine);
}
END_TEST

/* Reading a context between the steps of a training does not change the training. */
START_TEST(training_does_not_notice)
{
    run_spec spec = { .world = 1, .stage = 0, .steps = 3, .precision = "fp32", .dropout = 0.1 };
    float loss[2][3];
    for (int reads = 0; reads < 2; reads++) {
        cs_engine *engine = run_open(&spec, NULL);
        cs_context *context;
        cs_tensor output;
        CS_MUST(cs_context_open(&context, engine, 0));
        for (int step = 0; step < 3; step++) {
            if (reads)
                CS_MUST(cs_context_read(context, tokens, 5, &output));
            run_step(engine, &spec);
            loss[reads][step] = cs_loss(engine);
        }
        cs_context_close(context);
        cs_destroy(engine);
    }
    ck_assert_mem_eq(loss[0], loss[1], sizeof loss[0]);
}
END_TEST

START_TEST(what_cannot_be_read_is_refused)
{
    cs_engine *engine = open_model(models[0], &ways[0], "cspeed.data.seq_len=16");
    cs_context *context;
    cs_tensor output;
    int32_t strange = RUN_VOCABULARY;
    ck_assert_int_eq(cs_context_open(&context, engine, POSITIONS + 1), CS_BAD_CONFIG);
    ck_assert_ptr_nonnull(strstr(cs_error(), "17 positions were asked for, but the model has 16"));
    CS_MUST(cs_context_open(&context, engine, 4));
    ck_assert_int_eq(cs_context_read(context, tokens, 5, &output), CS_BAD_CONFIG);
    ck_assert_int_eq(cs_context_read(context, &strange, 1, &output), CS_BAD_CONFIG);
    ck_assert_int_eq(cs_context_read(context, tokens, 0, &output), CS_BAD_CONFIG);
    ck_assert_int_eq(cs_context_count(context), 0);
    CS_MUST(cs_context_read(context, tokens, 4, &output));
    ck_assert_int_eq(cs_context_read(context, tokens, 1, &output), CS_BAD_CONFIG);
    ck_assert_int_eq(cs_contexts_step(&context, 1, tokens, &output), CS_BAD_CONFIG);
    ck_assert_ptr_nonnull(strstr(cs_error(), "cs_contexts_step: 1 tokens were given; possible are 1 to 0"));
    ck_assert_int_eq(cs_contexts_step(&context, 0, tokens, &output), CS_BAD_CONFIG);
    cs_context *many[17] = { context };
    ck_assert_int_eq(cs_contexts_step(many, 17, tokens, &output), CS_BAD_CONFIG);
    ck_assert_ptr_nonnull(strstr(cs_error(), "17 contexts were given; possible are 1 to 16, the micro-batch size"));
    cs_context_close(context);
    cs_generation *generation;
    int32_t next;
    const cs_generation_options one = { .max = 1 };
    ck_assert_int_eq(cs_generation_open(&generation, engine, tokens, 0, &one), CS_MISUSE);
    CS_MUST(cs_generation_open(&generation, engine, tokens, POSITIONS, &one));
    CS_MUST(cs_generations_next(&generation, 1, &next));
    ck_assert_int_eq(cs_generations_next(&generation, 1, &next), CS_MISUSE);
    ck_assert_ptr_nonnull(strstr(cs_error(), "the text is complete, it has 1 tokens"));
    cs_generation_close(generation);
    cs_destroy(engine);
}
END_TEST

/* The CPU computes the loss of this vocabulary in chunks of 64 rows, and one text fits into the memory of a chunk. A
 * step of 100 texts allocates 100 rows of logits, not the 128 rows of a prediction of all positions. */
START_TEST(contexts_reserve_only_the_rows_that_they_return)
{
    enum { MANY = 100, CLASSES = 131072 };
    static const char model[] = "cspeed.model={\"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 1, \"n_embd\": 8, "
                                "\"n_positions\": 128, \"vocab_size\": 131072}";
    if (strcmp(near_device(), "cpu") != 0)
        return;
    const size_t row = CLASSES * sizeof(float);
    cs_engine *engine = open_model(model, &ways[0], "cspeed.data.seq_len=128");
    cs_context *contexts[MANY];
    int32_t last[MANY];
    cs_tensor logits;
    for (int i = 0; i < MANY; i++) {
        CS_MUST(cs_context_open(&contexts[i], engine, 2));
        last[i] = i * 1000;
    }
    size_t before = ce_device_allocated(engine->device) - ce_device_workspace(engine->device);
    CS_MUST(cs_contexts_step(contexts + MANY - 1, 1, last + MANY - 1, &logits));
    float *alone = malloc(row);
    memcpy(alone, logits.data, row);
    size_t one = ce_device_allocated(engine->device) - ce_device_workspace(engine->device);
    cs_context_clear(contexts[MANY - 1]);
    CS_MUST(cs_contexts_step(contexts, MANY, last, &logits));
    size_t many = ce_device_allocated(engine->device) - ce_device_workspace(engine->device);
    ck_assert_uint_ge(cs_memory_of(engine).prediction, 128 * row);
    ck_assert_uint_lt(one - before, row);
    ck_assert_uint_ge(many - one, MANY * row);
    ck_assert_uint_lt(many - one, (MANY + 3) * row);
    for (int i = 0; i < CLASSES; i++)
        ck_assert_float_eq_tol(cs_element(logits, (int64_t)(MANY - 1) * CLASSES + i), alone[i], 1e-5F);
    for (int i = 0; i < MANY; i++)
        cs_context_close(contexts[i]);
    free(alone);
    cs_destroy(engine);
}
END_TEST

SUITE_MAIN("context", every_position_has_the_same_logits, texts_of_a_batch_are_the_same_as_alone,
           a_long_text_is_read_in_pieces, training_does_not_notice, what_cannot_be_read_is_refused,
           contexts_reserve_only_the_rows_that_they_return)
