/* test_layouts.c - every layout of ranks loads what every layout has saved: 12 layouts by 12, for models whose parameters
 * are cut in all ways.
 *
 * A training saves after SAVED_AT steps. Each layout that loads the checkpoint saves it again, without a step between:
 * all tensors are equal. Then it continues, and its losses are those of a run on one rank without interruption.
 * CSPEED_LAYOUTS_ALL tests all pairs of layouts. */
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include "base/crc.h"
#include "core/engine.h"
#include "json/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAVED_AT = 3, ON = 3, SAMPLES = 12, LAYOUTS = 12 };

/* `lanes` lanes of `tp` ranks, and a stage of ZeRO. `group`: number of lanes in a group of hybrid sharding; 0: no hybrid
 * sharding. `rows`: sequence parallelism. */
typedef struct {
    int tp, lanes, stage, group;
    bool rows;
} layout;

static const layout layouts[LAYOUTS] = {
    { 1, 1, 0, 0, false }, { 2, 1, 1, 0, true },  { 1, 2, 3, 0, false }, { 4, 1, 3, 0, true },
    { 2, 2, 3, 0, false }, { 3, 1, 2, 0, false }, { 1, 4, 2, 2, false }, { 2, 2, 2, 0, true },
    { 4, 1, 1, 0, false }, { 3, 2, 3, 0, true },  { 2, 1, 0, 0, false }, { 2, 4, 3, 2, false },
};

#define SIZES "\"vocab_size\": 61, \"max_position_embeddings\": 16, \"initializer_range\": 0.15, \"hidden_size\": "
#define LLAMA(width, heads, keys)                                                                                      \
    SIZES width ", \"intermediate_size\": 27, \"num_hidden_layers\": 2, \"num_attention_heads\": " heads               \
                ", \"num_key_value_heads\": " keys ", \"head_dim\": 4"
#define GPT2(more)                                                                                                     \
    "cspeed.model={\"model_type\": \"gpt2\", \"vocab_size\": 61, \"n_positions\": 16, \"n_layer\": 2, "                \
    "\"initializer_range\": 0.15, \"resid_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"attn_pdrop\": 0, " more "}"

/* Models whose heads, key heads, experts and widths the ranks of a lane cannot divide evenly. None has a load-balancing
 * loss, which depends on the number of lanes: it is computed for each micro-batch of a lane. */
typedef struct {
    const char *name, *set[2]; /* assignments to keys of the configuration */
    const char *base;          /* an assignment whose model is exported to the folder "base" first; or NULL */
} model;

static const model models[] = {
    { .name = "gpt2", .set = { GPT2("\"n_embd\": 40, \"n_head\": 5, \"n_inner\": 27") } },
    { .name = "llama",
      .set = { "cspeed.model={\"model_type\": \"llama\", \"attention_bias\": true, " LLAMA("20", "6", "1") "}" } },
    { .name = "falcon",
      .set = { "cspeed.model={\"model_type\": \"falcon\", \"new_decoder_architecture\": true, \"num_kv_heads\": 2, "
               "\"bias\": true, \"num_hidden_layers\": 2, \"num_attention_heads\": 6, " SIZES "24}" } },
    { .name = "qwen2_moe",
      .set = { "cspeed.model={\"model_type\": \"qwen2_moe\", \"shared_expert_intermediate_size\": 11, \"num_experts\": "
               "5, \"moe_intermediate_size\": 13, \"num_experts_per_tok\": 3, " LLAMA("20", "6", "3") "}" } },
    { .name = "phi3",
      .set = { "cspeed.model={\"model_type\": \"phi3\", \"pad_token_id\": null, " LLAMA("24", "6", "2") "}" } },
    { .name = "qwen2 with DoRA",
      .set = { "cspeed.model=\"base\"", "cspeed.lora={\"r\": 3, \"dora\": true, \"targets\": \"all-linear\"}" },
      .base = "cspeed.model={\"model_type\": \"qwen2\", \"tie_word_embeddings\": true, " LLAMA("20", "6", "2") "}" },
    { .name = "gpt2 with LoRA",
      .set = { GPT2("\"n_embd\": 24, \"n_head\": 4, \"tie_word_embeddings\": false"),
               "cspeed.lora={\"r\": 3, \"targets\": \"all-linear\"}" } },
};
enum { MODELS = sizeof models / sizeof *models };

