/* test_optimizers.c - the optimizers in the whole engine: 20 steps compared with PyTorch and reference implementations
 * (tests/golden/make_optim.py), on tensors of odd sizes that are cut between ranks at any element, at every stage, with
 * and without a checkpoint in between. */
#include "device/table.h"
#include "core/engine.h"
#include "golden.h"
#include "pieces.h"
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 20, EVERY = 29, PARAMETERS = 7, ELEMENTS = 17 * 33 + 65 + 15 + 7 + 29 * 11 + 36 + 36 };

/* ---- a model whose gradients are given ---- */

static const struct {
    const char *unit, *name;
    int64_t rows, columns;
} parameters[PARAMETERS] = {
    { "block.0", "weight", 17, 33 }, { "block.0", "bias", 65, 0 },  { "block.1", "weight", 3, 5 },
    { "block.1", "norm", 7, 0 },     { "block.1", "tall", 29, 11 }, { "embed", "weight", 9, 4 },
    { "head", "lm_head", 4, 9 },
};

static int64_t step_now;

/* Equal to element() of make_optim.py. */
static float element(uint32_t seed, uint32_t index)
{
    uint32_t mixed = index * 2654435761u + seed * 2246822519u;
    mixed = (mixed ^ (mixed >> 15)) * 2246822519u;
    mixed = (mixed ^ (mixed >> 13)) * 3266489917u;
    return mixed % 11 == 0 ? 0 : (float)((mixed >> 12) & 0xffff) / 65536 - 0.5f;
}

static int number_of(const char *full_name)
{
    char name[64];
    for (int i = 0; i < PARAMETERS; i++) {
        snprintf(name, sizeof name, "%s.%s", parameters[i].unit, parameters[i].name);
        if (strcmp(name, full_name) == 0)
            return i;
    }
    abort();
}

static int64_t size_of(int number)
{
    return parameters[number].rows * (parameters[number].columns ? parameters[number].columns : 1);
}

static int64_t place_of(int number) /* returns the index of the parameter's first element among all elements */
{
    int64_t place = 0;
    for (int i = 0; i < number; i++)
        place += size_of(i);
    return place;
}

static void declare(cs_unit *unit, const void *sizes)
{
    const cs_init zeros = { CS_ZEROS, 0 };
    for (int i = 0; i < PARAMETERS; i++)
        if (strcmp(parameters[i].unit, sizes) == 0)
            cs_unit_param(unit, parameters[i].name, parameters[i].rows, parameters[i].columns, zeros);
}

static void forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    (void)unit, (void)x;
    cs_op_fill(cs_pass_stream(pass), y, 0);
}

static void backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    (void)dy;
    if (dx.data)
        cs_op_fill(cs_pass_stream(pass), dx, 0);
    for (int i = 0; i < unit->entry_count && !cs_pass_measuring(pass); i++) {
        static float sum[ELEMENTS];
        int number = number_of(unit->entries[i]->full_name);
        float *grad = unit->entries[i]->param.grad.data;
        size_t bytes = (size_t)unit->entries[i]->count * sizeof *sum;
        ce_stream_fetch(cs_pass_stream(pass), sum, grad, bytes);
        for (int64_t at = 0; at < unit->entries[i]->count; at++)
            sum[at] += element((uint32_t)(31 * step_now + number), (uint32_t)at) / 8;
        ce_stream_copy(cs_pass_stream(pass), grad, sum, bytes);
        ce_stream_sync(cs_pass_stream(pass));
    }
}

static const cs_kind given = { "given", declare, forward, backward, NULL };

static cs_model *make_model(void)
{
    static const char *const units[] = { "block.0", "block.1", "embed", "head" };
    cs_model *model;
    CS_MUST(cs_model_new(&model, 2));
    cs_model_floats(model, 1, 1);
    for (int i = 0; i < 4; i++)
        cs_model_add(model, &given, units[i], units[i]);
    return model;
}

/* ---- runs ---- */

typedef struct {
    const char *name, *set[4];
} a_case;

