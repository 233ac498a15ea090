/* ddp_toy.c - a minimal program with distributed data parallelism: 4096 random samples, one dense layer, 4 ranks, 2
 * epochs.
 *
 *     cspeed --num_gpus 4 ddp_toy                     # as torchrun does
 *     cspeed launch --nproc_per_node=4 ./ddp_toy      # as torch.distributed.launch does
 *     ddp_toy --spawn 4                               # as mp.spawn does: the program starts its ranks itself
 *
 * Each rank prints a line for each epoch. The sampler divides the 4096 samples among the ranks: with 4 ranks each rank
 * has 1024 samples, which are 32 steps of 32 samples. */
#include "cspeed/cspeed.h"
#include "cspeed/layer.h"
#include "cspeed/options.h"
#include "cspeed/sampler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SAMPLES = 4096, INPUTS = 20, EPOCHS = 2 };

/* ---- the model: one unit with one linear layer and the squared error ---- */

static void dense_declare(cs_unit *unit, const void *sizes)
{
    (void)sizes;
    cs_linear_declare(cs_unit_self(unit, sizeof(cs_linear)), unit, "linear", INPUTS, 1, (cs_init){ CS_UNIFORM, 0.2f },
                      CS_IN_OUT, CS_BIAS);
}

static void dense_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    cs_tensor cast = cs_pass_make(pass, cs_pass_dtype(pass), cs_rows(x), cs_columns(x));
    cs_op_cast(cs_pass_stream(pass), cast, x);
    cs_tensor guess = cs_linear_forward(cs_unit_self(unit, sizeof(cs_linear)), pass, cast);
    cs_op_squared_error(cs_pass_stream(pass), y, guess, cs_pass_targets(pass));
    cs_pass_keep(pass, guess);
}

static void dense_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    cs_tensor guess = cs_pass_take(pass), dguess = cs_pass_like(pass, guess);
    (void)dx; /* the first unit's inputs have no gradient */
    cs_op_squared_error_grad(cs_pass_stream(pass), dguess, dy, guess, cs_pass_targets(pass));
    cs_linear_backward_weights(cs_unit_self(unit, sizeof(cs_linear)), pass, dguess);
}

static const cs_kind dense = { "dense layer", dense_declare, dense_forward, dense_backward, NULL };

/* ---- the training ---- */

typedef struct {
    const char *config;
    int64_t spawn;
} settings;

static void fill(float *inputs, float *targets, int64_t sample)
{
    unsigned short state[3] = { 7, (unsigned short)sample, (unsigned short)(sample >> 16) };
    for (int i = 0; i < INPUTS; i++)
        inputs[i] = (float)erand48(state);
    *targets = (float)erand48(state);
}

static void run_epoch(cs_engine *engine, const cs_sampler *sampler, cs_batch *batch)
{
    int64_t size = batch->inputs.shape[0], steps = cs_sampler_count(sampler) / size;
    for (int64_t step = 0; step < steps; step++) {
        for (int64_t b = 0; b < size; b++)
            fill((float *)batch->inputs.data + b * INPUTS, (float *)batch->targets.data + b,
                 cs_sampler_at(sampler, step * size + b));
        cs_forward(engine, batch);
        cs_backward(engine);
        cs_step(engine);
    }
    printf("GPU:%d | Epoch:%" PRId64 " | Batchsize: %" PRId64 " | Steps: %" PRId64 "\n", cs_rank(engine),
           sampler->epoch, size, steps);
    fflush(stdout);
}

static int train(void *argument)
{
    const settings *given = argument;
    cs_config *config;
    cs_engine *engine;
    cs_model *model;
    CS_MUST(cs_config_open(&config, given->config));
    CS_MUST(cs_model_new(&model, 1));
    cs_model_floats(model, INPUTS, 1);
    cs_model_add(model, &dense, "dense", NULL);
    CS_MUST(cs_initialize(&engine, config, model));
    int64_t size = cs_config_get_int(config, "train_micro_batch_size_per_gpu");
    float *memory = calloc((size_t)size * (INPUTS + 1), sizeof *memory);
    if (!memory)
        return 1;
    cs_batch batch = { .inputs = cs_matrix(memory, CS_F32, size, INPUTS),
                       .targets = cs_matrix(memory + size * INPUTS, CS_F32, size, 1) };
    cs_sampler sampler = {
        .count = SAMPLES, .rank = cs_lane(engine), .size = cs_lanes(engine), .shuffle = true, .end = CS_SAMPLER_DROP
    };
    for (sampler.epoch = 0; sampler.epoch < EPOCHS; sampler.epoch++)
        run_epoch(engine, &sampler, &batch);
    free(memory);
    cs_destroy(engine);
    return 0;
}

int main(int count, char **argument)
{
    static const cs_option table[] = {
        { CS_OPTION(TEXT, "config", settings, config, "FILE", "the configuration (configs/ddp_toy.json)") },
        { CS_OPTION(WHOLE, "spawn", settings, spawn, "N", "start N ranks from this process"), .min = 1, .max = 64 },
        { .names = "local_rank",
          .kind = CS_OPTION_INERT,
          .value = "N",
          .text = "of `cspeed launch`; LOCAL_RANK has it" },
        { .names = "help h", .kind = CS_OPTION_HELP, .text = "this text" },
    };
    static const cs_options_form form = {
        .usage = "usage: ddp_toy [options]\n\n", .what = "flag", .hint = "try --help", CS_OPTIONS_TABLE(table)
    };
    static const char usual[] = "configs/ddp_toy.json";
    settings given = { .config = usual };
    (void)count;
    cs_options_main(&form, &given, argument);
    if (given.config == usual && access(usual, F_OK) != 0)
        cs_must(CS_NOT_FOUND,
                "there is no configs/ddp_toy.json in this folder: start ddp_toy in the source tree of "
                "cspeed, or give --config FILE; {\"train_micro_batch_size_per_gpu\": 32} in a file is enough");
    if (given.spawn == 0)
        return train(&given);
    CS_MUST(cs_spawn((int)given.spawn, train, &given));
    return 0;
}
