/* test_frozen.c - frozen parameters and LoRA: memory to the byte, the same losses at every stage, frozen values that do
 * not change, gradients of the trained parameters, and a training that continues from a checkpoint. */
#include "near.h"
#include "pieces.h"
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UNITS = 5, PAGE = 4096, RANK = 4 };

#define TCP "cspeed.comm=\"tcp\""
#define LOWER                                                                                                          \
    "cspeed.param_groups=[{\"params\": [\"*.wte.weight\", \"*.wpe.weight\", \"*.h.[01].*\"], \"train\": false}]"
#define SOME                                                                                                           \
    "cspeed.param_groups=[{\"params\": [\"*.ln_1.*\", \"*.h.1.mlp.*\", \"*.c_proj.weight\"], \"train\": false}]"
#define LORA "cspeed.lora={\"r\": 4, \"alpha\": 16, \"dropout\": 0.1}"
#define LORA_ALL "cspeed.lora={\"r\": 4, \"targets\": \"all-linear\", \"rslora\": true}"

#define BIASES "cspeed.lora={\"r\": 4, \"bias\": \"all\"}"

/* ---- memory ---- */

static int64_t padded(int64_t count, int world)
{
    int64_t multiple = world * 64;
    return (count + multiple - 1) / multiple * multiple;
}

/* Numbers of elements in a unit of the tiny GPT-2: base_of, without adapters; adapter_of, of the adapters of c_attn
 * that LORA adds to the unit. */
static int64_t base_of(int unit)
{
    int64_t width = 24, block = 2 * width + (3 * width * width + 3 * width) + (width * width + width) + 2 * width +
                                (4 * width * width + 4 * width) + (4 * width * width + width);
    return unit == 0 ? (61 + 16) * width : unit <= 3 ? block : 2 * width;
}

static int64_t adapter_of(int unit)
{
    return unit >= 1 && unit <= 3 ? RANK * 24 + 3 * 24 * RANK : 0;
}

static size_t pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* Frozen parameters have only values; adapters also have gradients, masters and slots. */
static void check_lora_memory(int stage, int world, const char *precision)
{
    run_spec spec = { .world = world,
                      .stage = stage,
                      .steps = 3,
                      .precision = precision,
                      .prefetch = 1,
                      .set = { world > 1 ? TCP : "cspeed.prefetch=1", LORA } };
    run_result result;
    size_t size = strcmp(precision, "fp32") == 0 ? 4 : 2, values = 0, trained = 0, heap = 0;
    size_t shard = (size_t)world, of_values = stage >= 3 ? shard : 1, of_grads = stage >= 2 ? shard : 1;
    for (int unit = 0; unit < UNITS; unit++) {
        size_t base = (size_t)padded(base_of(unit), world), adapter = (size_t)padded(adapter_of(unit), world);
        values += size * (base + adapter) / of_values;
        trained += adapter;
        heap += pages(size * base / of_values) + pages(size * adapter / of_values) + pages(4 * adapter / of_grads);
    }
    run_train(&spec, &result);
    for (int rank = 0; rank < world; rank++) {
        const cs_memory *said = &result.memory[rank];
        const run_held *open = &result.at_open[rank], *end = &result.at_end[rank];
        size_t rows = said->value_rows + said->gradient_rows, moved = trained / (stage >= 1 ? shard : 1);
        ck_assert_uint_eq(said->values, values);
        ck_assert_uint_eq(said->gradients, 4 * trained / of_grads);
        ck_assert_uint_eq(said->masters, size == 4 ? 0 : 4 * moved);
        ck_assert_uint_eq(said->slots, 8 * moved);
        ck_assert_uint_ge(open->heap, heap + rows);
        ck_assert_uint_le(open->heap, heap + rows + (rows ? 4 * UNITS * PAGE : 0));
        ck_assert_uint_eq(open->device - open->workspace, said->masters + said->slots + said->activations);
        ck_assert_uint_eq(end->heap, open->heap);
        ck_assert_uint_eq(end->device - end->workspace, open->device - open->workspace);
    }
}

/* The formula does not include the vocabulary padding, which exists on GPUs only. */
START_TEST(memory_of_adapters_equals_the_formula)
{
    if (!near_is_cpu())
        return;
    for (int stage = 0; stage <= 3; stage++)
        for (int world = 1; world <= 2; world++)
            check_lora_memory(stage, world, world == 1 ? "fp32" : "bf16");
}
END_TEST

