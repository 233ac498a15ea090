/* test_crash.c - crash consistency: a save fails, is interrupted or is killed at each of its system calls in turn.
 * Afterwards either the complete old state or the complete new state loads, and the next save succeeds and leaves no
 * staging directory.
 *
 * A simulated power failure loses the file contents that were not flushed, but it keeps the renames. The test runs
 * itself again with the library of shim/ preloaded. CSPEED_CRASH_STRIDE=n tests every n-th call (1: all). */
#include "saved.h"
#include "shell.h"
#include "suite.h"

#include "checkpoint/background.h"
#include "shim/faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static shim_arm_call arm;
static shim_calls_call count_calls;
static shim_lose_call lose;
static shim_lack_call set_lack;

static const char *const hows[] = { "counted", "EIO", "ENOSPC", "short", "killed", "power lost" };

typedef struct {
    /* The name of the test case, and the tag of its save. The old state has the tag "old" and step 1, and `latest`
     * names it. */
    const char *name, *tag;
    int64_t keep_last;
    bool background;
    const char *damaged; /* a checkpoint that was found damaged and must be kept; NULL: none */
    shim_lack lack;      /* what the file system cannot do */
} scene;

static const scene scenes[] = {
    { "a new tag", "new", 0, false, NULL, SHIM_ALL },
    { "a new tag, in the background", "new", 0, true, NULL, SHIM_ALL },
    { "the same tag again", "old", 0, false, NULL, SHIM_ALL },
    { "the same tag again, in the background", "old", 0, true, NULL, SHIM_ALL },
    { "pruning", "new", 1, false, NULL, SHIM_ALL },
    { "pruning, in the background", "new", 1, true, NULL, SHIM_ALL },
    { "past a damaged one", "new", 1, false, "older", SHIM_ALL },
    { "the same tag again, without exchange", "old", 0, false, NULL, SHIM_NO_EXCHANGE },
    { "the same tag again, without moves", "old", 0, false, NULL, SHIM_NO_MOVE },
    { "pruning, without moves", "new", 1, false, NULL, SHIM_NO_MOVE },
};
enum { SCENES = sizeof scenes / sizeof *scenes, OLD = 1, NEW = 9 };

/* In a child process: saves step 9 with the fault armed. The exit code is the status that the save returned. */
static _Noreturn void save_armed(const scene *s, int at, shim_how how, int report)
{
    cs_comm *comm = saved_world();
    ce_background *work = NULL;
    saved_pieces pieces;
    ce_checkpoint_content content = { .tag = s->tag,
                                      .step = NEW,
                                      .config_text = "{}",
                                      .client_state = "{\"a\": 1}",
                                      .keep_last = s->keep_last,
                                      .writing.buffer_bytes = 4096 };
    json_t *engine = json_pack("{s:i}", "global_step", NEW);
    saved_open(&pieces, 0, 1, SAVED_FLAT, NEW);
    content.damaged = s->damaged ? json_pack("[s]", s->damaged) : NULL;
    content.engine = engine;
    content.pieces = pieces.piece;
    content.piece_count = pieces.count;
    arm(at, how);
    cs_status status =
        s->background ? ce_background_save(&work, comm, "out", &content) : ce_checkpoint_save(comm, "out", &content);
    if (s->background && status == CS_OK)
        status = ce_background_finish(work);
    int calls = count_calls();
    if (how == SHIM_LOSE && status == CS_OK) /* a save that returned success must survive the loss of unflushed data */
        lose();
    arm(0, SHIM_COUNT);
    if (write(report, &calls, sizeof calls) != sizeof calls || (status != CS_OK && !*cs_error()))
        _exit(2);
    _exit(status != CS_OK);
}

