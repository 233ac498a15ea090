/* test_eight_bit.c - 8-bit optimizer state in the whole engine: updates are those of a loop over whole parameters, also of
 * odd sizes; the bits do not depend on world size and stage; a checkpoint made by some ranks is loaded and saved again by
 * others; memory is what is planned; names of other libraries mean the same; mistakes are named. */
#include "device/table.h"
#include "core/engine.h"
#include "pieces.h"
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include "base/dynamic_map.h"
#include "optim/rules.h"

#include <math.h>
#include <unistd.h>

enum { STEPS = 6, PARAMETERS = 5, MOST = 100 * 64, ALL = 67 * 65 + 65 + 100 * 64 + 80 * 64 + 64 * 72 };

/* ---- a model whose gradients are given ---- */

/* codes: the state is in blocks; the others are small, or embeddings. */
static const struct {
    const char *unit, *name;
    int64_t rows, columns;
    bool codes;
} parameters[PARAMETERS] = {
    { "block.0", "weight", 67, 65, true }, { "block.0", "bias", 65, 0, false }, { "block.1", "tall", 100, 64, true },
    { "embed", "weight", 80, 64, false },  { "head", "lm_head", 64, 72, true },
};

static int64_t step_now;

static float element(uint32_t seed, uint32_t index)
{
    uint32_t mixed = index * 2654435761u + seed * 2246822519u;
    mixed = (mixed ^ (mixed >> 15)) * 2246822519u;
    mixed = (mixed ^ (mixed >> 13)) * 3266489917u;
    return (float)((mixed >> 12) & 0xffff) / 65536 - 0.5f;
}

