/* test_async.c - asynchronous checkpoint saves: they do not change training or the files, and a failure is reported by
 * the next call. */
#include "near.h"
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include "base/must.h"
#include "saving/saving.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { STEPS = 8 };

typedef struct {
    run_spec spec;
    double loss[2][STEPS];                         /* first row: without cspeed.async_save; second row: with it */
    uint32_t masters[RUN_RANKS], slots[RUN_RANKS]; /* checksums of each rank's state when step 4 was saved */
    bool same[RUN_RANKS];
} job;

/* Saves after steps 2, 4 and 6; the third save may begin while the second is still in progress. */
static void train(job *j, int async)
{
    run_spec spec = j->spec;
    spec.set[0] = async ? "cspeed.async_save=true" : "cspeed.async_save=false";
    spec.set[1] = "cspeed.keep_last=0";
    cs_engine *engine = run_open(&spec, NULL);
    int rank = cs_rank(engine);
    for (int step = 1; step <= STEPS; step++) {
        run_step(engine, &spec);
        if (rank == 0)
            j->loss[async][step - 1] = cs_last_step(engine).loss;
        if (step % 2 == 0 && step < STEPS)
            CS_MUST(cs_save_checkpoint(engine, async ? "async" : "sync", NULL, "{\"a\": 1}"));
        if (step == 4) {
            j->masters[rank] = run_masters(engine);
            j->slots[rank] = run_slots(engine);
        }
    }
    CS_MUST(cs_finish_checkpoint(engine));
    CE_ASSERT(cs_last_step(engine).saved_step == 6);
    CE_ASSERT((cs_memory_of(engine).copy > 0) == (async == 1));
    CE_ASSERT(cs_memory_of(engine).copy == ce_background_held(engine->saving->async.work));
    cs_destroy(engine);
}

static int train_both(void *argument)
{
    job *j = argument;
    train(j, 0);
    train(j, 1);
    cs_engine *engine = run_open(&j->spec, NULL);
    int rank = cs_rank(engine);
    char *client = NULL;
    CS_MUST(cs_load_checkpoint(engine, "async", "global_step4", NULL, &client));
    j->same[rank] = cs_last_step(engine).step == 4 && run_masters(engine) == j->masters[rank] &&
                    run_slots(engine) == j->slots[rank] && strcmp(client, "{\"a\": 1}") == 0;
    free(client);
    cs_destroy(engine);
    return 0;
}

START_TEST(the_same_bits)
{
    static const run_spec specs[] = {
        { .world = 1, .stage = 0, .precision = "fp32" },
        { .world = 2, .stage = 1, .precision = "bf16" },
        { .world = 3, .stage = 2, .precision = "fp16", .accumulation = 2 },
        { .world = 4, .stage = 3, .precision = "bf16", .prefetch = 1 },
    };
    job *j = run_share(sizeof *j);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        shell_enter();
        memset(j, 0, sizeof *j);
        j->spec = specs[i];
        j->spec.steps = STEPS;
        run_ranks(j->spec.world, train_both, j);
        ck_assert_mem_eq(j->loss[0], j->loss[1], sizeof j->loss[0]);
        for (int rank = 0; rank < j->spec.world; rank++)
            ck_assert_msg(j->same[rank], "world %d: rank %d's state is not what was saved", j->spec.world, rank);
        for (int step = 2; step < STEPS; step += 2) { /* headers contain the save id and differ; data must be equal */
            ck_assert_int_eq(shell_run("for f in $(cd sync/global_step%d && ls */*.safetensors); do "
                                       "a=$(tail -c +4097 sync/global_step%d/$f | sha1sum); "
                                       "b=$(tail -c +4097 async/global_step%d/$f | sha1sum); "
                                       "[ ${#f} -gt 9 ] && [ \"$(od -An -tu8 -N8 sync/global_step%d/$f)\" = "
                                       "\"$(od -An -tu8 -N8 async/global_step%d/$f)\" ] || exit 1; done",
                                       step, step, step, step, step),
                             0);
        }
        ck_assert_int_eq(shell_run("[ \"$(ls -A async | tr '\\n' ' ')\" = "
                                   "'global_step2 global_step4 global_step6 latest ' ]"),
                         0);
        shell_leave();
    }
    run_unshare(j, sizeof *j);
}
END_TEST

/* Limits file sizes to `bytes`, so that the writing thread of the rank fails; training continues. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    signal(SIGXFSZ, SIG_IGN);
    CE_ASSERT(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes;
    CE_ASSERT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

static bool told(cs_status status, int step)
{
    char words[64];
    snprintf(words, sizeof words, "the checkpoint of step %d was not saved: ", step);
    return status == CS_IO_ERROR && strstr(cs_error(), words) && strstr(cs_error(), "File too large") &&
           strstr(cs_error(), "/shard-");
}

static int fail_on_one_rank(void *argument)
{
    run_spec spec = { .world = 2, .stage = 1, .precision = "fp32", .steps = STEPS };
    bool *good = argument;
    spec.set[0] = "cspeed.async_save=true";
    cs_engine *engine = run_open(&spec, NULL);
    int rank = cs_rank(engine);
    run_step(engine, &spec);
    CS_MUST(cs_save_checkpoint(engine, "out", NULL, NULL));
    CS_MUST(cs_finish_checkpoint(engine));
    if (rank == 1)
        limit_files(5000);
    run_step(engine, &spec);
    CS_MUST(cs_save_checkpoint(engine, "out", NULL, NULL));
    for (int i = 0; i < 3; i++)
        run_step(engine, &spec);
    bool first = told(cs_save_checkpoint(engine, "out", NULL, NULL), 2);
    /* The failure was reported once; this save fails too, and the next call reports it. */
    CS_MUST(cs_save_checkpoint(engine, "out", NULL, NULL));
    bool second = told(cs_finish_checkpoint(engine), 5) && cs_last_step(engine).saved_step == 1;
    CS_MUST(cs_finish_checkpoint(engine));
    if (rank == 1)
        limit_files(RLIM_INFINITY);
    CS_MUST(cs_load_checkpoint(engine, "out", NULL, NULL, NULL));
    good[rank] = first && second && cs_last_step(engine).step == 1;
    run_step(engine, &spec);
    CS_MUST(cs_save_checkpoint(engine, "out", "last", NULL));
    cs_destroy(engine); /* waits until the save is complete */
    return 0;
}