/* Returns the exit code, or -1 if the child was killed; *calls is the number of calls that the save made. */
static int save_once(const scene *s, int at, shim_how how, int *calls)
{
    int pipes[2], status;
    *calls = 0;
    ck_assert_int_eq(pipe(pipes), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        save_armed(s, at, how, pipes[1]);
    }
    close(pipes[1]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    if (read(pipes[0], calls, sizeof *calls) < 0)
        *calls = 0;
    close(pipes[0]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void make_old(void)
{
    ck_assert_int_eq(shell_run("rm -rf out keep"), 0);
    SHOULD(saved_save("keep", "older", 0));
    SHOULD(saved_save("keep", "old", OLD));
}

static void restore_old(void)
{
    ck_assert_int_eq(shell_run("rm -rf out && cp -r keep out"), 0);
}

/* The description of the fault, which the messages of failed checks contain. */
static char story[200];

static void judge(const scene *s, int code, shim_how how)
{
    int64_t step = -1;
    ck_assert_msg(saved_load("out", NULL, &step) == CS_OK, "%s: %s", story, cs_error());
    ck_assert_msg(step == OLD || step == NEW, "%s: step %lld was loaded", story, (long long)step);
    ck_assert_msg(code != 0 || step == NEW, "%s: the save says it is done, and step %lld is loaded", story,
                  (long long)step);
    ck_assert_msg(how != SHIM_SHORT || code == 0, "%s: the save failed", story);
    ck_assert_msg(code >= 0 || how >= SHIM_KILL, "%s: the save died", story);
    ck_assert_msg(code != 2, "%s: no sentence", story);
    if (strcmp(s->tag, "new") == 0 && s->keep_last == 0) /* the old checkpoint must be unchanged */
        ck_assert_msg(saved_load("out", "old", &step) == CS_OK && step == OLD, "%s: old: %s", story, cs_error());
    if (s->damaged)
        ck_assert_msg(shell_run("diff -r keep/older out/older || diff -r keep/older out/older~damaged") == 0,
                      "%s: the damaged one is not kept", story);
    ck_assert_msg(saved_save("out", "next", 20) == CS_OK, "%s: the next save: %s", story, cs_error());
    ck_assert_msg(shell_run("ls -A out | grep -q cspeed") == 1, "%s: something is left behind", story);
}

static int stride(void)
{
    const char *given = getenv("CSPEED_CRASH_STRIDE");
    return given && atoi(given) > 0 ? atoi(given) : 9;
}

START_TEST(every_call)
{
    int rounds = 0;
    shell_enter();
    make_old();
    for (int i = 0; i < SCENES; i++) {
        int calls, none;
        set_lack(scenes[i].lack);
        restore_old();
        ck_assert_int_eq(save_once(&scenes[i], 0, SHIM_COUNT, &calls), 0);
        ck_assert_int_gt(calls, 20);
        for (int how = SHIM_EIO; how < SHIM_HOWS; how++)
            for (int at = (i + how) % stride(); at < calls; at += stride(), rounds++) {
                restore_old();
                int code = save_once(&scenes[i], at, (shim_how)how, &none);
                snprintf(story, sizeof story, "%s: call %d of %d, %s", scenes[i].name, at, calls, hows[how]);
                judge(&scenes[i], code, (shim_how)how);
            }
        restore_old();
        ck_assert_int_eq(save_once(&scenes[i], calls, SHIM_LOSE, &none), -1);
        snprintf(story, sizeof story, "%s: power lost behind the save", scenes[i].name);
        judge(&scenes[i], 0, SHIM_LOSE);
        printf("%s: %d calls\n", scenes[i].name, calls);
        fflush(stdout); /* without this flush, each child process would print the buffered text again */
    }
    printf("%d rounds\n", rounds);
    shell_leave();
}
END_TEST

int main(int count, char **arguments)
{
    const TTest *const tests[] = { every_call };
    (void)count;
    arm = (shim_arm_call)(intptr_t)dlsym(RTLD_DEFAULT, "shim_arm");
    count_calls = (shim_calls_call)(intptr_t)dlsym(RTLD_DEFAULT, "shim_calls");
    lose = (shim_lose_call)(intptr_t)dlsym(RTLD_DEFAULT, "shim_lose");
    set_lack = (shim_lack_call)(intptr_t)dlsym(RTLD_DEFAULT, "shim_set_lack");
    if (!arm && getenv("CSPEED_CRASH_AGAIN")) {
        fprintf(stderr, "the library %s was not loaded\n", CS_SHIM);
        return 1;
    }
    if (!arm) {
        setenv("LD_PRELOAD", CS_SHIM, 1);
        setenv("CSPEED_CRASH_AGAIN", "1", 1);
        setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
        execv("/proc/self/exe", arguments);
        fprintf(stderr, "cannot run itself again: %s\n", strerror(errno));
        return 1;
    }
    unsetenv("LD_PRELOAD");
    return suite_run("crash", tests, 1);
}