static float gradient(int number, int64_t step, int64_t at)
{
    return element((uint32_t)(31 * step + number), (uint32_t)at) / 8;
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

static int64_t place_of(int number)
{
    int64_t place = 0;
    for (int i = 0; i < number; i++)
        place += size_of(i);
    return place;
}

static void declare(cs_unit *unit, const void *sizes)
{
    for (int i = 0; i < PARAMETERS; i++)
        if (strcmp(parameters[i].unit, sizes) == 0)
            cs_unit_param(unit, parameters[i].name, parameters[i].rows, parameters[i].columns, (cs_init){ CS_ONES, 0 });
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
        static float sum[MOST];
        int number = number_of(unit->entries[i]->full_name);
        size_t bytes = (size_t)unit->entries[i]->count * sizeof *sum;
        ce_stream_fetch(cs_pass_stream(pass), sum, unit->entries[i]->param.grad.data, bytes);
        for (int64_t at = 0; at < unit->entries[i]->count; at++)
            sum[at] += gradient(number, step_now, at);
        ce_stream_copy(cs_pass_stream(pass), unit->entries[i]->param.grad.data, sum, bytes);
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

#define OPTIMIZER(type, more)                                                                                          \
    "optimizer={\"type\": \"" type "\", \"params\": {\"lr\": 1e-2, \"weight_decay\": 0.1" more "}}"

typedef struct {
    int world, stage, micro;
    const char *set[2], *load, *save; /* assignments; folders of checkpoints */
    int steps;
    float value[ALL], scale[CE_OPTIM_SLOTS][ALL];
    uint8_t code[CE_OPTIM_SLOTS][ALL];
    int64_t slots; /* bytes of all ranks' slots */
} a_run;

static cs_engine *open_engine(const a_run *run)
{
    run_spec spec = { .world = run->world, .stage = run->stage, .precision = "fp32", .steps = STEPS };
    const char *set[] = { "gradient_clipping=0", "cspeed.model=null", run->set[0], run->set[1] };
    memcpy(spec.set, set, sizeof set);
    return run_open(&spec, make_model());
}

/* Copies this rank's masters and state, at their places in the whole parameters. */
static void take(cs_engine *engine, a_run *run)
{
    for (int i = 0; i < engine->model->count; i++) {
        ce_shard_piece pieces[PARAMETERS];
        int count = pieces_take(engine, i, pieces);
        for (const ce_shard_piece *piece = pieces; piece < pieces + count; piece++) {
            int64_t place = place_of(number_of(piece->entry->full_name)) + piece->range.from;
            for (int64_t at = 0; at < ce_range_length(piece->range); at++) {
                run->value[place + at] = ((float *)piece->master)[at];
                for (int slot = 0; slot < CE_OPTIM_SLOTS && piece->slot_dtype == CS_U8 && piece->slots[slot]; slot++) {
                    run->code[slot][place + at] = ((uint8_t *)piece->slots[slot])[at];
                    run->scale[slot][place + at] = piece->scales[slot][at / CE_OPTIM_BLOCK];
                }
            }
        }
    }
}

static int train(void *argument)
{
    a_run *run = argument;
    cs_engine *engine = open_engine(run);
    float some[2] = { 0 };
    engine->device->roofs[CS_F32] = 1; /* the engine measures the speed of matrix products only if this is 0 */
    cs_batch batch = { .inputs = cs_matrix(some, CS_F32, 2, 1), .targets = cs_matrix(some, CS_F32, 2, 1) };
    if (run->load)
        CS_MUST(cs_load_checkpoint(engine, run->load, "tag", NULL, NULL));
    for (step_now = cs_last_step(engine).step; step_now < run->steps; step_now++) {
        cs_forward(engine, &batch);
        cs_backward(engine);
        cs_step(engine);
    }
    take(engine, run);
    if (run->save)
        CS_MUST(cs_save_checkpoint(engine, run->save, "tag", NULL));
    int64_t slots = (int64_t)cs_memory_of(engine).slots;
    cs_comm_all_reduce(engine->comm, &slots, 1, CS_I64, CS_SUM);
    run->slots = slots;
    cs_destroy(engine);
    return 0;
}

static a_run *run_all(a_run like)
{
    a_run *run = run_share(sizeof *run);
    *run = like;
    run_ranks(like.world, train, run);
    return run;
}

static void forget(a_run *run)
{
    run_unshare(run, sizeof *run);
}

static void same(const a_run *a, const a_run *b, const char *what)
{
    ck_assert_msg(memcmp(a->value, b->value, sizeof a->value) == 0, "%s: other parameters", what);
    ck_assert_msg(memcmp(a->code, b->code, sizeof a->code) == 0, "%s: other codes", what);
    ck_assert_msg(memcmp(a->scale, b->scale, sizeof a->scale) == 0, "%s: other scales", what);
}

/* ---- a loop over a whole parameter ---- */

typedef struct {
    float value[MOST], scale[CE_OPTIM_SLOTS][MOST / CE_OPTIM_BLOCK + 1];
    uint8_t code[CE_OPTIM_SLOTS][MOST];
} reference;

static void encode(reference *r, int slot, int64_t from, int64_t to, const float *x)
{
    float most = 0;
    for (int64_t i = from; i < to; i++)
        most = fmaxf(most, fabsf(x[i - from]));
    r->scale[slot][from / CE_OPTIM_BLOCK] = most;
    for (int64_t i = from; i < to; i++)
        r->code[slot][i] =
            ce_dynamic_code(slot ? ce_dynamic_unsigned() : ce_dynamic_signed(), most > 0 ? x[i - from] / most : 0);
}

static void step_of(reference *r, int number, int step, int slots, const ce_optim_settings *settings)
{
    ce_hyper hyper = ce_optim_hyper(settings, settings->rate, step + 1, 1);
    if (!parameters[number].columns)
        hyper.decay = 0;
    for (int64_t from = 0; from < size_of(number); from += CE_OPTIM_BLOCK) {
        int64_t to = from + CE_OPTIM_BLOCK < size_of(number) ? from + CE_OPTIM_BLOCK : size_of(number);
        float s[CE_OPTIM_SLOTS][CE_OPTIM_BLOCK];
        for (int64_t i = from; i < to; i++) {
            s[0][i - from] = ce_dynamic_signed()->value[r->code[0][i]] * r->scale[0][from / CE_OPTIM_BLOCK];
            s[1][i - from] = ce_dynamic_unsigned()->value[r->code[1][i]] * r->scale[1][from / CE_OPTIM_BLOCK];
            r->value[i] = (slots == 2 ? adamw : lion)(r->value[i], gradient(number, step, i), &s[0][i - from],
                                                      &s[1][i - from], hyper);
        }
        for (int slot = 0; slot < slots; slot++)
            encode(r, slot, from, to, s[slot]);
    }
}

/* A value beside a midpoint may get the neighbouring code, because the compiler may fuse multiplications and additions. */
static void compare(const a_run *run, const reference *r, int number, int slots)
{
    int64_t other = 0, place = place_of(number);
    for (int64_t i = 0; i < size_of(number); i++) {
        ck_assert_double_le(fabs((double)run->value[place + i] - (double)r->value[i]), 1e-4);
        for (int slot = 0; slot < slots; slot++) {
            double scale = (double)r->scale[slot][i / CE_OPTIM_BLOCK];
            ck_assert_double_le(fabs((double)run->scale[slot][place + i] - scale), 1e-3 * scale);
            other += run->code[slot][place + i] != r->code[slot][i];
        }
    }
    ck_assert_msg(other * 200 <= size_of(number), "parameter %d: %lld codes differ", number, (long long)other);
}

static void check_updates(const char *set, int slots)
{
    ce_optim_settings settings = { .kind = slots == 2 ? CE_OPTIM_ADAMW : CE_OPTIM_LION,
                                   .rate = 1e-2,
                                   .betas = { 0.9, 0.999 },
                                   .epsilon = 1e-8,
                                   .weight_decay = 0.1,
                                   .bias_correction = true };
    a_run *run = run_all((a_run){ .world = 1, .steps = STEPS, .set = { set } });
    for (int number = 0; number < PARAMETERS; number++) {
        reference *r = calloc(1, sizeof *r);
        for (int64_t i = 0; i < size_of(number); i++)
            r->value[i] = 1;
        for (int step = 0; step < STEPS && parameters[number].codes; step++)
            step_of(r, number, step, slots, &settings);
        if (parameters[number].codes)
            compare(run, r, number, slots);
        else
            ck_assert(run->scale[0][place_of(number)] == 0);
        free(r);
    }
    forget(run);
}

START_TEST(updates_are_those_of_whole_parameters)
{
    check_updates(OPTIMIZER("AdamW8bit", ""), 2);
    check_updates(OPTIMIZER("Lion", ", \"optim_bits\": 8"), 1);
}
END_TEST

START_TEST(bits_do_not_depend_on_world_and_stage)
{
    static const struct {
        int world, stage;
    } ways[] = { { 1, 0 }, { 1, 3 }, { 2, 0 }, { 2, 1 }, { 2, 2 }, { 2, 3 }, { 4, 3 }, { 4, 0 } };
    a_run *first = NULL;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        a_run *run = run_all((a_run){
            .world = ways[i].world, .stage = ways[i].stage, .steps = STEPS, .set = { OPTIMIZER("AdamW8bit", "") } });
        if (first) {
            same(first, run, "another way");
            forget(run);
        } else {
            first = run;
        }
    }
    forget(first);
}
END_TEST

/* Each run loads what the run before has saved, and trains one step more. */
START_TEST(a_checkpoint_fits_every_world_and_stage)
{
    static const struct {
        int world, stage;
        const char *more;
    } ways[] = { { 1, 0, NULL }, { 3, 3, NULL }, { 2, 1, NULL }, { 4, 2, "zero_optimization.mics_shard_size=2" },
                 { 3, 0, NULL }, { 1, 3, NULL } };
    enum { WAYS = sizeof ways / sizeof *ways };
    static const char *const folders[WAYS] = { "0", "1", "2", "3", "4", "5" };
    shell_enter();
    for (int i = 0; i < WAYS; i++) {
        a_run run = { .world = ways[i].world,
                      .stage = ways[i].stage,
                      .steps = i ? 0 : STEPS,
                      .set = { OPTIMIZER("AdamW8bit", ""), ways[i].more },
                      .load = i ? folders[i - 1] : NULL,
                      .save = folders[i] };
        forget(run_all(run));
        if (i)
            ck_assert_msg(shell_run(CS_BIN "/cspeed diff 0/tag %s/tag", folders[i]) == 0, "%d: %s", i,
                          shell_read("out.txt", NULL));
    }
    a_run *whole = run_all((a_run){ .world = 1, .steps = STEPS + 2, .set = { OPTIMIZER("AdamW8bit", "") } });
    a_run *rest = run_all(
        (a_run){ .world = 2, .stage = 3, .steps = STEPS + 2, .set = { OPTIMIZER("AdamW8bit", "") }, .load = "5" });
    same(whole, rest, "continued");
    forget(whole);
    forget(rest);
    shell_leave();
}
END_TEST

/* ---- tensor parallelism ---- */

/* Reads the losses of a run's steps. */
static int losses_of(const char *run, double *losses)
{
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "%s/metrics.jsonl", run);
    char *text = shell_read(path, NULL);
    for (char *at = text; (at = strstr(at, "\"loss\": ")) != NULL && count < STEPS; at++)
        losses[count++] = atof(at + strlen("\"loss\": "));
    free(text);
    return count;
}

