/* test_agreement.c - ranks must agree on the configuration: different settings are detected before training, except for
 * a few keys that may differ. */
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include "setup/setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char config_text[] =
    "{ \"train_micro_batch_size_per_gpu\": 1, \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 0.01 } },\n"
    "  \"cspeed\": { \"output\": \"out\", \"threads\": 1, \"steps\": 2, \"eval_interval\": 0, \"save_interval\": 0,\n"
    "    \"data\": { \"train\": \"data/train-*.bin\", \"seq_len\": 16 },\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 2, \"n_embd\": 8, \"n_positions\": 16,\n"
    "               \"vocab_size\": 256 } } }\n";

/* The same settings as `config_text`, in another spelling. */
static const char other_text[] =
    "{ // two files may say the same\n"
    "  \"cspeed\": { \"steps\": 2.0, \"threads\": 1, \"output\": \"out\", \"eval_interval\": 0, \"save_interval\": 0,\n"
    "    \"model\": { \"vocab_size\": 256, \"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 2, \"n_embd\": 8,\n"
    "               \"n_positions\": 16 },\n"
    "    \"data\": { \"seq_len\": 16, \"train\": \"data/train-*.bin\", }, },\n"
    "  \"zero_optimization\": { \"stage\": 0 }, \"train_batch_size\": 3, \"_remark\": 1,\n"
    "  \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 1e-2 } } }\n";

enum { RANKS = 3, DISAGREE = 76 };

/* For each job: flags that only the last of three ranks gets, the job's exit code, and words of the job's output. */
static const struct {
    const char *flags;
    int code;
    const char *words;
} rows[] = {
    { "", 0, "finished" },
    { "--set optimizer.params.lr=0.001", DISAGREE, "optimizer.params.lr: 0.01 on rank 0, 0.001 on rank 2" },
    { "--set optimizer.params.betas=[0.9,0.95]", DISAGREE, "optimizer.params.betas: [" },
    { "--set zero_optimization.stage=2", DISAGREE, "zero_optimization.stage: 0 on rank 0, 2 on rank 2" },
    { "--set gradient_clipping=0.5 --steps 4", DISAGREE,
      "cspeed.steps: 2 on rank 0, 4 on rank 2; gradient_clipping: 1.0 on rank 0, 0.5 " },
    { "--set cspeed.data.packing=documents", DISAGREE, "cspeed.data.packing: \"windows\" on rank 0, \"documents\"" },
    { "--set cspeed.data.field=body", DISAGREE, "cspeed.data.field: \"text\" on rank 0, \"body\" on rank 2" },
    { "--set cspeed.data.shuffle=false", DISAGREE, "cspeed.data.shuffle: true on rank 0, false on rank 2" },
    { "--set cspeed.model.n_head=1", DISAGREE, "cspeed.model.n_head: 2 on rank 0, 1 on rank 2" },
    { "--set cspeed.model.layer_norm_epsilon=1e-3", DISAGREE,
      "cspeed.model.layer_norm_epsilon: nothing on rank 0, 0.001 on rank 2" },
    { "--set scheduler.type=WarmupLR", DISAGREE, "scheduler.type: null on rank 0, \"WarmupLR\" on rank 2" },
    { "--seed 7", 0, "cspeed.seed: 1234 on rank 0 and 7 on rank 2 (1 rank with another seed than rank 0)" },
    { "--set cspeed.threads=2", 0, "finished" },
    { "--device cpu --metrics mine.jsonl", 0, "finished" },
    { "--data copy", 0, "finished" },
    { "--load elsewhere", DISAGREE, "cspeed.load: null on rank 0, \"a name\" on rank 2" },
    { "--set cspeed.data.valid=copy", DISAGREE, "cspeed.data.valid: null on rank 0, \"a name\" on rank 2" },
    { "--set cspeed.export=folder", DISAGREE, "cspeed.export: null on rank 0, \"a name\" on rank 2" },
    { "--data changed", DISAGREE,
      "the tokens are not the same on all ranks: those of rank 2 differ from those of rank 0; copy" },
    { "--config other.json", 0, "finished" },
};

/* A second run in the same folder would only print "2 of 2 steps are done". */
START_TEST(ranks_are_compared)
{
    shell_enter();
    shell_write("config.json", config_text);
    shell_write("other.json", other_text);
    ck_assert_int_eq(shell_run("seq 200 >song.txt && '%s/pack' --valid 0 --output data song.txt && cp -r data copy && "
                               "seq 201 400 >song.txt && '%s/pack' --valid 0 --output changed song.txt",
                               CS_BIN, CS_BIN),
                     0);
    shell_write("rank.sh", "program=$1; shift; [ $RANK = 2 ] || set --; exec \"$program\" --config config.json \"$@\"");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int code = shell_run("rm -rf out; '%s/cspeed' --num_gpus %d --oversubscribe run sh rank.sh '%s/train' %s && "
                             "test -s out/latest && echo finished",
                             CS_BIN, RANKS, CS_BIN, rows[i].flags);
        char *said = shell_read("out.txt", NULL);
        ck_assert_msg(code == rows[i].code && strstr(said, rows[i].words),
                      "%s: exit code %d, not %d, and it printed:\n%s", rows[i].flags, code, rows[i].code, said);
        free(said);
    }
    shell_leave();
}
END_TEST

