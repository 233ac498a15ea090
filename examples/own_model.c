/* own_model.c - a user-defined model: a small perceptron on float data, trained with sharding like any other model.
 *
 *     cspeed --num_gpus 2 own_model configs/own_model.json
 *
 * A model is a list of units. A unit consists of some parameters and the code that uses them. The code in this file
 * does not depend on the number of ranks, the ZeRO stage or the precision. */
#include "cspeed/cspeed.h"
#include "cspeed/layer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { INPUTS = 8, WIDTH = 64, LAYERS = 3 };

/* ---- units: each is a struct with the functions declare, forward and backward ---- */

static void hidden_declare(cs_unit *unit, const void *sizes)
{
    int64_t inputs = *(const int64_t *)sizes;
    cs_linear_declare(cs_unit_self(unit, sizeof(cs_linear)), unit, "linear", inputs, WIDTH,
                      (cs_init){ CS_NORMAL, 1 / sqrtf((float)inputs) }, CS_IN_OUT, CS_BIAS);
}

/* Converts the batch from fp32 to the type in which the pass computes. */
static cs_tensor as_computed(cs_pass *pass, cs_tensor x)
{
    cs_tensor cast = cs_pass_make(pass, cs_pass_dtype(pass), cs_rows(x), cs_columns(x));
    cs_op_cast(cs_pass_stream(pass), cast, x);
    return cast;
}

static void hidden_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    cs_tensor h = cs_linear_forward(cs_unit_self(unit, sizeof(cs_linear)), pass, as_computed(pass, x));
    cs_op_gelu(cs_pass_stream(pass), y, h);
    cs_pass_keep(pass, h);
}

static void hidden_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    const cs_linear *linear = cs_unit_self(unit, sizeof *linear);
    cs_tensor h = cs_pass_take(pass);
    cs_tensor dh = cs_pass_like(pass, h);
    cs_op_gelu_grad(cs_pass_stream(pass), dh, dy, h);
    if (!dx.data) /* this is the first unit, whose inputs have no gradient */
        cs_linear_backward_weights(linear, pass, dh);
    else
        cs_op_cast(cs_pass_stream(pass), dx, cs_linear_backward(linear, pass, dh));
}

static void output_declare(cs_unit *unit, const void *sizes)
{
    (void)sizes;
    cs_linear_declare(cs_unit_self(unit, sizeof(cs_linear)), unit, "linear", WIDTH, 1, (cs_init){ CS_NORMAL, 0.1f },
                      CS_IN_OUT, CS_BIAS);
}

static void output_predict(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor *output)
{
    *output = cs_linear_forward(cs_unit_self(unit, sizeof(cs_linear)), pass, x);
}

static void output_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    cs_tensor guess;
    output_predict(unit, pass, x, &guess);
    cs_op_squared_error(cs_pass_stream(pass), y, guess, cs_pass_targets(pass));
    cs_pass_keep(pass, guess);
}

static void output_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    cs_tensor guess = cs_pass_take(pass);
    cs_tensor dguess = cs_pass_like(pass, guess);
    cs_op_squared_error_grad(cs_pass_stream(pass), dguess, dy, guess, cs_pass_targets(pass));
    cs_op_cast(cs_pass_stream(pass), dx, cs_linear_backward(cs_unit_self(unit, sizeof(cs_linear)), pass, dguess));
}

static const cs_kind hidden_kind = { "hidden layer", hidden_declare, hidden_forward, hidden_backward, NULL };
static const cs_kind output_kind = { "squared error", output_declare, output_forward, output_backward, output_predict };

/* ---- the list of units ---- */

static cs_model *perceptron(void)
{
    cs_model *model;
    CS_MUST(cs_model_new(&model, WIDTH));
    cs_model_floats(model, INPUTS, 1);
    for (int i = 0; i < LAYERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "hidden.%d", i);
        cs_model_add(model, &hidden_kind, name, &(int64_t){ i == 0 ? INPUTS : WIDTH });
    }
    cs_model_add(model, &output_kind, "output", NULL);
    return model;
}

/* ---- data: points of a function, different on every rank and in every step ---- */

static void fill(float *inputs, float *targets, int64_t rows, unsigned short state[3])
{
    for (int64_t row = 0; row < rows; row++) {
        float sum = 0;
        for (int i = 0; i < INPUTS; i++) {
            inputs[row * INPUTS + i] = (float)(2 * erand48(state) - 1);
            sum += inputs[row * INPUTS + i] * (i % 2 ? 1.0f : 0.5f);
        }
        targets[row] = sinf(2 * sum);
    }
}

int main(int argc, char **argv)
{
    cs_config *config;
    cs_engine *engine;
    CS_MUST(cs_config_open(&config, argc > 1 ? argv[1] : "configs/own_model.json"));
    CS_MUST(cs_initialize(&engine, config, perceptron()));

    int64_t rows = cs_config_get_int(config, "train_micro_batch_size_per_gpu");
    int64_t steps = cs_config_get_int(config, "cspeed.steps");
    float *inputs = malloc((size_t)rows * INPUTS * sizeof *inputs);
    float *targets = malloc((size_t)rows * sizeof *targets);
    cs_batch batch = { .inputs = cs_matrix(inputs, CS_F32, rows, INPUTS),
                       .targets = cs_matrix(targets, CS_F32, rows, 1) };
    unsigned short state[3] = { 1, 2, (unsigned short)cs_lane(engine) };
    if (!inputs || !targets)
        return 1;
    while (cs_last_step(engine).step < steps) {
        fill(inputs, targets, rows, state);
        cs_forward(engine, &batch);
        cs_backward(engine);
        if (cs_step(engine) && cs_last_step(engine).step % 100 == 0 && cs_rank(engine) == 0)
            printf("step %" PRId64 "  loss %.5f\n", cs_last_step(engine).step, (double)cs_loss(engine));
    }
    free(inputs);
    free(targets);
    cs_destroy(engine);
    return 0;
}