#define ADAM(type, more) "optimizer={\"type\": \"" type "\", \"params\": {\"lr\": 1e-2, " more "}}"
#define OPTIM(type, more) "optimizer={\"type\": \"" type "\", \"params\": {" more "}}"

static const a_case cases[] = {
    { "adamw", { ADAM("AdamW", "\"weight_decay\": 0.1") } },
    { "adam_is_adamw",
      { ADAM("Adam", "\"weight_decay\": 0.1, \"betas\": [0.8, 0.95], \"eps\": 1e-6, \"torch_adam\": true") } },
    { "adam_l2", { ADAM("Adam", "\"weight_decay\": 0.1, \"betas\": [0.9, 0.95], \"adam_w_mode\": false") } },
    { "adam_no_correction", { ADAM("AdamW", "\"weight_decay\": 0.1, \"bias_correction\": false") } },
    { "adamw_clipped", { ADAM("AdamW", "\"weight_decay\": 0.1, \"eps\": 1e-2"), "gradient_clipping=0.5" } },
    { "adamw_groups",
      { ADAM("AdamW", "\"weight_decay\": 0.1"),
        "cspeed.param_groups=[{\"params\": \"block.1.*\", \"lr\": 1e-3, \"weight_decay\": 0.5, \"betas\": [0.5, 0.9]},"
        "{\"params\": [\"*.bias\"], \"weight_decay\": 0.2}]" } },
    { "adamw_cycled",
      { OPTIM("AdamW", "\"lr\": 1"),
        "scheduler={\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": 1e-3, \"cycle_max_lr\": 5e-3, "
        "\"cycle_first_step_size\": 4, \"cycle_min_mom\": 0.85, \"cycle_max_mom\": 0.95}}" } },
    { "sgd", { OPTIM("SGD", "\"lr\": 0.1, \"weight_decay\": 0.01") } },
    { "sgd_momentum", { OPTIM("SGD", "\"lr\": 0.1, \"weight_decay\": 0.01, \"momentum\": 0.9, \"dampening\": 0.3") } },
    { "sgd_nesterov", { OPTIM("SGD", "\"lr\": 0.1, \"weight_decay\": 0.01, \"momentum\": 0.9, \"nesterov\": true") } },
    { "sgd_groups",
      { OPTIM("SGD", "\"lr\": 0.1, \"momentum\": 0.9"),
        "cspeed.param_groups=[{\"params\": [\"block.0.bias\", \"block.1.weight\"], \"momentum\": 0}]" } },
    { "adagrad", { OPTIM("Adagrad", "") } },
    { "adagrad_options",
      { OPTIM("Adagrad", "\"lr\": 0.05, \"lr_decay\": 0.1, \"eps\": 1e-3, \"initial_accumulator_value\": 0.5, "
                         "\"weight_decay\": 0.01") } },
    { "lion", { OPTIM("Lion", "") } },
    { "lion_options", { OPTIM("lion", "\"lr\": 3e-3, \"betas\": [0.8, 0.99], \"weight_decay\": 0.1") } },
    { "lamb", { ADAM("Lamb", "\"weight_decay\": 0.01") } },
    { "lamb_options",
      { ADAM("LAMB", "\"weight_decay\": 0.1, \"betas\": [0.8, 0.9], \"eps\": 1e-4, \"eps_inside_sqrt\": true, "
                     "\"bias_correction\": false, \"max_coeff\": 0.5, \"min_coeff\": 0.3") } },
    { "muon", { OPTIM("Muon", "") } },
    { "muon_options",
      { OPTIM("Muon", "\"muon_lr\": 0.05, \"adam_lr\": 1e-2, \"momentum\": 0.8, \"betas\": [0.8, 0.9], \"eps\": 1e-6, "
                      "\"weight_decay\": 0.1, \"ns_method\": \"standard\""),
        "gradient_clipping=0.5" } },
    { "muon_one_rate", { OPTIM("Muon", "\"lr\": 0.01") } },
};
enum { CASES = sizeof cases / sizeof *cases };