/* The blocks of all matrices but the embedding fit two ranks that divide rows and columns. */
START_TEST(a_divided_model_has_the_same_blocks)
{
    static const struct {
        const char *launcher, *more;
    } ways[] = { { "", "--steps 6" },
                 { "cspeed --num_gpus 2 --oversubscribe ", "--tp 2 --steps 4" },
                 { "", "--steps 5" },
                 { "cspeed --num_gpus 4 --oversubscribe ", "--tp 2 --steps 6 --set zero_optimization.stage=3" } };
    double whole[STEPS], parts[STEPS];
    shell_enter();
    shell_write("t.json", "{\"train_batch_size\": 4, \"scheduler\": null, \"optimizer\": {\"type\": "
                          "\"paged_adamw_8bit\", \"params\": {\"lr\": 1e-3}},\n"
                          " \"cspeed\": {\"model\": {\"model_type\": \"llama\", \"vocab_size\": 256, "
                          "\"hidden_size\": 512, \"intermediate_size\": 512, \"num_hidden_layers\": 1, "
                          "\"num_attention_heads\": 4, \"max_position_embeddings\": 16},\n"
                          "  \"data\": {\"train\": \"t.txt\", \"valid\": [], \"seq_len\": 16},\n"
                          "  \"threads\": 1, \"products\": \"fixed\", \"save_interval\": 0, \"eval_interval\": 0, "
                          "\"metrics\": \"metrics.jsonl\"}}\n");
    ck_assert_int_eq(shell_run("seq 1 3000 > t.txt"), 0);
    for (int i = 0; i < 4; i++) {
        int code = shell_run(CS_BIN "/%strain --config t.json --output %s %s", ways[i].launcher, i ? "parts" : "whole",
                             ways[i].more);
        ck_assert_msg(code == 0, "%s", shell_read("out.txt", NULL));
        ck_assert(i == 2 || shell_says("with 8-bit state"));
    }
    ck_assert_int_eq(losses_of("whole", whole), STEPS);
    ck_assert_int_eq(losses_of("parts", parts), STEPS);
    for (int i = 0; i < STEPS; i++)
        ck_assert_double_le(fabs(whole[i] / parts[i] - 1), 1e-4);
    shell_leave();
}
END_TEST

