/* test_gradients.c - the gradient of every parameter compared with finite differences of the loss, through the whole
 * engine. */
#include "suite.h"
#include "near.h"
#include "pieces.h"
#include "runs.h"
#include "cspeed/layer.h"
#include "../../examples/convolution.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Returns the loss of the batch with the present parameters. The gradients remain in the shards, and no step is
 * taken. */
static double loss_of(cs_engine *engine, const cs_batch *batch)
{
    const ce_step_sums *sums = &engine->judge.device->sums;
    ce_exact sum;
    cs_forward(engine, batch);
    ce_stream_fetch(ce_device_stream(engine->device, CE_COMPUTE), &sum, &sums->loss, sizeof sum);
    double loss = ce_exact_value(&sum) / (double)engine->loss_rows_counted;
    cs_backward(engine);
    ce_walk_settle(engine); /* the reduction of the gradients may still run in another thread */
    engine->phase = CE_FORWARD;
    return loss;
}

/* Sets the parameter elements of `piece` to `before` + `by` * `direction`, element by element. */
static void place(cs_engine *engine, int number, const ce_shard_piece *piece, const float *before,
                  const float *direction, float by)
{
    float *master = piece->master;
    for (int64_t i = 0; i < ce_range_length(piece->range); i++)
        master[i] = before[i] + by * direction[i];
    pieces_put(engine, number, piece, 1);
}

/* Compares the slope of the loss along a random direction, computed from the gradient of one parameter, with a central
 * difference. */
static void check_parameter(cs_engine *engine, const cs_batch *batch, int number, const ce_shard_piece *piece,
                            unsigned short state[3])
{
    int64_t count = ce_range_length(piece->range);
    float *direction = malloc((size_t)count * sizeof *direction), *before = malloc((size_t)count * sizeof *before);
    float *gradient = piece->gradient, *master = piece->master;
    double length = 0, slope = 0;
    ck_assert(direction && before);
    for (int64_t i = 0; i < count; i++) {
        /* the sign of each element of `direction` is the sign of the gradient's element, so the slope is not small */
        direction[i] = (float)(erand48(state) - 0.5) + (gradient[i] > 0 ? 0.5f : -0.5f);
        length += (double)direction[i] * direction[i];
        before[i] = master[i];
    }
    for (int64_t i = 0; i < count; i++) {
        direction[i] /= (float)sqrt(length);
        slope += (double)direction[i] * gradient[i];
    }
    float step = 1e-2f;
    place(engine, number, piece, before, direction, step);
    double above = loss_of(engine, batch);
    place(engine, number, piece, before, direction, -step);
    double below = loss_of(engine, batch);
    place(engine, number, piece, before, direction, 0);
    loss_of(engine, batch);
    double measured = (above - below) / (2 * (double)step);
    ck_assert_msg(fabs(measured - slope) <= 2e-2 * fabs(slope) + 2e-4, "%s: backward says %.6g, differences %.6g",
                  piece->entry->full_name, slope, measured);
    ck_assert_msg(fabs(slope) > 1e-7, "%s: the gradient is zero, so nothing was tested", piece->entry->full_name);
    free(direction);
    free(before);
}

/* Returns the number of parameters that were checked. */
static int check_all(cs_engine *engine, const cs_batch *batch)
{
    unsigned short state[3] = { 3, 1, 4 };
    int checked = 0;
    loss_of(engine, batch);
    for (int i = 0; i < engine->model->count; i++) {
        ce_shard_piece pieces[32];
        int count = pieces_take(engine, i, pieces);
        for (int at = 0; at < count; at++, checked++)
            check_parameter(engine, batch, i, &pieces[at], state);
    }
    return checked;
}

static void check_gpt2(double dropout, const char *recompute)
{
    run_spec spec = {
        .world = 1, .stage = 0, .steps = 1, .precision = "fp32", .dropout = dropout, .recompute = recompute
    };
    cs_engine *engine = run_open(&spec, NULL);
    cs_batch batch = run_batch(engine, &spec, 0);
    ck_assert_int_eq(check_all(engine, &batch), 2 + 3 * 12 + 2);
    cs_destroy(engine);
}