static int ranks_of(const layout *at)
{
    return at->tp * at->lanes;
}

/* ---- runs ---- */

typedef struct {
    double loss[LAYOUTS][SAVED_AT + ON]; /* of each checkpoint that was loaded, or of the run that saved */
} outcome;

typedef struct {
    run_spec spec;
    bool loads;
    unsigned from; /* bits: the checkpoints that are loaded, or the one that is saved; 0: the run makes all steps */
    outcome *out;  /* in memory that the ranks and the test share */
} job;

static void train_steps(cs_engine *engine, job *j, int from, int first, int end)
{
    for (int step = first; step < end; step++) {
        run_step(engine, &j->spec);
        if (cs_rank(engine) == 0)
            j->out->loss[from][step] = cs_last_step(engine).loss;
    }
}

static void save(cs_engine *engine, const char *kind, int from)
{
    char dir[32];
    snprintf(dir, sizeof dir, "%s-%d", kind, from);
    CS_MUST(cs_save_checkpoint(engine, dir, "t", NULL));
    CS_MUST(cs_finish_checkpoint(engine));
}

/* One engine loads all checkpoints in turn: an element that a load leaves out has the value of another step. */
static int train(void *argument)
{
    job *j = argument;
    cs_engine *engine = run_open(&j->spec, NULL);
    int done = 0;
    for (int from = 0; from < LAYOUTS; from++) {
        char dir[32];
        snprintf(dir, sizeof dir, "from-%d", from);
        if (!(j->from >> from & 1))
            continue;
        if (j->loads) {
            CS_MUST(cs_load_checkpoint(engine, dir, "t", NULL, NULL));
            save(engine, "again", from);
            train_steps(engine, j, from, SAVED_AT, SAVED_AT + ON);
        } else {
            train_steps(engine, j, from, 0, SAVED_AT);
            save(engine, "from", from);
        }
        done++;
    }
    if (done == 0)
        train_steps(engine, j, 0, 0, SAVED_AT + ON);
    cs_destroy(engine);
    return 0;
}

static int export_base(void *argument)
{
    const model *of = argument;
    const run_spec spec = { .world = 1, .precision = "fp32", .steps = 1, .set = { of->base } };
    cs_engine *engine = run_open(&spec, NULL);
    save(engine, "base-of", 0);
    CS_MUST(cs_export(engine, "base-of-0", "t", "base"));
    cs_destroy(engine);
    return 0;
}

static outcome run(const model *of, const layout *at, bool loads, unsigned from)
{
    char tp[32], rows[40], group[64];
    job j = { .spec = { .world = ranks_of(at),
                        .stage = at->stage,
                        .precision = "fp32",
                        .steps = SAVED_AT + ON,
                        .micro = SAMPLES / at->lanes,
                        .set = { tp, rows, group, of->set[0], of->set[1] } },
              .loads = loads,
              .from = from,
              .out = run_share(sizeof(outcome)) };
    snprintf(tp, sizeof tp, "cspeed.mesh.tp=%d", at->tp);
    snprintf(rows, sizeof rows, "cspeed.mesh.sequence=%s", at->rows ? "true" : "false");
    snprintf(group, sizeof group, "zero_optimization.mics_shard_size=%d", at->group);
    run_ranks(ranks_of(at), train, &j);
    outcome result = *j.out;
    run_unshare(j.out, sizeof(outcome));
    return result;
}

/* ---- the files ---- */