START_TEST(failures_are_returned_by_the_next_verb)
{
    bool *good = run_share(2 * sizeof *good);
    shell_enter();
    run_ranks(2, fail_on_one_rank, good);
    ck_assert(good[0] && good[1]);
    char *latest = shell_read("out/latest", NULL);
    ck_assert_str_eq(latest, "last");
    free(latest);
    ck_assert_int_eq(shell_run("[ \"$(ls -A out | tr '\\n' ' ')\" = 'global_step1 last latest ' ]"), 0);
    shell_leave();
    run_unshare(good, 2 * sizeof *good);
}
END_TEST

/* Checks the train program with cspeed.async_save: its metrics are the same, it logs the time for which a save stops
 * training, and a signal during a save leaves a checkpoint that loads. */
START_TEST(the_program)
{
    shell_enter();
    ck_assert_int_eq(shell_run("seq 4000 > text.txt && %s/pack --output data text.txt", CS_BIN), 0);
    shell_write("config.json",
                "{ \"train_micro_batch_size_per_gpu\": 2, \"zero_optimization\": { \"stage\": 2 },\n"
                "  \"cspeed\": { \"steps\": 6, \"seed\": 5, \"save_interval\": 2, \"eval_interval\": 0,\n"
                "    \"data\": { \"train\": \"data/train-*.bin\", \"seq_len\": 32 },\n"
                "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 32, "
                "\"n_positions\": 32, \"vocab_size\": 256 } } }\n");
    const char *start = "%s/cspeed --num_gpus 2 --oversubscribe train --config config.json";
    char command[512];
    snprintf(command, sizeof command, start, CS_BIN);
    ck_assert_int_eq(shell_run("%s --output a", command), 0);
    ck_assert_int_eq(shell_run("%s --output b --set cspeed.async_save=true", command), 0);
    char *said = shell_read("out.txt", NULL);
    ck_assert_msg(strstr(said, "saved b/global_step6, while training paused for ") != NULL, "%s", said);
    free(said);
    ck_assert_int_eq(shell_run("cut -d, -f1-9 a/metrics.jsonl > a.txt && cut -d, -f1-9 b/metrics.jsonl > b.txt && "
                               "cmp a.txt b.txt && cmp a/latest b/latest"),
                     0);
    pid_t run = shell_start("%s --output b --set cspeed.async_save=true --steps 100000 --save_interval 1", command);
    shell_await("grep -q global_step[1-9][0-9] b/latest");
    kill(run, SIGTERM);
    ck_assert_int_eq(shell_wait(run), 143);
    ck_assert_int_eq(shell_run("%s --output c --load b --steps 1", command), 0);
    shell_leave();
}
END_TEST

/* ---- a state that is larger than the pinned buffers through which a GPU's state is copied ---- */

static int save_and_load(void *argument)
{
    const char *const *saving = argument;
    run_spec spec = {
        .world = 1, .steps = 1, .precision = "fp32", .set = { "cspeed.model.vocab_size=180000", *saving }
    };
    cs_engine *engine = run_open(&spec, NULL);
    cs_memory memory = cs_memory_of(engine);
    uint32_t saved = run_masters(engine);
    CS_MUST(cs_save_checkpoint(engine, "large", "t", NULL));
    CS_MUST(cs_finish_checkpoint(engine));
    cs_destroy(engine);
    spec.set[2] = "cspeed.seed=12";
    engine = run_open(&spec, NULL);
    CE_ASSERT(run_masters(engine) != saved);
    CS_MUST(cs_load_checkpoint(engine, "large", "t", NULL, NULL));
    CE_ASSERT(run_masters(engine) == saved);
    cs_destroy(engine);
    CE_ASSERT(near_pinned_max() <= memory.pinned + (1 << 20));
    CE_ASSERT(near_pinned_max() > 0 || memory.pinned == 0 || !near_counts());
    CE_ASSERT(memory.pinned < memory.values + memory.slots);
    return 0;
}

/* Saves a state of 52 MB, whose largest piece has 17 MB, synchronously and asynchronously. */
START_TEST(a_large_state_is_saved_and_loaded_through_buffers)
{
    static const char *const ways[] = { "cspeed.async_save=false", "cspeed.async_save=true" };
    for (int i = 0; i < 2; i++) {
        shell_enter();
        run_ranks(1, save_and_load, (void *)(uintptr_t)&ways[i]);
        shell_leave();
    }
}
END_TEST

SUITE_MAIN("async", the_same_bits, failures_are_returned_by_the_next_verb,
           a_large_state_is_saved_and_loaded_through_buffers, the_program)