START_TEST(gpt2)
{
    check_gpt2(0, "none");
}
END_TEST

START_TEST(gpt2_with_dropout_and_recomputation)
{
    check_gpt2(0.2, "unit");
}
END_TEST

/* The layers of the Llama family: rotary positions, a norm for the queries and keys of each head, several query heads
 * for one key head, SwiGLU. */
START_TEST(qwen3)
{
    run_spec spec = { .world = 1,
                      .steps = 1,
                      .precision = "fp32",
                      .set = { "cspeed.model={\"model_type\": \"qwen3\", \"vocab_size\": 61, \"hidden_size\": 24, "
                               "\"intermediate_size\": 36, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
                               "\"num_key_value_heads\": 2, \"head_dim\": 6, \"max_position_embeddings\": 16, "
                               "\"attention_bias\": true, \"initializer_range\": 0.1}" } };
    cs_engine *engine = run_open(&spec, NULL);
    cs_batch batch = run_batch(engine, &spec, 0);
    ck_assert_int_eq(check_all(engine, &batch), 1 + 2 * 15 + 2);
    cs_destroy(engine);
}
END_TEST

/* Gives A and B of every adapter random values. B begins at zero, and while B is zero, the gradient of A is zero. */
static void shake_adapters(cs_engine *engine)
{
    unsigned short state[3] = { 2, 7, 1 };
    for (int i = 0; i < engine->model->count; i++) {
        ce_shard_piece pieces[32];
        int count = pieces_take(engine, i, pieces);
        for (int at = 0; at < count; at++) {
            float *master = pieces[at].master;
            for (int64_t e = 0; e < ce_range_length(pieces[at].range); e++)
                master[e] = 0.3f * (float)(erand48(state) - 0.5);
        }
        pieces_put(engine, i, pieces, count);
    }
}

static void check_lora(const char *model, const char *lora, double dropout, const char *recompute, int parameters)
{
    run_spec spec = {
        .world = 1, .steps = 1, .precision = "fp32", .dropout = dropout, .recompute = recompute, .set = { lora, model }
    };
    cs_engine *engine = run_open(&spec, NULL);
    cs_batch batch = run_batch(engine, &spec, 0);
    shake_adapters(engine);
    ck_assert_int_eq(check_all(engine, &batch), parameters);
    cs_destroy(engine);
}

START_TEST(adapters)
{
    static const char llama[] = "cspeed.model={\"model_type\": \"llama\", \"vocab_size\": 61, \"hidden_size\": 24, "
                                "\"intermediate_size\": 36, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
                                "\"num_key_value_heads\": 2, \"max_position_embeddings\": 16, "
                                "\"initializer_range\": 0.1}";
    check_lora(llama, "cspeed.lora={\"r\": 3}", 0, "none", 2 * 4);
    check_lora(llama, "cspeed.lora={\"r\": 2, \"targets\": [\"k_proj\", \"up_proj\", \"down_proj\"]}", 0, "unit",
               2 * 6);
    check_lora(NULL, "cspeed.lora={\"r\": 3, \"targets\": \"all-linear\", \"dropout\": 0.2}", 0.2, "unit", 3 * 8);
    check_lora(NULL, "cspeed.lora={\"r\": 3, \"targets\": [\"mlp.c_proj\"]}", 0, "none", 3 * 2);
}
END_TEST

/* In the first block one matrix is trained, in the second the biases, and elsewhere all parameters except the norms and
 * the token table. */
START_TEST(beside_frozen_parameters)
{
    run_spec spec = { .world = 1,
                      .steps = 1,
                      .precision = "fp32",
                      .set = { "cspeed.param_groups=[{\"params\": \"*.h.0.mlp.c_fc.weight\", \"lr\": 1e-3}, "
                               "{\"params\": [\"*.h.0.*\", \"*.h.1.*.weight\", \"*.ln_*\", \"*.wte.*\"], "
                               "\"train\": false}]" } };
    cs_engine *engine = run_open(&spec, NULL);
    cs_batch batch = run_batch(engine, &spec, 0);
    ck_assert_int_eq(check_all(engine, &batch), 1 + 1 + 4 + 8);
    cs_destroy(engine);
}
END_TEST