/* Rank 1 takes the number of steps from a flag, rank 0 takes the same number from the file. fit_seconds reduces only a
 * number from the file. Rank 0 decides for all ranks, so the number is reduced. */
START_TEST(rank_0_knows_who_gave_the_steps)
{
    shell_enter();
    shell_write("config.json", config_text);
    shell_write("rank.sh", "[ $RANK = 0 ] || set -- \"$@\" --steps 30; exec \"$@\"");
    int code = shell_run("seq 200 >song.txt && '%s/pack' --valid 0 --output data song.txt && sed -i 's/\"steps\": 2/"
                         "\"steps\": 30, \"fit_seconds\": 1e-6/' config.json && '%s/cspeed' --num_gpus 2 "
                         "--oversubscribe run sh rank.sh '%s/train' --config config.json",
                         CS_BIN, CS_BIN, CS_BIN);
    char *said = shell_read("out.txt", NULL);
    ck_assert_msg(code == 0 && strstr(said, "6 steps instead of 30"), "exit code %d, and it printed:\n%s", code, said);
    free(said);
    shell_leave();
}
END_TEST

typedef struct {
    run_spec spec;
    bool same; /* true: all ranks have the same seed */
    uint32_t masters[RUN_RANKS];
    int64_t seed[RUN_RANKS];
    cs_status version, many;
    char of_version[512], of_many[4096];
} outcome;

/* Gives each rank its own seed, or all the same one. */
static int seeds_of_ranks(void *argument)
{
    static char assignment[64];
    outcome *of = argument;
    snprintf(assignment, sizeof assignment, "cspeed.seed=%d", 100 + (of->same ? 0 : cs_launched_rank()));
    run_spec spec = of->spec;
    spec.set[0] = assignment;
    cs_engine *engine = run_open(&spec, NULL);
    of->masters[cs_rank(engine)] = run_masters(engine);
    of->seed[cs_rank(engine)] = cs_config_get_int(engine->config, "cspeed.seed");
    cs_destroy(engine);
    return 0;
}

START_TEST(the_seed_is_rank_0s)
{
    outcome *apart = run_share(sizeof *apart), *together = run_share(sizeof *together);
    apart->spec = (run_spec){ .world = 4, .stage = 0, .steps = 1, .precision = "fp32" };
    together->spec = apart->spec;
    together->same = true;
    run_ranks(4, seeds_of_ranks, apart);
    run_ranks(4, seeds_of_ranks, together);
    for (int rank = 0; rank < 4; rank++) {
        ck_assert_int_eq(apart->seed[rank], 100);
        ck_assert_uint_eq(apart->masters[rank], together->masters[rank]);
    }
    run_unshare(apart, sizeof *apart);
    run_unshare(together, sizeof *together);
}
END_TEST

static void compare(cs_engine *engine, json_t *told, cs_status *status, char *sentence, size_t capacity)
{
    cs_status found = ce_agreement_compare(engine->comm, told);
    if (cs_rank(engine) == 1) { /* the rank that differs gets the error too */
        *status = found;
        snprintf(sentence, capacity, "%s", cs_error());
    }
    json_decref(told);
}

static int other_programs(void *argument)
{
    outcome *of = argument;
    cs_engine *engine = run_open(&of->spec, NULL);
    json_t *told = ce_agreement_facts(engine);
    if (cs_rank(engine) == 1)
        json_object_set_new(told, "cspeed's version", json_string("9.9"));
    compare(engine, told, &of->version, of->of_version, sizeof of->of_version);
    told = json_object();
    for (int i = 0; i < 20; i++) {
        char key[16];
        snprintf(key, sizeof key, "key%d", i);
        json_object_set_new(told, key, json_integer(cs_rank(engine) * (i % 2)));
    }
    compare(engine, told, &of->many, of->of_many, sizeof of->of_many);
    cs_destroy(engine);
    return 0;
}

START_TEST(programs_are_compared)
{
    outcome *of = run_share(sizeof *of);
    of->spec = (run_spec){ .world = 3, .stage = 1, .steps = 1, .precision = "fp32" };
    run_ranks(3, other_programs, of);
    ck_assert_int_eq(of->version, CS_DISAGREE);
    ck_assert_msg(strstr(of->of_version, "cspeed's version: \"" CS_VERSION "\" on rank 0, \"9.9\" on rank 1.") != NULL,
                  "%s", of->of_version);
    ck_assert_int_eq(of->many, CS_DISAGREE);
    ck_assert_msg(strstr(of->of_many, "key1: 0 on rank 0, 1 on rank 1; key11: ") != NULL, "%s", of->of_many);
    ck_assert_msg(strstr(of->of_many, "; and 2 more.") != NULL, "%s", of->of_many);
    ck_assert_int_eq(cs_exit_code(CS_DISAGREE), DISAGREE);
    run_unshare(of, sizeof *of);
}
END_TEST

SUITE_MAIN("agreement", ranks_are_compared, rank_0_knows_who_gave_the_steps, the_seed_is_rank_0s, programs_are_compared)