/* Backward does not reach the frozen lower units, and frozen layers save no input. */
START_TEST(activations_shrink)
{
    run_spec spec = { .world = 1, .steps = 1, .precision = "fp32" };
    run_result all, lower, lora;
    run_train(&spec, &all);
    spec.set[0] = LOWER;
    run_train(&spec, &lower);
    spec.set[0] = "cspeed.lora={\"r\": 1}";
    run_train(&spec, &lora);
    ck_assert_uint_lt(lower.memory[0].activations, all.memory[0].activations * 3 / 4);
    ck_assert_uint_lt(lora.memory[0].activations, all.memory[0].activations);
}
END_TEST

/* ---- stages ---- */

START_TEST(stages_have_the_same_losses)
{
    static const char *const what[] = { LOWER, SOME, LORA, LORA_ALL, BIASES };
    for (int i = 0; i < (int)(sizeof what / sizeof *what); i++) {
        run_result first, next;
        for (int stage = 0; stage <= 3; stage++) {
            run_spec spec = { .world = 2,
                              .stage = stage,
                              .steps = 4,
                              .precision = i % 2 ? "bf16" : "fp32",
                              .dropout = 0.1,
                              .prefetch = stage == 3,
                              .recompute = stage == 2 ? "unit" : "none",
                              .set = { TCP, what[i] } };
            run_train(&spec, stage == 0 ? &first : &next);
            for (int step = 0; stage > 0 && step < spec.steps; step++) {
                ck_assert_msg(memcmp(&first.loss[step], &next.loss[step], sizeof(double)) == 0,
                              "%s: loss %d of stage %d is %.17g, of stage 0 %.17g", what[i], step, stage,
                              next.loss[step], first.loss[step]);
                ck_assert_msg(memcmp(&first.norm[step], &next.norm[step], sizeof(double)) == 0, "%s: norm %d", what[i],
                              step);
            }
        }
        ck_assert(first.loss[3] < first.loss[0] * 1.1 && first.norm[0] > 0);
    }
}
END_TEST

/* ---- what is trained ---- */

/* Returns the sum of squares of `engine`'s gradients, over the parameters that are not frozen in the engine
 * `chosen`. */
static double squares_of(cs_engine *engine, const cs_engine *chosen)
{
    double sum = 0;
    for (int i = 0; i < engine->model->count; i++) {
        ce_shard_piece pieces[32];
        int count = pieces_take(engine, i, pieces);
        for (int at = 0; at < count; at++) {
            const float *gradient = pieces[at].gradient;
            if (!ce_model_find(chosen->model, pieces[at].entry->full_name)->param.frozen)
                for (int64_t e = 0; e < ce_range_length(pieces[at].range); e++)
                    sum += (double)gradient[e] * (double)gradient[e];
        }
    }
    return sum;
}

static cs_engine *stepped(const run_spec *spec, cs_metrics *metrics)
{
    cs_engine *engine = run_open(spec, NULL);
    run_step(engine, spec);
    *metrics = cs_last_step(engine);
    return engine;
}

/* Returns the values of all frozen parameters, one after another; the caller frees them. */
static float *frozen_values(cs_engine *engine, size_t *bytes)
{
    float *all = calloc(1 << 16, sizeof *all);
    size_t count = 0;
    ck_assert_ptr_nonnull(all);
    for (int i = engine->model->count; i < engine->model->total; i++) {
        ce_shard_piece pieces[32];
        int many = pieces_take(engine, i, pieces);
        for (int at = 0; at < many; at++) {
            size_t items = (size_t)ce_range_length(pieces[at].range);
            ck_assert_ptr_null(pieces[at].gradient);
            ck_assert_ptr_null(pieces[at].slots[0]);
            memcpy(all + count, pieces[at].master, items * sizeof *all);
            count += items;
        }
    }
    *bytes = count * sizeof *all;
    return all;
}

START_TEST(the_rest_is_trained_as_before)
{
    static const char *const what[] = { LOWER, SOME };
    for (int i = 0; i < 2; i++) {
        run_spec spec = { .world = 1, .steps = 1, .precision = "fp32", .set = { "gradient_clipping=0" } };
        cs_metrics whole, part;
        size_t bytes, same;
        cs_engine *all = stepped(&spec, &whole);
        spec.set[1] = what[i];
        cs_engine *some = run_open(&spec, NULL);
        float *before = frozen_values(some, &bytes);
        run_step(some, &spec);
        part = cs_last_step(some);
        float *after = frozen_values(some, &same);
        double norm = sqrt(squares_of(all, some));
        ck_assert(bytes > 0 && bytes == same && memcmp(before, after, bytes) == 0);
        ck_assert(memcmp(&whole.loss, &part.loss, sizeof whole.loss) == 0);
        ck_assert_msg(fabs(part.grad_norm - norm) <= 1e-6 * norm, "norm %.9g, of the trained ones %.9g", part.grad_norm,
                      norm);
        ck_assert(part.grad_norm < whole.grad_norm);
        free(before);
        free(after);
        cs_destroy(all);
        cs_destroy(some);
    }
}
END_TEST

