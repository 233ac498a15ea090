/* test_kill.c - kills at random moments of a run that saves a checkpoint after every step.
 *
 * No process remains, a complete checkpoint always exists, and a run that resumes from this checkpoint has the same
 * losses as a run without interruption. CSPEED_KILLS is the number of kills; the default is 8. */
#include "resumed.h"
#include "suite.h"
#include "training.h"
#include "shell.h"

#include <glob.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_TURNS = SUITE_PATIENCE * 50 }; /* number of waits of 20 ms */

static const char *const config_text =
    "{ \"train_micro_batch_size_per_gpu\": 2, \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 2e-3 } },\n"
    "  \"bf16\": { \"enabled\": true }, \"zero_optimization\": { \"stage\": 2 },\n"
    "  \"cspeed\": { \"steps\": 60, \"seed\": 5, \"output\": \"out\", \"save_interval\": 1, \"keep_last\": 3, "
    "\"eval_interval\": 0,\n"
    "    \"data\": { \"train\": \"data/train-*.bin\", \"seq_len\": 32 },\n"
    "    \"model\": { \"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 2, \"n_embd\": 32, \"n_positions\": 32, "
    "\"vocab_size\": 256 } } }\n";

static void prepare(void)
{
    shell_enter();
    FILE *file = fopen("text.txt", "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < 800; i++)
        fprintf(file, "line %d says %d\n", i, i * i % 97);
    fclose(file);
    ck_assert_int_eq(shell_run("%s/pack --output data text.txt", CS_BIN), 0);
    shell_write("config.json", config_text);
}

/* Copies the lines of a metrics file to `into`, without the values that depend on time: cuts each line before
 * "tokens_per_s". */
static void losses_of(const char *path, char *into, size_t capacity)
{
    char *text = shell_read(path, NULL), *next = NULL;
    into[0] = 0;
    for (char *line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        char *clock = strstr(line, ", \"tokens_per_s\"");
        ck_assert_ptr_nonnull(clock);
        *clock = 0;
        strncat(into, line, capacity - strlen(into) - 1);
        strncat(into, "\n", capacity - strlen(into) - 1);
    }
    free(text);
}

static void one_kill(unsigned short state[3])
{
    char mark[64];
    snprintf(mark, sizeof mark, "CSPEED_TEST_MARK=kill%d", (int)getpid());
    long saved = resumed_latest("parts/latest");
    shell_write("out.txt", "");
    pid_t run = shell_start("env %s %s/cspeed --num_gpus 2 --oversubscribe train --config config.json --output parts",
                            mark, CS_BIN);
    resumed_await(run, saved);
    resumed_sleep(state, 0.7);
    kill(run, SIGKILL);
    shell_wait(run);
    shell_await_left(mark, 0);
    ck_assert_int_ge(resumed_latest("parts/latest"), saved);
}

START_TEST(every_resume_finds_a_whole_checkpoint)
{
    static char whole[1 << 16], parts[1 << 16];
    unsigned short state[3] = { 9, 9, (unsigned short)getpid() };
    const char *given = getenv("CSPEED_KILLS");
    int kills = given ? atoi(given) : 8;
    prepare();
    ck_assert_int_eq(training_try(2, "config.json --output whole"), 0);
    for (int round = 0; round < kills; round++)
        one_kill(state);
    long saved = resumed_latest("parts/latest");
    int code = training_try(2, "config.json --output parts");
    if (code != 0)
        ck_abort_msg("the last run ended with %d:\n%s", code, shell_read("out.txt", NULL));
    ck_assert_int_ge(saved ? resumed_said() : saved, saved);
    losses_of("whole/metrics.jsonl", whole, sizeof whole);
    losses_of("parts/metrics.jsonl", parts, sizeof parts);
    ck_assert_str_eq(whole, parts);
    shell_leave();
}
END_TEST

/* ---- a save in the background ---- */

static bool is_staging(const char *dir)
{
    glob_t found;
    char pattern[64];
    snprintf(pattern, sizeof pattern, "%s/.cspeed-tmp-*", dir);
    bool there = glob(pattern, 0, NULL, &found) == 0;
    globfree(&found);
    return there;
}

/* Kills a rank after one more step has been saved and while the next save is in progress. */
static void kill_in_a_save(int round)
{
    char mark[64];
    snprintf(mark, sizeof mark, "CSPEED_TEST_MARK=save%d-%d", (int)getpid(), round);
    long saved = resumed_latest("parts/latest");
    pid_t run = shell_start("env %s %s/cspeed --num_gpus 2 --oversubscribe train --config config.json --output parts"
                            " --set cspeed.async_save=true",
                            mark, CS_BIN);
    for (int waited = 0; resumed_latest("parts/latest") <= saved || !is_staging("parts"); waited++) {
        ck_assert_msg(waited < 100 * WAIT_TURNS && !resumed_has_ended(run), "no save was seen:\n%s",
                      shell_read("out.txt", NULL));
        nanosleep(&(struct timespec){ 0, 200000 }, NULL);
    }
    pid_t victim = shell_find(mark, "train");
    ck_assert_int_gt(victim, 0);
    kill(victim, SIGKILL);
    ck_assert_int_eq(shell_wait(run), 128 + SIGKILL);
    shell_await_left(mark, 0);
    ck_assert_int_gt(resumed_latest("parts/latest"), saved);
}

START_TEST(a_save_in_flight_is_lost_alone)
{
    static char whole[1 << 16], parts[1 << 16];
    prepare();
    ck_assert_int_eq(training_try(2, "config.json --output whole"), 0);
    int cut = 0;
    for (int round = 0; cut < 3; round++) {
        ck_assert_msg(round < 50, "no kill of %d came while a save was in flight", round);
        kill_in_a_save(round);
        cut += is_staging("parts");
        ck_assert_int_eq(shell_run("%s/cspeed verify parts", CS_BIN), 0);
    }
    long saved = resumed_latest("parts/latest");
    ck_assert_int_eq(training_try(2, "config.json --output parts --set cspeed.async_save=true"), 0);
    ck_assert_int_ge(resumed_said(), saved);
    losses_of("whole/metrics.jsonl", whole, sizeof whole);
    losses_of("parts/metrics.jsonl", parts, sizeof parts);
    ck_assert_str_eq(whole, parts);
    ck_assert(!is_staging("parts"));
    ck_assert_int_eq(shell_run("%s/cspeed diff whole parts", CS_BIN), 0);
    shell_leave();
}
END_TEST

/* Kills the launcher with each signal, or one rank: the exit code is right, no process remains, and the checkpoint can
 * be loaded. */
static void ends_cleanly(const char *what, int signal, int wanted)
{
    char mark[64];
    snprintf(mark, sizeof mark, "CSPEED_TEST_MARK=end%d", (int)getpid());
    pid_t run =
        shell_start("env %s %s/cspeed --num_gpus 2 --oversubscribe train --config config.json --steps 100000 --fresh",
                    mark, CS_BIN);
    for (int waited = 0; access("out/latest", F_OK) != 0; waited++) {
        ck_assert_msg(waited < WAIT_TURNS && !resumed_has_ended(run), "no checkpoint came:\n%s",
                      shell_read("out.txt", NULL));
        nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
    }
    long saved = resumed_latest("out/latest");
    pid_t victim = strcmp(what, "rank") == 0 ? shell_find(mark, "train") : run;
    ck_assert_int_gt(victim, 0);
    ck_assert_int_eq(kill(victim, signal), 0);
    int code = shell_wait(run);
    ck_assert_msg(code == wanted, "%s, signal %d: exit code %d, not %d", what, signal, code, wanted);
    shell_await_left(mark, 0);
    ck_assert_int_eq(training_try(2, "config.json --load out --output next --steps 1"), 0);
    ck_assert_int_ge(resumed_said(), saved);
    ck_assert_int_eq(shell_run("rm -rf out out.* next"), 0);
}

START_TEST(signals_end_everything)
{
    prepare();
    ends_cleanly("launcher", SIGTERM, 143);
    ends_cleanly("launcher", SIGINT, 130);
    ends_cleanly("launcher", SIGKILL, 137);
    ends_cleanly("rank", SIGKILL, 137);
    shell_leave();
}
END_TEST

SUITE_MAIN("kill", every_resume_finds_a_whole_checkpoint, a_save_in_flight_is_lost_alone, signals_end_everything)