typedef struct {
    const a_case *which;
    int world, stage;
    const char *folder; /* folder of checkpoints; NULL: none */
    /* The run has the steps from `begin` to `end` - 1. It loads a checkpoint if begin > 0, and saves a checkpoint if
     * end < STEPS. */
    int begin, end;
    float value[STEPS][ELEMENTS];
} a_run;

static cs_engine *open_engine(const a_run *run)
{
    run_spec spec = { .world = run->world, .stage = run->stage, .precision = "fp32", .steps = STEPS };
    int sets = 0;
    spec.set[sets++] = "gradient_clipping=0";
    spec.set[sets++] = "cspeed.model=null";
    spec.set[sets++] = "cspeed.keep_last=0";
    for (int i = 0; i < 4 && run->which->set[i]; i++)
        spec.set[sets++] = run->which->set[i];
    return run_open(&spec, make_model());
}

/* Copies this rank's elements from the array `values` to the model, or from the model to the array. */
static void exchange(cs_engine *engine, float *values, bool into_model)
{
    for (int i = 0; i < engine->model->count; i++) {
        ce_shard_piece pieces[PARAMETERS];
        int count = pieces_take(engine, i, pieces);
        for (int at = 0; at < count; at++) {
            float *ours = values + place_of(number_of(pieces[at].entry->full_name)) + pieces[at].range.from;
            size_t bytes = (size_t)ce_range_length(pieces[at].range) * sizeof(float);
            memcpy(into_model ? pieces[at].master : (void *)ours, into_model ? ours : pieces[at].master, bytes);
        }
        if (into_model)
            pieces_put(engine, i, pieces, count);
    }
}

static void set_first_values(cs_engine *engine)
{
    static float values[ELEMENTS];
    for (int number = 0; number < PARAMETERS; number++)
        for (int64_t at = 0; at < size_of(number); at++)
            values[place_of(number) + at] = element(1000 + (uint32_t)number, (uint32_t)at);
    exchange(engine, values, true);
}

static void train(a_run *run)
{
    cs_engine *engine = open_engine(run);
    float some[2] = { 0 };
    engine->device->roofs[CS_F32] = 1; /* the engine measures the speed of matrix products only if this is 0 */
    cs_batch batch = { .inputs = cs_matrix(some, CS_F32, 2, 1), .targets = cs_matrix(some, CS_F32, 2, 1) };
    set_first_values(engine);
    if (run->begin > 0)
        CS_MUST(cs_load_checkpoint(engine, run->folder, run->which->name, NULL, NULL));
    ck_assert_int_eq(cs_last_step(engine).step, run->begin);
    for (step_now = run->begin; step_now < run->end; step_now++) {
        cs_forward(engine, &batch);
        cs_backward(engine);
        cs_step(engine);
        exchange(engine, run->value[step_now], false);
    }
    if (run->end < STEPS)
        CS_MUST(cs_save_checkpoint(engine, run->folder, run->which->name, NULL));
    cs_destroy(engine);
}

/* Runs all cases, one engine after another. */
static int rank(void *argument)
{
    for (int c = 0; c < CASES; c++)
        train((a_run *)argument + c);
    return 0;
}

static a_run *train_all(a_run like)
{
    a_run *runs = run_share(CASES * sizeof *runs);
    for (int c = 0; c < CASES; c++) {
        runs[c] = like;
        runs[c].which = &cases[c];
        runs[c].end = like.end ? like.end : STEPS;
    }
    run_ranks(like.world, rank, runs);
    return runs;
}

static void forget(a_run *runs)
{
    if (runs)
        run_unshare(runs, CASES * sizeof *runs);
}

/* ---- comparison with the golden file ---- */

static double largest(const float *final, int number)
{
    double max = 0;
    for (int64_t at = place_of(number); at < place_of(number) + size_of(number); at++)
        max = fmax(max, fabs((double) final[at]));
    return max;
}

/* Returns the largest difference, relative to the largest element of the tensor, of the elements `from`, `from` +
 * `every`, `from` + 2 `every` and so on. */
