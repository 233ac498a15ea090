/* test_fallback.c - fallback from a damaged checkpoint: which checkpoint training resumes from when damage is found
 * only while reading, or when training had returned to an earlier checkpoint; what is pruned and what is kept. */
#include "runs.h"
#include "saved.h"
#include "shell.h"
#include "suite.h"

#include "base/must.h"
#include "checkpoint/line.h"
#include "core/engine.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- the state after loading ---- */

enum { OLD = 2, NEW = 4, SHARDS = 16, PLACES = 4 };

/* The whole state that a checkpoint carries. */
typedef struct {
    uint32_t masters, slots;
    int64_t step, samples, tokens, skipped, updates, scheduled;
    ce_scaler scaler;
} state;

static state state_of(cs_engine *engine)
{
    cs_metrics m = cs_last_step(engine);
    return (state){ run_masters(engine), run_slots(engine), m.step,        m.samples, m.tokens, m.skipped,
                    engine->updates,     engine->scheduled, engine->scaler };
}

static bool same_state(const state *a, const state *b)
{
    return a->masters == b->masters && a->slots == b->slots && a->step == b->step && a->samples == b->samples &&
           a->tokens == b->tokens && a->skipped == b->skipped && a->updates == b->updates &&
           a->scheduled == b->scheduled && fabs(a->scaler.scale - b->scaler.scale) == 0 &&
           a->scaler.iteration == b->scaler.iteration && a->scaler.last_overflow == b->scaler.last_overflow &&
           a->scaler.hysteresis == b->scaler.hysteresis;
}

typedef struct {
    run_spec spec;
    bool headers_alone; /* true: damages only headers and text files */
} job;

static void flip(const cs_engine *engine, const char *path, long offset)
{
    if (cs_rank(engine) == 0)
        shell_flip(path, offset);
    cs_comm_barrier(engine->comm);
}

/* Loads after one byte was changed: the older checkpoint must be loaded, and training must continue from it with the
 * same losses. */
static void load_flipped(cs_engine *engine, const run_spec *spec, const char *path, long offset, const state *old,
                         const double *losses)
{
    flip(engine, path, offset);
    CS_MUST(cs_load_checkpoint(engine, "out", NULL, NULL, NULL));
    state now = state_of(engine);
    if (!same_state(&now, old))
        ce_fatal(CS_BAD_FILE, "%s: byte %ld: not the state of step %d, but of %lld", path, offset, OLD,
                 (long long)now.step);
    for (int step = OLD; step < NEW; step++) {
        run_step(engine, spec);
        double loss = cs_last_step(engine).loss;
        if (!(fabs(loss - losses[step]) <= 0))
            ce_fatal(CS_BAD_FILE, "%s: byte %ld: step %d after it has loss %.9g, not %.9g", path, offset, step + 1,
                     loss, losses[step]);
    }
    flip(engine, path, offset);
}

/* Lists the shards of the newest checkpoint by name, in the same order on every rank. */
static int list_shards(char shards[SHARDS][256], const char *pattern)
{
    glob_t found;
    CE_ASSERT(glob(pattern, 0, NULL, &found) == 0);
    CE_ASSERT(found.gl_pathc <= SHARDS);
    int count = (int)found.gl_pathc;
    for (int i = 0; i < count; i++)
        snprintf(shards[i], 256, "%s", found.gl_pathv[i]);
    globfree(&found);
    return count;
}

static long size_of(const char *path)
{
    struct stat about;
    CE_ASSERT(stat(path, &about) == 0);
    return (long)about.st_size;
}

static int damaged_while_reading(void *argument)
{
    job *j = argument;
    cs_engine *engine = run_open(&j->spec, NULL);
    double losses[NEW];
    char shards[SHARDS][256];
    state old = { 0 };
    for (int step = 0; step < NEW; step++) {
        run_step(engine, &j->spec);
        losses[step] = cs_last_step(engine).loss;
        if (step + 1 == OLD)
            old = state_of(engine);
        if (step + 1 == OLD || step + 1 == NEW)
            CS_MUST(cs_save_checkpoint(engine, "out", NULL, "{\"a\": 1}"));
    }
    int count = list_shards(shards, "out/global_step4/*/shard-*.safetensors");
    for (int i = 0; i < count; i++) {
        long size = size_of(shards[i]), places[PLACES] = { 200, 4096, (4096 + size) / 2, size - 1 };
        /* Damage of a header is found even if blocks are not verified. */
        for (int place = j->headers_alone ? 0 : i % 2; place < (j->headers_alone ? 1 : PLACES); place += 2)
            load_flipped(engine, &j->spec, shards[i], places[place], &old, losses);
    }
    load_flipped(engine, &j->spec, "out/global_step4/client_state.json", 3, &old, losses);
    load_flipped(engine, &j->spec, "out/global_step4/manifest.json", 300, &old, losses);
    CS_MUST(cs_load_checkpoint(engine, "out", NULL, NULL, NULL)); /* all changes have been undone */
    CE_ASSERT(cs_last_step(engine).step == NEW);
    flip(engine, shards[count - 1], 200);
    CE_ASSERT(cs_load_checkpoint(engine, "out", "global_step4", NULL, NULL) == CS_BAD_FILE);
    CE_ASSERT(strstr(cs_error(), shards[count - 1]));
    cs_destroy(engine);
    return 0;
}

