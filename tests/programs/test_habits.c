/* test_habits.c - what users of other programs expect of train: the output folder of pack as data, windows that are cut
 * to the model's positions, and a message if a resumed run has another learning-rate schedule. */
#include "near.h"
#include "shell.h"
#include "suite.h"

#include <stdio.h>
#include <unistd.h>

#define MODEL                                                                                                          \
    "{ \"model_type\": \"gpt2\", \"n_layer\": 1, \"n_head\": 2, \"n_embd\": 16, \"n_positions\": 16, \"vocab_size\": " \
    "256, \"resid_pdrop\": 0, \"embd_pdrop\": 0, \"attn_pdrop\": 0 }"

/* Writes a configuration. `data` is the content of the section "cspeed.data", and `scheduler` is the section
 * "scheduler". */
static void write_config(const char *name, const char *data, const char *scheduler)
{
    char text[2048];
    snprintf(text, sizeof text,
             "{ \"train_batch_size\": 4, \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 1e-2 } }, "
             "\"scheduler\": %s,\n  \"cspeed\": { \"output\": \"out\", \"steps\": 4, \"save_interval\": 2, "
             "\"device\": \"%s\", \"data\": { %s }, \"model\": " MODEL " } }\n",
             scheduler, near_device(), data);
    shell_write(name, text);
}

static void prepare(void)
{
    char text[4096] = "";
    shell_enter();
    for (int i = 0; i < 4000; i++)
        text[i] = (char)('a' + i % 26);
    shell_write("text.txt", text);
    ck_assert_int_eq(shell_run("%s/pack --output 'data [1]/mine' text.txt", CS_BIN), 0);
}

static void train(int code, const char *arguments)
{
    int got = shell_run("%s/train %s", CS_BIN, arguments);
    char *out = shell_read("out.txt", NULL);
    ck_assert_msg(got == code, "%s: exit code %d: %s", arguments, got, out);
    free(out);
}

static void must_say(const char *words)
{
    ck_assert_msg(shell_says(words), "\"%s\" is not said", words);
}

/* ---- data ---- */

/* Trains from the beginning. Returns the losses of all validations and steps as text, which the caller frees. */
static char *losses(const char *arguments)
{
    char line[512];
    snprintf(line, sizeof line, "--fresh %s", arguments);
    train(0, line);
    ck_assert_int_eq(shell_run("grep -o '\"step\": [0-9]*\\|\"[a-z_]*loss\": [0-9.]*' out/metrics.jsonl"), 0);
    return shell_read("out.txt", NULL);
}

START_TEST(a_folder_of_pack_is_data)
{
    static const char *const same[] = {
        "--config no_data.json --data 'data [1]/mine'",
        "--config folder.json",
        "--config folder.json --data 'data [1]/mine/'",
        "--config list.json",
    };
    prepare();
    write_config(
        "files.json",
        "\"train\": \"data [[]1]/mine/train-*.bin\", \"valid\": \"data [[]1]/mine/valid.bin\", \"seq_len\": 16",
        "null");
    write_config("no_data.json", "\"train\": \"other\", \"valid\": \"other\", \"seq_len\": 16", "null");
    write_config("folder.json", "\"train\": \"data [1]/mine\", \"seq_len\": 16", "null");
    write_config("list.json", "\"train\": [\"data [1]/mine\"], \"valid\": [\"data [1]/mine\"], \"seq_len\": 16",
                 "null");
    char *wanted = losses("--config files.json");
    ck_assert_ptr_nonnull(strstr(wanted, "valid_loss"));
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        char *found = losses(same[i]);
        ck_assert_msg(strcmp(found, wanted) == 0, "%s: %s", same[i], found);
        free(found);
    }
    ck_assert_int_eq(shell_run("%s/eval out --data 'data [1]/mine'", CS_BIN), 0);
    ck_assert_int_eq(unlink("data [1]/mine/valid.bin"), 0);
    /* Without validation shards, eval uses the training shards. */
    ck_assert_int_eq(shell_run("%s/eval out --data 'data [1]/mine'", CS_BIN), 0);
    free(wanted);
    wanted = losses("--config folder.json");
    ck_assert_ptr_null(strstr(wanted, "valid_loss"));
    free(wanted);
    shell_leave();
}
END_TEST

START_TEST(an_empty_list_is_no_validation)
{
    prepare();
    write_config("none.json", "\"train\": \"data [1]/mine\", \"valid\": [], \"seq_len\": 16", "null");
    char *found = losses("--config none.json");
    ck_assert_ptr_null(strstr(found, "valid_loss"));
    free(found);
    ck_assert_int_eq(shell_run("mkdir empty && %s/train --config none.json --data empty", CS_BIN), 66);
    must_say(
        "(also .gz, .zst), .parquet or .arrow, in this folder (a .json is read if it is named itself), nor token shards");
    shell_leave();
}
END_TEST

/* ---- windows ---- */

