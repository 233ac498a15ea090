/* test_layout_kills.c - a training that is killed at random moments continues in another layout of ranks each time.
 *
 * A checkpoint is saved after every step. No saved step is lost, each checkpoint is whole, no process remains, and the
 * losses are those of a run on one rank without interruption. Only kills that end a running training count. CSPEED_KILLS
 * is the number of kills; the default is 4. CSPEED_KILLS_SEED repeats their moments and layouts. */
#include "resumed.h"
#include "shell.h"
#include "suite.h"
#include "training.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { STEPS = 40 };

/* Arguments of cspeed for a number of ranks, and of train. */
typedef struct {
    int ranks;
    const char *arguments;
} layout;

#define MESH(tp, stage) "--set cspeed.mesh.tp=" #tp " --set zero_optimization.stage=" #stage
#define SEQUENCE " --set cspeed.mesh.sequence=true"
#define GROUPS_OF_TWO " --set zero_optimization.mics_shard_size=2"

static const layout layouts[] = {
    { 1, MESH(1, 0) },
    { 2, MESH(1, 3) },
    { 4, MESH(1, 2) GROUPS_OF_TWO },
    { 2, MESH(2, 0) },
    { 2, MESH(2, 1) },
    { 4, MESH(2, 3) SEQUENCE },
    { 4, MESH(2, 2) },
    { 8, MESH(2, 3) GROUPS_OF_TWO },
    { 3, MESH(3, 2) },
    { 6, MESH(3, 3) SEQUENCE },
    { 4, MESH(4, 1) },
    { 4, MESH(4, 3) SEQUENCE },
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static const char *const config_text =
    "{ \"train_batch_size\": 12, \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 2e-3 } },\n"
    "  \"cspeed\": { \"steps\": %d, \"seed\": 5, \"save_interval\": 1, \"keep_last\": 3, \"eval_interval\": 0,\n"
    "    \"data\": { \"train\": \"data/train-*.bin\", \"seq_len\": 24 }, \"model\": %s } }\n";

/* Models whose heads the ranks cannot divide evenly: a fused matrix that is cut by columns and tied ends, and one key
 * head for all ranks. */
static const char *const models[] = {
    "{ \"model_type\": \"gpt2\", \"n_layer\": 2, \"n_head\": 5, \"n_embd\": 40, \"n_positions\": 24, \"vocab_size\": 256 }",
    "{ \"model_type\": \"llama\", \"num_hidden_layers\": 2, \"num_attention_heads\": 6, \"num_key_value_heads\": 1, "
    "\"hidden_size\": 24, \"intermediate_size\": 50, \"max_position_embeddings\": 24, \"vocab_size\": 256 }",
};
enum { MODELS = sizeof models / sizeof *models };

/* The random numbers of the test, and what has happened. */
typedef struct {
    unsigned short random[3];
    int kills, trainings;
    double plain[MODELS][STEPS]; /* losses without interruption */
    double worst;                /* greatest relative difference of a loss from `plain` */
} story;

static int draw(story *s, int below)
{
    return (int)(erand48(s->random) * below);
}

static void prepare(story *s)
{
    shell_enter();
    training_text("text.txt", 400);
    ck_assert_int_eq(shell_run("%s/pack --output data text.txt", CS_BIN), 0);
    for (int i = 0; i < MODELS; i++) {
        char text[1024], path[32], arguments[64];
        snprintf(text, sizeof text, config_text, STEPS, models[i]);
        snprintf(path, sizeof path, "config-%d.json", i);
        shell_write(path, text);
        snprintf(arguments, sizeof arguments, "%s --output plain-%d", path, i);
        training_expect(0, training_try(1, arguments));
        snprintf(path, sizeof path, "plain-%d/metrics.jsonl", i);
        ck_assert_int_eq(training_lines(path), STEPS);
        training_losses(path, s->plain[i], STEPS);
    }
}

static pid_t start(const layout *at, const char *mark, int model)
{
    shell_write("out.txt", "");
    return shell_start("env %s %s/cspeed --num_gpus %d --oversubscribe train --config config-%d.json --output parts %s",
                       mark, CS_BIN, at->ranks, model, at->arguments);
}

/* Waits until the run has saved `step`, or has ended, and a random time more. */
static void await_moment(story *s, pid_t run, long step)
{
    for (int waited = 0; resumed_latest("parts/latest") < step && !resumed_has_ended(run); waited++) {
        ck_assert_msg(waited < SUITE_PATIENCE * 500, "step %ld is not saved:\n%s", step, shell_read("out.txt", NULL));
        nanosleep(&(struct timespec){ 0, 2000000 }, NULL);
    }
    resumed_sleep(s->random, step > 0 ? 0.1 : 0.9);
}

/* Starts the training in a layout, and kills the launcher or a rank during the start or one of the first steps. Returns
 * the exit code: 0 if the training ended before. */
static int run_and_kill(story *s, int model)
{
    char mark[64];
    snprintf(mark, sizeof mark, "CSPEED_TEST_MARK=layouts%d", (int)getpid());
    long saved = resumed_latest("parts/latest");
    const layout *at = &layouts[draw(s, LAYOUTS)];
    pid_t run = start(at, mark, model), victim = 0;
    resumed_await(run, saved);
    await_moment(s, run, saved + draw(s, 5));
    if (draw(s, 2))
        victim = shell_find_rank(mark, draw(s, at->ranks), "train");
    kill(victim ? victim : run, SIGKILL);
    int code = shell_wait(run);
    shell_await_left(mark, 0);
    ck_assert_msg(code == 0 || code == 128 + SIGKILL, "exit code %d:\n%s", code, shell_read("out.txt", NULL));
    ck_assert_int_ge(resumed_latest("parts/latest"), saved);
    if (resumed_latest("parts/latest") > 0)
        ck_assert_msg(shell_run("%s/cspeed verify parts", CS_BIN) == 0, "%s", shell_read("out.txt", NULL));
    return code;
}

/* The training is complete: its losses, one for each step, are those without interruption. */
static void compare(story *s, int model)
{
    double losses[STEPS];
    ck_assert_int_eq(training_lines("parts/metrics.jsonl"), STEPS);
    training_losses("parts/metrics.jsonl", losses, STEPS);
    for (int step = 0; step < STEPS; step++) {
        double gap = fabs(losses[step] / s->plain[model][step] - 1);
        s->worst = fmax(s->worst, gap);
        ck_assert_msg(gap < 1e-5, "training %d: step %d: loss %.9g, not %.9g", s->trainings, step + 1, losses[step],
                      s->plain[model][step]);
    }
    ck_assert_int_eq(resumed_latest("parts/latest"), STEPS);
    ck_assert_int_eq(shell_run("rm -r parts"), 0);
    s->trainings++;
}

START_TEST(nothing_is_lost_in_any_layout)
{
    static story s;
    const char *given = getenv("CSPEED_KILLS"), *seed = getenv("CSPEED_KILLS_SEED");
    int kills = given ? atoi(given) : 4;
    s.random[2] = (unsigned short)(seed ? atoi(seed) : getpid());
    printf("CSPEED_KILLS_SEED=%d\n", s.random[2]);
    fflush(stdout);
    prepare(&s);
    while (s.kills < kills) {
        int model = s.trainings % MODELS;
        if (run_and_kill(&s, model))
            s.kills++;
        else
            compare(&s, model);
    }
    pid_t last = start(&layouts[draw(&s, LAYOUTS)], "CSPEED_TEST_MARK=last", s.trainings % MODELS);
    training_expect(0, shell_wait(last));
    compare(&s, s.trainings % MODELS);
    printf("%d kills, %d trainings; the greatest difference of a loss is %.1e\n", s.kills, s.trainings, s.worst);
    shell_leave();
}
END_TEST

SUITE_MAIN("layout_kills", nothing_is_lost_in_any_layout)