/* The bytes of slots: rows of units are padded to blocks, and the gap behind a parameter takes four bytes, unless its last
 * block reaches into it. */
START_TEST(memory_is_planned_to_the_byte)
{
    static const int64_t lengths[4] = { 18 * 256 + 256, 25 * 256, 20 * 256, 18 * 256 };
    int64_t small = 256 + 20 * 256, codes = 18 * 256 + 25 * 256 + 18 * 256, scales = 0;
    for (int i = 0; i < 4; i++)
        scales += lengths[i] / 256;
    a_run *run = run_all((a_run){ .world = 1, .set = { OPTIMIZER("AdamW8bit", "") } });
    ck_assert_int_eq(run->slots, 2 * (codes + 4 * small + 4 * scales));
    forget(run);
    run = run_all((a_run){
        .world = 1,
        .set = { OPTIMIZER("AdamW8bit", ""), "cspeed.param_groups=[{\"params\": \"embed.*\", \"optim_bits\": 8}]" } });
    ck_assert_int_eq(run->slots, 2 * (codes + 20 * 256 + 4 * 256 + 4 * scales));
    forget(run);
    run = run_all((a_run){
        .world = 2,
        .stage = 3,
        .set = { OPTIMIZER("AdamW", ""), "cspeed.param_groups=[{\"params\": \"block.1.*\", \"optim_bits\": 8}]" } });
    int64_t padded = 20 * 256 + 26 * 256 + 20 * 256 + 18 * 256;
    ck_assert_int_eq(run->slots, 2 * (4 * padded - 3 * 25 * 256 + 4 * padded / 256));
    forget(run);
}
END_TEST