/* Counts the elements of a tensor that the boxes of its parts contain: each is in one box. */
static void check_tensor(const json_t *tensor, const char *what)
{
    int64_t shape[2] = { 1, 1 }, count;
    json_t *part, *parts = json_object_get(tensor, "parts"), *number, *sizes = json_object_get(tensor, "shape");
    size_t i;
    const char *name = json_string_value(json_object_get(tensor, "name"));
    json_array_foreach (sizes, i, number)
        shape[i] = json_integer_value(number);
    count = shape[0] * shape[1];
    uint8_t *seen = calloc((size_t)count, 1);
    ck_assert_ptr_nonnull(seen);
    json_array_foreach (parts, i, part) {
        json_int_t offset[2] = { 0, 0 }, size[2] = { 1, 1 };
        for (size_t dim = 0; dim < json_array_size(sizes); dim++) {
            offset[dim] = json_integer_value(json_array_get(json_object_get(part, "offset"), dim));
            size[dim] = json_integer_value(json_array_get(json_object_get(part, "size"), dim));
        }
        for (json_int_t row = 0; row < size[0]; row++)
            for (json_int_t column = 0; column < size[1]; column++)
                seen[(offset[0] + row) * shape[1] + offset[1] + column]++;
    }
    for (int64_t element = 0; element < count; element++)
        ck_assert_msg(seen[element] == 1, "%s: element %lld of %s is in %d boxes", what, (long long)element, name,
                      seen[element]);
    free(seen);
}

/* Checks that the checkpoint is whole, has each element once, and has few files for each rank that saved it. */
static void check_files(const char *dir, const layout *saver, const char *what)
{
    size_t i;
    json_t *tensor;
    ck_assert_msg(shell_run("%s/cspeed verify %s", CS_BIN, dir) == 0, "%s: %s", what, shell_read("out.txt", NULL));
    ck_assert_int_eq(shell_run("%s/cspeed inspect %s --tensors '*' --json", CS_BIN, dir), 0);
    json_t *tensors = json_load_file("out.txt", 0, NULL);
    ck_assert_uint_gt(json_array_size(tensors), 0);
    json_array_foreach (tensors, i, tensor)
        check_tensor(tensor, what);
    json_decref(tensors);
    ck_assert_int_eq(shell_run("test $(ls %s/t/weights %s/t/optim | grep -c safetensors) -le %d", dir, dir,
                               2 * CE_PIECES_EACH * ranks_of(saver)),
                     0);
}

static void check_again(int from, const layout *loader, const char *what)
{
    char dir[32];
    snprintf(dir, sizeof dir, "again-%d", from);
    ck_assert_msg(shell_run("%s/cspeed diff from-%d %s", CS_BIN, from, dir) == 0, "%s: %s", what,
                  shell_read("out.txt", NULL));
    check_files(dir, loader, what);
}

/* ---- pairs ---- */

static void describe(char *text, size_t bytes, const model *of, int from, int to)
{
    const layout *a = &layouts[from], *b = &layouts[to];
    snprintf(text, bytes, "%s, tp %d%s, %d lanes, stage %d, group %d, to tp %d%s, %d lanes, stage %d, group %d",
             of->name, a->tp, a->rows ? " with sequence" : "", a->lanes, a->stage, a->group, b->tp,
             b->rows ? " with sequence" : "", b->lanes, b->stage, b->group);
}

static void check_losses(const double *got, const double *wanted, int first, int end, const char *what)
{
    for (int step = first; step < end; step++)
        ck_assert_msg(fabs(got[step] - wanted[step]) <= 2e-6 * wanted[step], "%s: step %d: loss %.9g, not %.9g", what,
                      step + 1, got[step], wanted[step]);
}

static void load_all(const model *of, int to, unsigned from, const double *wanted)
{
    char what[256];
    outcome loaded = run(of, &layouts[to], true, from);
    for (int i = 0; i < LAYOUTS; i++) {
        if (!(from >> i & 1))
            continue;
        describe(what, sizeof what, of, i, to);
        check_losses(loaded.loss[i], wanted, SAVED_AT, SAVED_AT + ON, what);
        check_again(i, &layouts[to], what);
    }
    ck_assert_int_eq(shell_run("rm -r again-*"), 0);
}