static double distance(const float *got, const float *want, int64_t from, int64_t every, const float *final)
{
    double worst = 0;
    for (int number = 0; number < PARAMETERS; number++) {
        double max = largest(final, number);
        for (int64_t at = place_of(number); at < place_of(number) + size_of(number); at++)
            if (at % every == from && (every == 1 || at / every < ELEMENTS / every))
                worst = fmax(worst, fabs((double)got[at] - (double)want[at / every]) / max);
    }
    return worst;
}

static void compare(const a_run *run, golden *file)
{
    char name[64];
    cs_tensor steps = golden_tensor(file, run->which->name);
    const float *want = steps.data;
    snprintf(name, sizeof name, "%s.final", run->which->name);
    const float *final = golden_tensor(file, name).data;
    double worst = distance(run->value[STEPS - 1], final, 0, 1, final);
    ck_assert_int_eq(cs_rows(steps), STEPS);
    ck_assert_int_eq(cs_columns(steps), ELEMENTS / EVERY);
    for (int step = 0; step < STEPS; step++)
        worst = fmax(worst, distance(run->value[step], want + step * (ELEMENTS / EVERY), step % EVERY, EVERY, final));
    printf("  %-20s world %d stage %d: within %.1e\n", run->which->name, run->world, run->stage, worst);
    ck_assert_msg(worst <= 1e-5, "%s, world %d, stage %d: %g from the reference", run->which->name, run->world,
                  run->stage, worst);
}

/* One rank and two ranks round in the same way, so the values of their runs are equal bit for bit. Three ranks round
 * differently. */
START_TEST(trajectories_are_the_references)
{
    static const struct {
        int world, stage;
        bool same; /* the values must have the same bits as those of the run in the row before */
    } runs[] = { { 1, 0, false }, { 1, 3, true }, { 2, 1, true }, { 2, 2, true }, { 3, 0, false }, { 3, 3, true } };
    golden *file = golden_open(CS_SOURCE "/tests/golden/optim.golden");
    a_run *before = NULL;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        a_run *all = train_all((a_run){ .world = runs[i].world, .stage = runs[i].stage });
        for (int c = 0; c < CASES; c++) {
            compare(&all[c], file);
            ck_assert_msg(!runs[i].same || memcmp(all[c].value, before[c].value, sizeof all[c].value) == 0,
                          "%s, world %d, stage %d: other bits than the run before", cases[c].name, runs[i].world,
                          runs[i].stage);
        }
        forget(before);
        before = all;
    }
    forget(before);
    golden_close(file);
}
END_TEST

/* The run of row i of `ways` saves a checkpoint, and the run of row i + 1 continues from it: from two ranks to one,
 * from one to two, and between stages. */
START_TEST(a_checkpoint_carries_every_slot)
{
    enum { HALF = 9 };
    static const struct {
        int world, stage;
    } ways[] = { { 2, 3 }, { 1, 0 }, { 2, 1 }, { 2, 0 } };
    a_run *whole = train_all((a_run){ .world = 1, .stage = 0 });
    const size_t bytes = sizeof whole->value[0] * (STEPS - HALF);
    shell_enter();
    for (int i = 0; i + 1 < (int)(sizeof ways / sizeof *ways); i++) {
        static const char *const folders[] = { "first", "second", "third" };
        const char *folder = folders[i];
        a_run first = { .world = ways[i].world, .stage = ways[i].stage, .folder = folder, .end = HALF };
        a_run second = { .world = ways[i + 1].world, .stage = ways[i + 1].stage, .folder = folder, .begin = HALF };
        forget(train_all(first));
        a_run *rest = train_all(second);
        for (int c = 0; c < CASES; c++)
            ck_assert_msg(memcmp(rest[c].value[HALF], whole[c].value[HALF], bytes) == 0,
                          "%s, world %d stage %d to world %d stage %d: other bits than without the checkpoint",
                          cases[c].name, first.world, first.stage, second.world, second.stage);
        forget(rest);
    }
    shell_leave();
    forget(whole);
}
END_TEST

/* ---- the optimizer state of a rank ---- */

