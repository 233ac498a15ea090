/* test_modes_train.c - train with cspeed.mode "ps" and "dp": losses, checkpoints that runs of other modes continue,
 * reports, and the end of a job whose server or worker is killed. */
#include "shell.h"
#include "suite.h"
#include "training.h"

#include <signal.h>
#include <unistd.h>

static double last_loss(const char *folder)
{
    char path[256];
    snprintf(path, sizeof path, "%s/metrics.jsonl", folder);
    return training_last_number(path, "\"loss\"");
}

START_TEST(modes_continue_each_other)
{
    training_prepare();
    training_config("bf16", "", 0);
    training_run(2, "--output ranks");
    training_run(4, "--output mixed --steps 12 --set scheduler.params.total_num_steps=24 --set cspeed.mode=ps "
                    "--set cspeed.ps.servers=2");
    ck_assert(training_says("2 workers and 2 servers"));
    ck_assert(training_says("bytes sent between ranks; 0 among workers:"));
    training_run(1, "--output mixed --steps 18 --set scheduler.params.total_num_steps=24 --set cspeed.mode=dp");
    ck_assert(training_says("2 replicas in one process"));
    ck_assert(training_says("the other replicas waited for it"));
    training_run(2, "--output mixed --steps 21 --set scheduler.params.total_num_steps=24");
    training_run(3, "--output mixed --steps 24 --set cspeed.mode=ps");
    ck_assert(last_loss("ranks") <= last_loss("mixed") && last_loss("ranks") >= last_loss("mixed"));
    training_run(3, "--output loose --set cspeed.mode=ps --set cspeed.ps.async=true --set cspeed.ps.staleness=1 "
                    "--set gradient_clipping=0");
    ck_assert(training_says("ahead of the slowest worker:"));
    shell_leave();
}
END_TEST

static void kill_one(int rank, const char *mode)
{
    char mark[64], said[64];
    pid_t found = 0;
    snprintf(mark, sizeof mark, "CSPEED_TEST_MARK=modes%d-%d", (int)getpid(), rank);
    pid_t job = shell_start("env %s %s/cspeed --num_gpus 3 --oversubscribe train --config config.json --steps 1000000 "
                            "--fresh --output killed --set cspeed.save_interval=0 --set cspeed.eval_interval=0 --set "
                            "cspeed.mode=ps %s",
                            mark, CS_BIN, mode);
    shell_await("test -e killed/metrics.jsonl");
    found = shell_find_rank(mark, rank, "train");
    ck_assert_int_gt(found, 0);
    ck_assert_int_eq(kill(found, SIGKILL), 0);
    training_expect(128 + SIGKILL, shell_wait(job));
    snprintf(said, sizeof said, "rank %d (pid %d) was killed by SIGKILL", rank, (int)found);
    ck_assert(training_says(said));
    shell_await_left(mark, 0);
    ck_assert_int_eq(shell_run("rm -rf killed"), 0);
}

START_TEST(a_killed_server_or_worker_ends_the_job)
{
    training_prepare();
    training_config("bf16", "", 0);
    kill_one(2, "");
    kill_one(0, "--set cspeed.ps.async=true --set gradient_clipping=0");
    shell_leave();
}
END_TEST

START_TEST(what_does_not_combine_is_refused)
{
    training_prepare();
    training_config("fp16", "", 0);
    training_expect(78, training_try(2, "config.json --set cspeed.mode=ps"));
    ck_assert(training_says("not supported: with cspeed.mode \"ps\", because there is no loss scaling"));
    training_config("bf16", "", 0);
    training_expect(78, training_try(2, "config.json --set cspeed.mode=dp"));
    ck_assert(training_says("start it with --num_gpus 1"));
    training_expect(64, shell_run("%s/cspeed bench", CS_BIN));
    ck_assert(training_says("bench: say what to measure: comm or modes"));
    shell_leave();
}
END_TEST

SUITE_MAIN("modes_train", modes_continue_each_other, a_killed_server_or_worker_ends_the_job,
           what_does_not_combine_is_refused)