/* With `all`, every layout loads what every layout has saved. Otherwise three layouts load what three others have saved,
 * and over all models every layout saves and loads. */
static void check_model(int number, bool all)
{
    const model *of = &models[number];
    char what[256];
    shell_enter();
    if (of->base)
        run_ranks(1, export_base, (void *)(uintptr_t)of);
    outcome plain = run(of, &layouts[0], false, 0);
    for (int to = 0; to < LAYOUTS; to++) {
        int from = (to + 1 + number) % LAYOUTS;
        if (!all && to % 4 != number % 4)
            continue;
        describe(what, sizeof what, of, from, to);
        check_losses(run(of, &layouts[from], false, 1u << from).loss[from], plain.loss[0], 0, SAVED_AT, what);
        if (!all)
            load_all(of, to, 1u << from, plain.loss[0]);
    }
    for (int to = 0; all && to < LAYOUTS; to++)
        load_all(of, to, (1u << LAYOUTS) - 1, plain.loss[0]);
    shell_leave();
}

START_TEST(every_layout_continues_what_every_layout_saved)
{
    for (int i = 0; i < MODELS; i++)
        check_model(i, getenv("CSPEED_LAYOUTS_ALL") != NULL);
}
END_TEST

/* Replaces the facts about the layout in the manifest of the checkpoint `dir`, and the manifest's checksum. */
static void change_layout(const char *dir, json_t *facts)
{
    static const char mark[] = "\"crc32c\": \"", zeros[] = "00000000";
    char path[64], digits[sizeof zeros];
    snprintf(path, sizeof path, "%s/t/manifest.json", dir);
    json_t *manifest = json_load_file(path, 0, NULL), *saver = json_object_get(manifest, "provenance");
    for (size_t i = 0; i < 3; i++)
        json_object_del(saver, (const char *const[]){ "mesh", "world_size", "zero_stage" }[i]);
    json_object_update(saver, facts);
    json_object_set_new(manifest, "crc32c", json_string(zeros));
    char *text = json_dumps(manifest, JSON_INDENT(1));
    snprintf(digits, sizeof digits, "%08x", (unsigned)ce_crc32c(0, text, strlen(text)));
    memcpy(strstr(text, mark) + sizeof mark - 1, digits, sizeof zeros - 1);
    shell_write(path, text);
    free(text);
    json_decref(manifest);
}

/* The manifest says in which layout the checkpoint was saved, for people. A load does not use it. */
START_TEST(the_saved_layout_is_for_people_only)
{
    enum { SAVER = 4, LOADER = 5 };
    const unsigned from = 1u << SAVER;
    shell_enter();
    run(&models[0], &layouts[SAVER], false, from);
    shell_expect(0, "4 ranks, tp 2, ZeRO-3", "inspect from-4");
    outcome told = run(&models[0], &layouts[LOADER], true, from);
    json_t *none = json_object(), *wrong = json_pack("{s:i, s:{s:i, s:i}, s:i}", "world_size", 5, "mesh", "dp_shard", 7,
                                                     "tp", 9, "zero_stage", 1);
    json_t *facts[] = { none, wrong };
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(shell_run("rm -r again-4"), 0);
        change_layout("from-4", facts[i]);
        outcome loaded = run(&models[0], &layouts[LOADER], true, from);
        ck_assert_mem_eq(loaded.loss, told.loss, sizeof told.loss);
        check_again(SAVER, &layouts[LOADER], "a manifest with other facts");
    }
    json_decref(none);
    json_decref(wrong);
    shell_leave();
}
END_TEST

SUITE_MAIN("layouts", every_layout_continues_what_every_layout_saved, the_saved_layout_is_for_people_only)