/* ---- checkpoints ---- */

static void check_resume(const char *what, const char *precision)
{
    run_spec spec = { .world = 1, .stage = 3, .steps = 4, .precision = precision, .set = { what } };
    shell_enter();
    cs_engine *first = run_open(&spec, NULL);
    run_step(first, &spec);
    run_step(first, &spec);
    CS_MUST(cs_save_checkpoint(first, "saved", NULL, NULL));
    spec.set[1] = "cspeed.seed=99"; /* another seed gives other initial values; loading replaces these values */
    cs_engine *second = run_open(&spec, NULL);
    ck_assert_uint_ne(run_masters(first), run_masters(second));
    CS_MUST(cs_load_checkpoint(second, "saved", NULL, NULL, NULL));
    for (int step = 0; step < 2; step++) {
        run_step(first, &spec);
        run_step(second, &spec);
        double one = cs_last_step(first).loss, other = cs_last_step(second).loss;
        ck_assert_msg(memcmp(&one, &other, sizeof one) == 0, "%s: %.17g, after the resume %.17g", what, one, other);
    }
    ck_assert_uint_eq(run_masters(first), run_masters(second));
    ck_assert_uint_eq(run_slots(first), run_slots(second));
    cs_destroy(first);
    cs_destroy(second);
    shell_leave();
}

START_TEST(a_training_goes_on)
{
    check_resume(SOME, "fp32");
    check_resume(LORA_ALL, "bf16");
    check_resume(BIASES, "bf16");
}
END_TEST

/* ---- refusals ---- */

static void refuse(const char *what, const char *model, const char *word)
{
    run_spec spec = { .world = 1, .steps = 1, .precision = "fp32" };
    char path[4096];
    cs_config *config;
    cs_engine *engine;
    run_write_config(&spec, path, sizeof path);
    CS_MUST(cs_config_open(&config, path));
    if (model)
        CS_MUST(cs_config_set(config, model));
    CS_MUST(cs_config_set(config, what));
    ck_assert_msg(cs_initialize(&engine, config, NULL) != CS_OK, "%s is accepted", what);
    ck_assert_msg(strstr(cs_error(), word), "%s: \"%s\" is not said in: %s", what, word, cs_error());
    remove(path);
}

START_TEST(what_is_not_supported_is_refused_by_name)
{
    static const char llama[] =
        "cspeed.model={\"model_type\": \"llama\", \"vocab_size\": 61, \"hidden_size\": 24, \"intermediate_size\": 36, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"max_position_embeddings\": 16}";
    static const char qwen[] =
        "cspeed.model={\"model_type\": \"qwen2\", \"vocab_size\": 61, \"hidden_size\": 24, \"intermediate_size\": 36, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"max_position_embeddings\": 16}";
    refuse("cspeed.param_groups=[{\"params\": \"*\", \"train\": false}]", NULL, "every parameter is frozen");
    refuse("cspeed.param_groups=[{\"params\": \"*.q_proj.*\", \"train\": false}]", llama, "freeze both or none");
    refuse("cspeed.param_groups=[{\"params\": \"*.wte.*\", \"train\": false, \"lr\": 1}]", NULL,
           "\"lr\" has no effect");
    refuse("cspeed.param_groups=[{\"params\": \"*.wte.*\", \"train\": 0}]", NULL, "true or false");
    refuse("cspeed.lora={\"r\": 2, \"targets\": [\"q_proj\"]}", NULL, "no linear layer \"q_proj\"");
    refuse("cspeed.lora={\"r\": 2, \"targets\": [\"lm_head\"]}", llama,
           "logits of the head are never in memory all at once,");
    refuse("cspeed.lora={\"alpha\": 2}", NULL, "set cspeed.lora.r");
    refuse("cspeed.lora={\"r\": 2, \"dora\": true}", NULL, "cspeed.lora.dora");
    refuse("cspeed.lora={\"r\": 2, \"bias\": \"some\"}", NULL, "cspeed.lora.bias");
    refuse("cspeed.lora={\"r\": 2, \"targets\": [\"q_proj\"], \"bias\": \"lora_only\"}", qwen, "freeze both or none");
    refuse("cspeed.lora={\"r\": 2, \"qlora\": true}", NULL, "cspeed.lora.qlora");
    refuse("cspeed.lora={\"adapter\": \"nowhere\"}", NULL, "nowhere");
    refuse("cspeed.lora={\"adapter\": \"nowhere\", \"r\": 2}", NULL, "remove this key");
}
END_TEST

SUITE_MAIN("frozen", memory_of_adapters_equals_the_formula, activations_shrink, stages_have_the_same_losses,
           the_rest_is_trained_as_before, a_training_goes_on, what_is_not_supported_is_refused_by_name)