static void last_declare(cs_unit *unit, const void *sizes)
{
    (void)sizes;
    cs_linear_declare(cs_unit_self(unit, sizeof(cs_linear)), unit, "linear", 6, 2, (cs_init){ CS_NORMAL, 0.3f },
                      CS_IN_OUT, CS_BIAS);
}

static void last_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    cs_tensor guess = cs_linear_forward(cs_unit_self(unit, sizeof(cs_linear)), pass, x);
    cs_op_squared_error(cs_pass_stream(pass), y, guess, cs_pass_targets(pass));
    cs_pass_keep(pass, guess);
}

static void last_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    cs_tensor guess = cs_pass_take(pass), dguess = cs_pass_like(pass, guess);
    cs_op_squared_error_grad(cs_pass_stream(pass), dguess, dy, guess, cs_pass_targets(pass));
    cs_op_cast(cs_pass_stream(pass), dx, cs_linear_backward(cs_unit_self(unit, sizeof(cs_linear)), pass, dguess));
}

/* The unit of examples/convolution.h, on images that are not square. */
START_TEST(convolutions)
{
    static const cs_kind last = { "squared error", last_declare, last_forward, last_backward, NULL };
    enum { ROWS = 3, HEIGHT = 8, WIDTH = 4 };
    static float inputs[ROWS * HEIGHT * WIDTH], targets[ROWS * 2];
    unsigned short state[3] = { 9, 9, 9 };
    run_spec spec = { .world = 1, .steps = 1, .micro = ROWS, .precision = "fp32", .recompute = "unit" };
    cs_model *model;
    CS_MUST(cs_model_new(&model, 6));
    cs_model_floats(model, HEIGHT * WIDTH, 2);
    cs_model_add(model, &convnet_kind, "features", &(convnet_sizes){ HEIGHT, WIDTH, { 3, 5 }, 6 });
    cs_model_add(model, &last, "output", NULL);
    for (int i = 0; i < ROWS * HEIGHT * WIDTH; i++)
        inputs[i] = (float)(2 * erand48(state) - 1);
    for (int i = 0; i < ROWS * 2; i++)
        targets[i] = (float)(2 * erand48(state) - 1);
    cs_engine *engine = run_open(&spec, model);
    cs_batch batch = { .inputs = cs_matrix(inputs, CS_F32, ROWS, HEIGHT * WIDTH),
                       .targets = cs_matrix(targets, CS_F32, ROWS, 2) };
    ck_assert_int_eq(check_all(engine, &batch), 6 + 2);
    cs_destroy(engine);
}
END_TEST

/* A target below 0 is masked: its row has no loss and no gradient. */
START_TEST(masked_targets_weigh_nothing)
{
    run_spec spec = { .world = 1, .stage = 0, .steps = 1, .precision = "fp32" };
    cs_engine *engine = run_open(&spec, NULL);
    cs_batch batch = run_batch(engine, &spec, 0);
    int32_t *targets = batch.targets.data;
    for (int64_t i = 0; i < cs_count(batch.targets) - 1; i++)
        targets[i] = -1;
    loss_of(engine, &batch);
    ck_assert_int_eq(engine->loss_rows_counted, 1);
    ce_shard_piece pieces[32];
    pieces_take(engine, 0, pieces);
    double reached = 0, unreached = 0;
    const float *gradient = pieces[1].gradient;
    for (int64_t i = 0; i < 24; i++) {
        unreached += fabs((double)gradient[i + 12 * 24]); /* position 12, which no token has */
        reached += fabs((double)gradient[i]);
    }
    ck_assert_double_eq(unreached, 0);
    ck_assert_double_gt(reached, 0);
    cs_destroy(engine);
}
END_TEST

SUITE_MAIN("gradients", convolutions, adapters, beside_frozen_parameters, gpt2, gpt2_with_dropout_and_recomputation,
           qwen3, masked_targets_weigh_nothing)