/* In each world and stage of the table, single bytes in each kind of file of the newest checkpoint are changed, one at
 * a time, and the ranks load the checkpoint after each change. Some of these changes are seen by only one rank. */
START_TEST(damage_that_shows_while_it_is_read)
{
    static const struct {
        int world, stage;
        const char *verify;
    } rows[] = { { 1, 0, "touched" }, { 2, 1, "touched" }, { 2, 3, "full" }, { 2, 2, "off" }, { 4, 3, "touched" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char verify[64];
        snprintf(verify, sizeof verify, "cspeed.checkpoint.verify_on_load=%s", rows[i].verify);
        job j = { .spec = { .world = rows[i].world,
                            .stage = rows[i].stage,
                            .precision = "fp16",
                            .steps = NEW,
                            .dropout = 0.1,
                            .more = "\"scheduler\": {\"type\": \"WarmupLR\", "
                                    "\"params\": {\"warmup_num_steps\": 9}},",
                            .set = { "fp16.loss_scale_window=1", "fp16.initial_scale_power=8", verify } },
                  .headers_alone = strcmp(rows[i].verify, "off") == 0 };
        shell_enter();
        run_ranks(rows[i].world, damaged_while_reading, &j);
        shell_leave();
    }
}
END_TEST

/* ---- what happens to the damaged checkpoint ---- */

static int go_on_past_damage(void *argument)
{
    const run_spec *spec = argument;
    cs_engine *engine = run_open(spec, NULL);
    CS_MUST(cs_load_checkpoint(engine, "out", NULL, NULL, NULL));
    CE_ASSERT(cs_last_step(engine).step == 2);
    for (int step = 3; step <= 5; step++) {
        run_step(engine, spec);
        CS_MUST(cs_save_checkpoint(engine, "out", NULL, NULL));
    }
    CS_MUST(cs_finish_checkpoint(engine));
    cs_destroy(engine);
    return 0;
}

static int save_three(void *argument)
{
    const run_spec *spec = argument;
    cs_engine *engine = run_open(spec, NULL);
    for (int step = 1; step <= 3; step++) {
        run_step(engine, spec);
        CS_MUST(cs_save_checkpoint(engine, "out", NULL, NULL));
    }
    CS_MUST(cs_finish_checkpoint(engine));
    cs_destroy(engine);
    return 0;
}

static void expect_listing(const char *wanted)
{
    ck_assert_int_eq(shell_run("ls -A out"), 0);
    char *text = shell_read("out.txt", NULL);
    for (char *at = text; *at; at++)
        *at = *at == '\n' ? ' ' : *at;
    ck_assert_str_eq(text, wanted);
    free(text);
}

/* A damaged checkpoint is not pruned. A synchronous or asynchronous save under its tag renames the damaged folder to
 * TAG~damaged, and changes none of its files. */
START_TEST(what_is_damaged_is_kept)
{
    static const char *const breaks[] = {
        "printf X | dd of=out/global_step3/weights/shard-00001-of-00002.safetensors bs=1 seek=20000 conv=notrunc",
        "rm out/global_step3/optim/shard-00001-of-00002.safetensors",
        "printf X | dd of=out/global_step3/manifest.json bs=1 seek=300 conv=notrunc",
        "rm out/global_step3/manifest.json",
    };
    for (size_t i = 0; i < sizeof breaks / sizeof *breaks; i++) {
        run_spec spec = { .world = 2, .stage = 1, .precision = "fp32", .steps = 5, .set = { "cspeed.keep_last=2" } };
        spec.set[1] = i % 2 ? "cspeed.async_save=true" : "cspeed.async_save=false";
        shell_enter();
        run_ranks(2, save_three, &spec);
        expect_listing("global_step2 global_step3 latest ");
        ck_assert_int_eq(shell_run("%s", breaks[i]), 0);
        ck_assert_int_eq(shell_run("cp -r out/global_step3 copy"), 0);
        run_ranks(2, go_on_past_damage, &spec);
        expect_listing("global_step3~damaged global_step4 global_step5 latest ");
        ck_assert_int_eq(shell_run("diff -r copy out/global_step3~damaged"), 0);
        ck_assert_int_ne(shell_run("%s/cspeed verify out/global_step3~damaged", CS_BIN), 0);
        if (i == 0) /* this damage is found only when the blocks are read */
            ck_assert_int_eq(shell_run("%s/cspeed inspect out | grep 'found damaged by a training'", CS_BIN), 0);
        shell_leave();
    }
}
END_TEST

static int expect_refusal(void *argument)
{
    const run_spec *spec = argument;
    cs_engine *engine = run_open(spec, NULL);
    CE_ASSERT(cs_load_checkpoint(engine, "out", NULL, NULL, NULL) == CS_BAD_FILE);
    CE_ASSERT(strstr(cs_error(), "global_step3/weights"));
    CE_ASSERT(strstr(cs_error(), spec->set[1] ? "on_bad_latest" : "global_step2/weights"));
    cs_destroy(engine);
    return 0;
}

START_TEST(without_fallback_damage_is_an_error)
{
    run_spec spec = { .world = 2, .stage = 3, .precision = "fp32", .steps = 5, .set = { "cspeed.keep_last=2" } };
    shell_enter();
    run_ranks(2, save_three, &spec);
    shell_flip("out/global_step3/weights/shard-00001-of-00002.safetensors", 4100);
    spec.set[1] = "cspeed.checkpoint.on_bad_latest=fail";
    run_ranks(2, expect_refusal, &spec);
    shell_flip("out/global_step2/weights/shard-00002-of-00002.safetensors", 4100);
    spec.set[1] = NULL;
    run_ranks(2, expect_refusal, &spec);
    expect_listing("global_step2 global_step3 latest ");
    shell_leave();
}
END_TEST

/* ---- trainings that return to an earlier checkpoint ---- */

static int go_back_to_two(void *argument)
{
    run_spec *spec = argument;
    cs_engine *engine = run_open(spec, NULL);
    for (int step = 1; step <= 6; step++) {
        run_step(engine, spec);
        CS_MUST(cs_save_checkpoint(engine, "out", NULL, NULL));
    }
    CS_MUST(cs_load_checkpoint(engine, "out", "global_step2", NULL, NULL));
    cs_destroy(engine);
    spec->set[0] = "cspeed.keep_last=2";
    engine = run_open(spec, NULL);
    CS_MUST(cs_load_checkpoint(engine, "out", "global_step2", &(cs_load_options){ .rewind = true }, NULL));
    for (int step = 3; step <= 4; step++) {
        run_step(engine, spec);
        CS_MUST(cs_save_checkpoint(engine, "out", NULL, NULL));
        CS_MUST(cs_save_checkpoint(engine, "best", "best", NULL)); /* another folder has its own ancestry */
    }
    cs_destroy(engine);
    return 0;
}

static int expect_step(void *argument)
{
    const run_spec *spec = argument;
    cs_engine *engine = run_open(spec, NULL);
    CS_MUST(cs_load_checkpoint(engine, "out", NULL, NULL, NULL));
    CE_ASSERT(cs_last_step(engine).step == spec->steps);
    cs_destroy(engine);
    return 0;
}

static void expect_loads(int step)
{
    run_spec spec = { .world = 1, .precision = "fp32", .steps = step };
    run_ranks(1, expect_step, &spec);
}

/* A training that has saved steps 1 to 6 returns to step 2, and saves steps 3 and 4 again. These new checkpoints
 * replace the old checkpoints of steps 3 and 4. The old checkpoints of steps 5 and 6 remain, but the training no longer
 * descends from them. */
START_TEST(the_line_that_is_continued)
{
    run_spec spec = { .world = 1, .precision = "fp32", .steps = 6, .set = { "cspeed.keep_last=0" } };
    shell_enter();
    run_ranks(1, go_back_to_two, &spec);
    expect_listing("global_step3 global_step4 global_step5 global_step6 latest ");
    expect_loads(4);
    ck_assert_int_eq(shell_run("cp -r out moved && rm -r out && mv moved out"), 0);
    shell_flip("out/global_step4/optim/shard-00001-of-00001.safetensors", 20000);
    expect_loads(3);
    shell_flip("out/global_step3/manifest.json", 200);
    expect_loads(6); /* if no ancestor is left, the highest step is taken */
    shell_leave();
}
END_TEST

/* Saves a small checkpoint whose configuration has the step as its seed. */
static void save_small(const char *tag, int64_t step, json_t *line, int64_t keep_last, int64_t keep_every)
{
    char text[64];
    float value = (float)step;
    cs_comm *comm = saved_world();
    ce_piece piece = {
        .name = "w", .folder = "weights", .dtype = CS_F32, .dims = 1, .shape = { 1 }, .range = { 0, 1 }, .data = &value
    };
    ce_checkpoint_content content = { .tag = tag,
                                      .config_text = text,
                                      .step = step,
                                      .line = line,
                                      .keep_last = keep_last,
                                      .keep_every = keep_every,
                                      .pieces = &piece,
                                      .piece_count = 1 };
    snprintf(text, sizeof text, "{ \"cspeed\": { \"seed\": %lld } }", (long long)step);
    SHOULD(ce_checkpoint_save(comm, "out", &content));
    cs_comm_close(comm);
}

static void expect_generations(const char *name, const char *wanted)
{
    ce_catalog catalog;
    char text[512];
    size_t used = 0;
    SHOULD(ce_catalog_open(&catalog, "out"));
    ce_line_follow(&catalog, "out", name);
    for (int64_t i = 0; i < catalog.count; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s:%lld ", catalog.items[i].name,
                             catalog.items[i].generation == CE_NO_ANCESTOR ? -1
                                                                           : (long long)catalog.items[i].generation);
    ck_assert_str_eq(text, wanted);
    ce_catalog_close(&catalog);
}

/* Checkpoints without a list of ancestors are pruned by their steps. With a list, ancestors are recognised although
 * checkpoints between them were pruned, and a checkpoint that reused an ancestor's tag is not an ancestor. */
START_TEST(lists_of_ancestors)
{
    static const char *const tags[] = { "s4", "s5", "s6", "s7", "s8", "s9" };
    ce_manifest manifest;
    shell_enter();
    save_small("a", 1, NULL, 2, 0);
    save_small("b", 2, NULL, 2, 0);
    save_small("c", 3, NULL, 2, 0);
    expect_listing("b c latest ");
    SHOULD(ce_manifest_load(&manifest, "out/c"));
    json_t *line = ce_line_behind(&manifest);
    ce_manifest_close(&manifest);
    for (int i = 0; i < 6; i++)
        save_small(tags[i], i + 4, line, 2, 4);
    expect_listing("latest s4 s8 s9 ");
    expect_generations("s9", "s9:0 s8:1 s4:3 ");
    /* The list of ancestors still contains s7, which the last save has pruned, but not the ancestors pruned before. */
    ck_assert_uint_eq(json_array_size(line), 4);
    json_decref(line);
    json_t *other = json_array();
    save_small("s4", 4, other, 2, 0); /* saved by a training that started from the beginning */
    expect_generations("s9", "s9:0 s8:1 s4:-1 ");
    expect_generations("s4", "s4:0 s9:-1 s8:-1 ");
    save_small("s5", 5, other, 1, 0);
    expect_listing("latest s5 s8 s9 "); /* the checkpoints of the other line are not pruned */
    json_decref(other);
    shell_leave();
}
END_TEST

/* The programs `eval` and `generate` read the configuration of the checkpoint whose parameters will be loaded. */
START_TEST(the_configuration_of_the_line)
{
    cs_config *config;
    json_t *line = json_array(), *other = json_array();
    shell_enter();
    save_small("a", 1, line, 0, 0);
    save_small("dead", 9, other, 0, 0);
    save_small("b", 2, line, 0, 0);
    SHOULD(cs_reopen(&config, "out", NULL));
    ck_assert_int_eq(json_integer_value(ce_json_find(config->doc, "cspeed.seed")), 2);
    cs_config_close(config);
    shell_flip("out/b/manifest.json", 200);
    SHOULD(cs_reopen(&config, "out", NULL));
    ck_assert_int_eq(json_integer_value(ce_json_find(config->doc, "cspeed.seed")), 1);
    cs_config_close(config);
    json_decref(other);
    json_decref(line);
    shell_leave();
}
END_TEST

SUITE_MAIN("fallback", damage_that_shows_while_it_is_read, what_is_damaged_is_kept, without_fallback_damage_is_an_error,
           the_line_that_is_continued, lists_of_ancestors, the_configuration_of_the_line)