/* ---- configurations ---- */

static cs_status open_with(const char *set, const char *more, ce_optim_settings *settings)
{
    run_spec spec = { .world = 1, .precision = "fp32", .steps = 1 };
    char path[4096];
    cs_config *config;
    run_write_config(&spec, path, sizeof path);
    CS_MUST(cs_config_open(&config, path));
    unlink(path);
    CS_MUST(cs_config_set(config, set));
    if (more)
        CS_MUST(cs_config_set(config, more));
    cs_status status = cs_config_finish(config);
    *settings = config->settings.optim;
    cs_config_close(config);
    return status;
}

START_TEST(names_of_other_libraries_are_known)
{
    static const struct {
        const char *name;
        ce_optim_kind kind;
        int bits;
    } names[] = {
        { "adamw_bnb_8bit", CE_OPTIM_ADAMW, 8 },   { "paged_adamw_8bit", CE_OPTIM_ADAMW, 8 },
        { "adamw_8bit", CE_OPTIM_ADAMW, 8 },       { "adamw_torch_8bit", CE_OPTIM_ADAMW, 8 },
        { "AdamW8bit", CE_OPTIM_ADAMW, 8 },        { "PagedAdamW8bit", CE_OPTIM_ADAMW, 8 },
        { "Adam8bit", CE_OPTIM_ADAMW, 8 },         { "paged_adamw_32bit", CE_OPTIM_ADAMW, 32 },
        { "lion_8bit", CE_OPTIM_LION, 8 },         { "PagedLion8bit", CE_OPTIM_LION, 8 },
        { "paged_lion_32bit", CE_OPTIM_LION, 32 }, { "AdamW", CE_OPTIM_ADAMW, 32 },
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char set[96];
        ce_optim_settings settings;
        snprintf(set, sizeof set, "optimizer={\"type\": \"%s\"}", names[i].name);
        CS_MUST(open_with(set, NULL, &settings));
        ck_assert_msg(settings.kind == (int)names[i].kind && settings.bits == names[i].bits, "%s", names[i].name);
    }
}
END_TEST

START_TEST(mistakes_are_named)
{
    static const struct {
        const char *set, *more, *sentence;
    } bad[] = {
        { OPTIMIZER("AdamW", ", \"optim_bits\": 16"), NULL, "8 or 32 is needed, not 16" },
        { OPTIMIZER("SGD", ", \"optim_bits\": 8"), NULL, "optim_bits" },
        { OPTIMIZER("AdamW9bit", ""), NULL, "no optimizer is named \"AdamW9bit\"" },
        { OPTIMIZER("AdamW", ""), "cspeed.param_groups=[{\"params\": \"*\", \"optim_bits\": 4}]", "optim_bits" },
    };
    ce_optim_settings settings;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(open_with(bad[i].set, bad[i].more, &settings), CS_BAD_CONFIG);
        ck_assert_msg(strstr(cs_error(), bad[i].sentence) != NULL, "%s", cs_error());
    }
    shell_enter();
    forget(run_all((a_run){ .world = 1, .steps = 1, .set = { OPTIMIZER("AdamW", "") }, .save = "wide" }));
    a_run run = { .world = 1, .set = { OPTIMIZER("AdamW8bit", "") } };
    cs_engine *engine = open_engine(&run);
    ck_assert_int_eq(cs_load_checkpoint(engine, "wide", "tag", NULL, NULL), CS_BAD_CONFIG);
    ck_assert_msg(strstr(cs_error(), "32-bit optimizer state, but this run has 8-bit") != NULL, "%s", cs_error());
    cs_destroy(engine);
    shell_leave();
}
END_TEST

SUITE_MAIN("eight_bit", names_of_other_libraries_are_known, mistakes_are_named, updates_are_those_of_whole_parameters,
           bits_do_not_depend_on_world_and_stage, a_checkpoint_fits_every_world_and_stage,
           a_divided_model_has_the_same_blocks, memory_is_planned_to_the_byte)
