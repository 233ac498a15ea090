/* test_launch_end.c - how jobs end: failures, signals, stalls and kills, with real processes.
 *
 * Ranks report their progress through files, so that nothing depends on time; waits are only upper limits. This program
 * is also one of the ranks: with CSPEED_TEST_ROLE it plays that role. */
#include "jobs.h"
#include "suite.h"

#include "base/beat.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- this program as a rank ---- */

/* The stack trace of a rank must contain the name of this function. */
void test_where_it_dies(int number);
__attribute__((noinline)) void test_where_it_dies(int number)
{
    raise(number);
    abort();
}

static int play(const char *role)
{
    if (strcmp(role, "beat") == 0) { /* rank 1 dies in step 7 while rank 0 waits for it */
        bool dies = strcmp(getenv("RANK"), "1") == 0;
        ce_beat_step(7);
        ce_beat_phase(CE_BEAT_BACKWARD, 2);
        ce_beat_unit(12, "model.layers.11");
        ce_beat_enter(CE_BEAT_TP, dies ? CE_BEAT_NONE : CE_BEAT_REDUCE_SCATTER);
        fclose(fopen(dies ? "one" : "zero", "w"));
        while (access("zero", F_OK) < 0)
            jobs_pause();
        if (dies)
            raise(SIGKILL);
        pause();
    } else if (strcmp(role, "stall") == 0) { /* rank 1 is late for a collective in which rank 0 waits */
        bool late = strcmp(getenv("RANK"), "1") == 0;
        ce_beat_step(3);
        if (!late)
            ce_beat_enter(CE_BEAT_WORLD, CE_BEAT_ALL_REDUCE);
        pause();
    } else if (strcmp(getenv("RANK"), "1") == 0) { /* the role is the number of a signal */
        ce_beat_own();
        test_where_it_dies(atoi(role));
    } else {
        pause();
    }
    return 0;
}

/* ---- the tests ---- */

START_TEST(a_fatal_signal_shows_the_stack)
{
    static const struct {
        int number, code;
        const char *line;
    } rows[] = {
        { SIGABRT, 134, "  | C stack at SIGABRT:\n" },
#ifndef __SANITIZE_ADDRESS__ /* AddressSanitizer has handlers of its own for these signals */
        { SIGSEGV, 139, "  | C stack at SIGSEGV:\n" },
        { SIGFPE, 136, "  | C stack at SIGFPE:\n" },
#endif
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char role[16];
        snprintf(role, sizeof role, "%d", rows[i].number);
        jobs_begin();
        job here = ROLE(role, TWO, "--log_dir", "logs", jobs_self());
        jobs_check_code(&here, rows[i].code);
        jobs_check_has(here.err, "first failure   rank 1 (pid ");
        jobs_check_has(here.err, rows[i].line);
        jobs_check_has(here.err, "(test_where_it_dies+0x");
        char *log = jobs_slurp("logs/attempt_0/1.err");
        jobs_check_has(log, "(test_where_it_dies+0x");
        free(log);
        jobs_end(&here);
    }
}
END_TEST

START_TEST(a_failure_is_described)
{
    jobs_begin();
    job here = ROLE("beat", TWO, "--log_dir", "logs", jobs_self());
    jobs_check_code(&here, 137);
    jobs_check_has(here.err, "FAILED (exit 137)");
    jobs_check_has(here.err, "first failure   rank 1 (pid ");
    jobs_check_has(here.err, "SIGKILL (signal 9), not sent by cspeed");
    jobs_check_has(here.err, "rank 1: step 7, backward of unit 12 (model.layers.11), micro-batch 2\n");
    jobs_check_has(here.err, "rank 0: step 7, backward of unit 12 (model.layers.11), micro-batch 2, waiting in "
                             "reduce_scatter (tp)\n");
    jobs_check_has(here.err, "logs/attempt_0/1.err");
    jobs_check_has(here.err, "not ended       nothing");
    jobs_end(&here);
    jobs_begin();
    RUN(tail, TWO, SHELL, "test $RANK = 1 && { seq 1 50 >&2; exit 9; }; sleep 1000");
    jobs_check_code(&tail, 9);
    jobs_check_has(tail.err, "stderr tail\n  | 31\n");
    jobs_check_has(tail.err, "  | 50\nfull log");
    jobs_end(&tail);
}
END_TEST

START_TEST(a_stalled_job_is_ended_and_described)
{
    jobs_begin();
    job here = ROLE("stall", TWO, "--grace", "1", "--stall_timeout", "2", "--stall_action", "kill", jobs_self());
    jobs_check_code(&here, 125);
    jobs_check_has(here.err, "all_reduce");
    jobs_check_has(here.err, "C stack of rank 1");
    jobs_check_has(here.err, "pause"); /* the stack trace names the function in which rank 1 waits */
    jobs_end(&here);
}
END_TEST