/* Checks the bytes of all ranks' slots: a matrix that Muon updates has one slot, and each other parameter has the two
 * slots of AdamW, however the parameters are cut into parts. Returns 0 if the bytes are right. */
static int hold(void *argument)
{
    a_run *run = argument;
    cs_engine *engine = open_engine(run);
    int64_t slots = (int64_t)cs_memory_of(engine).slots, padding = 0;
    for (int i = 0; i < engine->model->count; i++) {
        int64_t length = engine->model->units[i]->length;
        padding += 2 * (ce_stage_padded(&engine->zero, length) - length);
    }
    cs_comm_all_reduce(engine->comm, &slots, 1, CS_I64, CS_SUM);
    int64_t matrices = 17 * 33 + 15 + 29 * 11, copies = run->stage == 0 ? run->world : 1;
    int64_t wanted = copies * 4 * (2 * ELEMENTS - matrices + padding);
    cs_destroy(engine);
    return slots == wanted ? 0 : 1;
}

START_TEST(muon_keeps_one_slot_for_a_matrix)
{
    for (int stage = 0; stage < 4; stage++) {
        a_run run = { .which = &cases[CASES - 1], .world = 3, .stage = stage };
        ck_assert_str_eq(run.which->name, "muon_one_rate");
        run_ranks(run.world, hold, &run);
    }
}
END_TEST

/* ---- refusals ---- */

START_TEST(what_cannot_be_is_refused)
{
    static const struct {
        const char *set[4], *sentence;
    } bad[] = {
        { { ADAM("AdamW", ""), "cspeed.param_groups=[{\"params\": \"block.9.*\", \"lr\": 1}]" },
          "cspeed.param_groups[0]: \"block.9.*\" matches no parameter" },
        { { ADAM("AdamW", ""), "cspeed.param_groups=[{\"params\": \"*\"}, {\"params\": \"head.*\"}]" },
          "cspeed.param_groups[1]: \"head.*\" matches no parameter" },
        { { OPTIM("Muon", ""), "bf16={\"enabled\": true, \"bf16_master_weights_and_grads\": true}",
            "zero_optimization.stage=2" },
          "not supported: Muon with masters, states or gradients in 16 bits, because" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        run_spec spec = { .world = 1, .precision = "fp32", .steps = 1 };
        char path[4096];
        cs_config *config;
        cs_engine *engine;
        run_write_config(&spec, path, sizeof path);
        CS_MUST(cs_config_open(&config, path));
        unlink(path);
        CS_MUST(cs_config_set(config, "cspeed.model=null"));
        for (int k = 0; k < 4 && bad[i].set[k]; k++)
            CS_MUST(cs_config_set(config, bad[i].set[k]));
        ck_assert_int_eq(cs_initialize(&engine, config, make_model()), CS_BAD_CONFIG);
        ck_assert_msg(strstr(cs_error(), bad[i].sentence) != NULL, "%s", cs_error());
    }
}
END_TEST

START_TEST(a_program_may_choose_where_the_file_does_not)
{
    static const struct {
        const char *file;
        int kind;
    } files[] = {
        { "{\"train_micro_batch_size_per_gpu\": 1}", CE_OPTIM_LION },
        { "{\"train_micro_batch_size_per_gpu\": 1, \"optimizer\": {\"type\": \"SGD\"}}", CE_OPTIM_SGD },
    };
    shell_enter();
    for (int i = 0; i < 2; i++) {
        cs_config *config;
        shell_write("config.json", files[i].file);
        CS_MUST(cs_config_open(&config, "config.json"));
        CS_MUST(cs_config_default(config, "optimizer={\"type\": \"Lion\"}"));
        CS_MUST(cs_config_finish(config));
        ck_assert_int_eq(config->settings.optim.kind, files[i].kind);
        cs_config_close(config);
    }
    shell_leave();
}
END_TEST

SUITE_MAIN("optimizers", a_program_may_choose_where_the_file_does_not, trajectories_are_the_references,
           a_checkpoint_carries_every_slot, muon_keeps_one_slot_for_a_matrix, what_cannot_be_is_refused)