START_TEST(windows_are_cut_to_the_positions_of_a_folder)
{
    static const char *const longest = "--config config.json --model model --seq_len 64";
    prepare();
    ck_assert_int_eq(shell_run("mkdir model"), 0);
    shell_write("model/config.json", MODEL);
    write_config("config.json", "\"train\": \"data [1]/mine\"", "null");
    train(0, longest);
    must_say("warning: cspeed.data.seq_len 64 is cut to 16, the positions of the model in model\n");
    ck_assert_int_eq(shell_run("grep '\"seq_len\": 16' out/global_step4/ds_config.json"), 0);
    char *cut = shell_read("out/metrics.jsonl", NULL);
    ck_assert(strstr(cut, "\"step\": 1, ") && strstr(cut, "\"tokens\": 64, ")); /* 4 windows of 16 tokens */
    free(cut);
    train(0, "--config config.json --model model --seq_len 16 --steps 5");
    ck_assert(!shell_says("is cut"));
    /* Windows are not cut if the configuration itself describes the model. */
    train(78, "--config config.json --fresh --seq_len 64");
    must_say("cspeed.data.seq_len 64 is greater than the number of positions of the model: --seq_len 16 is possible");
    ck_assert_int_eq(shell_run("%s/train --config config.json --model model --seq_len 64 --plan", CS_BIN), 0);
    shell_leave();
}
END_TEST

/* ---- the schedule ---- */

/* Checks the message about the changed schedule, and that step `step` used the rate in the message. */
static void must_change(const char *changes, int step)
{
    char *out = shell_read("out.txt", NULL), *metrics = shell_read("out/metrics.jsonl", NULL), wanted[64];
    char *said = strstr(out, "the schedule of the learning rate has changed since the checkpoint: ");
    ck_assert_msg(said && strstr(said, changes), "no \"%s\" in %s", changes, out);
    snprintf(wanted, sizeof wanted, ": step %d takes ", step);
    char *rate = strstr(said, wanted);
    ck_assert_msg(rate != NULL, "no \"%s\" in %s", wanted, said);
    snprintf(wanted, sizeof wanted, "{\"step\": %d, ", step);
    char *line = strstr(metrics, wanted), *taken = line ? strstr(line, "\"lr\": ") : NULL;
    ck_assert_ptr_nonnull(taken);
    ck_assert_double_eq_tol(strtod(strstr(rate, "takes ") + 6, NULL), strtod(taken + 6, NULL), 1e-7);
    free(out);
    free(metrics);
}

START_TEST(a_changed_schedule_is_said)
{
    static const char cosine[] = "{ \"type\": \"WarmupCosineLR\", \"params\": { \"warmup_num_steps\": 2, "
                                 "\"total_num_steps\": \"auto\" } }";
    prepare();
    write_config("cosine.json", "\"train\": \"data [1]/mine\", \"seq_len\": 16", cosine);
    write_config("constant.json", "\"train\": \"data [1]/mine\", \"seq_len\": 16", "null");
    train(0, "--config cosine.json");
    ck_assert(!shell_says("the schedule of the learning rate"));
    train(0, "--config cosine.json --tag global_step2"); /* the schedule has not changed */
    ck_assert(!shell_says("the schedule of the learning rate"));
    train(0, "--config cosine.json --steps 8");
    must_change("total_num_steps 4 became 8. This run's schedule holds: ", 5);
    must_say(", and by the checkpoint's it would take ");
    train(0, "--config cosine.json --steps 9 --set scheduler.params.total_num_steps=8");
    ck_assert(!shell_says("the schedule of the learning rate"));
    train(0, "--config constant.json --steps 10");
    must_change("WarmupCosineLR became a constant rate", 10);
    train(0, "--config constant.json --steps 11 --set optimizer.params.lr=0.001");
    must_change("lr 0.01 became 0.001", 11);
    shell_leave();
}
END_TEST

/* With cspeed.epochs the number of steps is known only after the data is opened. */
START_TEST(a_schedule_over_epochs_is_the_same_again)
{
    static const char cosine[] = "{ \"type\": \"WarmupCosineLR\", \"params\": { \"warmup_num_steps\": 2, "
                                 "\"total_num_steps\": \"auto\" } }";
    static const char epochs[] = "--config cosine.json --set cspeed.steps=0 --set cspeed.epochs=1 "
                                 "--set cspeed.save_interval=20";
    prepare();
    write_config("cosine.json", "\"train\": \"data [1]/mine\", \"seq_len\": 16", cosine);
    train(0, epochs);
    ck_assert_int_eq(shell_run("grep '\"total_num_steps\": [0-9]' out/$(cat out/latest)/ds_config.json"), 0);
    ck_assert_int_eq(shell_run("%s/train %s --tag global_step20", CS_BIN, epochs), 0);
    ck_assert(!shell_says("the schedule of the learning rate"));
    ck_assert_int_eq(shell_run("%s/train --config cosine.json --set cspeed.steps=0 --set cspeed.epochs=2 --set "
                               "cspeed.save_interval=0",
                               CS_BIN),
                     0);
    must_say("total_num_steps ");
    shell_leave();
}
END_TEST

/* --steps N trains beyond the time budget. The same command without --steps then finds the run finished. */
START_TEST(a_budget_that_is_used_up_trains_no_further)
{
    prepare();
    write_config("config.json", "\"train\": \"data [1]/mine\", \"seq_len\": 16", "null");
    train(0, "--config config.json --set cspeed.fit_seconds=0.001 --steps 3");
    must_say("saved out/global_step3");
    train(0, "--config config.json --set cspeed.fit_seconds=0.001");
    must_say("out is finished: 3 of 3 steps are done; a greater --steps N continues,");
    train(0, "--config config.json");
    must_say("saved out/global_step4");
    shell_leave();
}
END_TEST

SUITE_MAIN("habits", a_folder_of_pack_is_data, an_empty_list_is_no_validation,
           windows_are_cut_to_the_positions_of_a_folder, a_changed_schedule_is_said,
           a_schedule_over_epochs_is_the_same_again, a_budget_that_is_used_up_trains_no_further)