START_TEST(the_first_cause_is_reported)
{
    /* Rank 0 is killed. Rank 1 exits with code 75, which means that it lost a peer. The report names rank 0, the lost
     * peer, as the first failure. */
    jobs_begin();
    RUN(peer, TWO, SHELL, "test $RANK = 1 && { touch lost; exit 75; }; while ! test -e lost; do :; done; kill -9 $$");
    jobs_check_code(&peer, 137);
    jobs_check_has(peer.err, "first failure   rank 0");
    jobs_end(&peer);
    /* All ranks exit because of the same error; rank 0's message is reported, although rank 0 exits last. */
    jobs_begin();
    RUN(known, TWO, SHELL,
        "test $RANK = 1 && { touch one; exit 78; }; while ! test -e one; do :; done; sleep 0.5; "
        "echo 'stage: 0 to 3, not 9' >&2; exit 78");
    jobs_check_code(&known, 78);
    jobs_check_has(known.err, "stage: 0 to 3, not 9");
    jobs_check_has(known.err, "exited with code 78 (the configuration is wrong, or asks for what is not supported)");
    ck_assert_ptr_null(strstr(known.err, "======"));
    jobs_end(&known);
}
END_TEST

/* Both ranks start a child in another session that ignores every signal except SIGKILL. */
static const char stubborn[] = "(setsid sh -c 'trap \"\" TERM INT HUP; touch child.'$RANK'; "
                               "sleep 1000; sleep 1000' &)\n"
                               "while ! test -e child.$RANK; do sleep 0.01; done; touch ready.$RANK; sleep 1000";

static job start_stubborn(void)
{
    jobs_begin();
    job here = START(TWO, SHELL, stubborn);
    jobs_await("ready.0");
    jobs_await("ready.1");
    ck_assert_int_ge(jobs_count(), 6);
    return here;
}

START_TEST(a_signal_ends_every_process)
{
    static const struct {
        int number, code;
    } cases[] = { { SIGTERM, 143 }, { SIGINT, 130 }, { SIGHUP, 129 }, { SIGKILL, -SIGKILL } };
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++) {
        job here = start_stubborn();
        kill(here.pid, cases[i].number);
        jobs_finish(&here);
        jobs_check_code(&here, cases[i].code);
        jobs_end(&here);
    }
}
END_TEST

START_TEST(killing_the_agent_ends_every_process)
{
    job here = start_stubborn();
    kill(jobs_child_of(here.pid), SIGKILL);
    jobs_finish(&here);
    jobs_check_code(&here, 137);
    jobs_end(&here);
}
END_TEST

START_TEST(a_dead_rank_leaves_no_process)
{
    jobs_begin();
    RUN(here, TWO, SHELL,
        "(setsid sh -c 'trap \"\" TERM; touch child.'$RANK'; sleep 1000; sleep 1000' &)\n"
        "while ! test -e child.1; do :; done; test $RANK = 1 && kill -9 $$; sleep 1000");
    jobs_check_code(&here, 137);
    jobs_check_has(here.err, "not ended       nothing");
    jobs_end(&here);
}
END_TEST

START_TEST(ranks_may_end_in_the_grace_period)
{
    jobs_begin(); /* the ranks ignore the stop signal and are killed after the grace period */
    RUN(ignoring, TWO, "--grace", "0.3", SHELL, "trap '' TERM; test $RANK = 1 && exit 5; while :; do sleep 0.05; done");
    jobs_check_code(&ignoring, 5);
    jobs_check_has(ignoring.err, "1 of them by SIGKILL");
    jobs_end(&ignoring);
    jobs_begin(); /* the ranks handle the stop signal and have time to save */
    RUN(saving, TWO, "--stop_signal", "usr1", SHELL,
        "trap 'touch saved; exit 0' USR1; touch up.$RANK; while ! test -e up.0; do :; done; "
        "test $RANK = 1 && exit 6; while :; do sleep 0.05; done");
    jobs_check_code(&saving, 6);
    ck_assert_int_eq(access("saved", F_OK), 0);
    jobs_end(&saving);
    jobs_begin();
    RUN(late, TWO, "--timeout", "0.3s", SHELL, "sleep 1000");
    jobs_check_code(&late, 124);
    jobs_check_has(late.err, "--timeout");
    jobs_end(&late);
}
END_TEST

START_TEST(a_second_interrupt_kills)
{
    jobs_begin();
    job here = START(TWO, "--grace", "1000", SHELL,
                     "trap 'touch told.$RANK' TERM; touch up.$RANK; while :; do sleep 0.05; done");
    jobs_await("up.0");
    jobs_await("up.1");
    kill(here.pid, SIGINT);
    jobs_await("told.0");
    jobs_await("told.1");
    ck_assert_int_eq(waitpid(here.pid, NULL, WNOHANG), 0);
    kill(here.pid, SIGINT);
    jobs_finish(&here);
    jobs_check_code(&here, 130);
    jobs_end(&here);
}
END_TEST

START_TEST(a_stopped_rank_is_ended)
{
    jobs_begin();
    job here = START(TWO, SHELL, "touch up.$RANK; test $RANK = 1 && kill -STOP $$; sleep 1000");
    jobs_await("up.0");
    jobs_await("up.1");
    kill(here.pid, SIGTERM);
    jobs_finish(&here);
    jobs_check_code(&here, 143);
    jobs_end(&here);
}
END_TEST

int main(void)
{
    const char *role = getenv("CSPEED_TEST_ROLE");
    if (role)
        return play(role);
    const TTest *const tests[] = {
        a_failure_is_described,        a_fatal_signal_shows_the_stack,    a_stalled_job_is_ended_and_described,
        the_first_cause_is_reported,   a_signal_ends_every_process,       killing_the_agent_ends_every_process,
        a_dead_rank_leaves_no_process, ranks_may_end_in_the_grace_period, a_second_interrupt_kills,
        a_stopped_rank_is_ended,
    };
    return suite_run("launch_end", tests, (int)(sizeof tests / sizeof *tests));
}
