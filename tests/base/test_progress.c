/* test_progress.c - the progress line: what a terminal shows, and that nothing is written to a pipe. */
#include "base/log.h"
#include "base/progress.h"
#include "base/thread_pool.h"
#include "suite.h"

#include <pty.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_BYTES = 1 << 16, MEGABYTE = 1000000, PARTS = 20 };

static char shown[TEXT_BYTES]; /* what the last program wrote to stderr */

/* ---- tasks with a progress line ---- */

/* Sleeps long enough that a progress line appears; short tasks show none. */
static void work_long(void)
{
    nanosleep(&(struct timespec){ 1, 200000000 }, NULL);
}

static void read_bytes(void)
{
    ce_progress work;
    ce_progress_begin(&work, "loading", NULL, 4 * MEGABYTE);
    work_long();
    ce_progress_add(&work, MEGABYTE);
    ce_log(CE_LOG_WARNING, "a warning");
    ce_progress_add(&work, 3 * MEGABYTE);
    ce_progress_end(&work);
}

static cs_status add_one(void *argument, int64_t index)
{
    (void)index;
    nanosleep(&(struct timespec){ 0, 200000000 }, NULL);
    ce_progress_add(argument, 1);
    return CS_OK;
}

static void share_batches(void)
{
    ce_progress work;
    ce_progress_begin(&work, "evaluating", "batches", PARTS);
    ce_thread_pool_run(2, PARTS, add_one, &work);
    ce_progress_end(&work);
}

static void be_short(void)
{
    ce_progress work;
    ce_progress_begin(&work, "loading", NULL, MEGABYTE);
    ce_progress_add(&work, MEGABYTE);
    ce_progress_end(&work);
}

static void fail_early(void)
{
    ce_progress work;
    ce_progress_begin(&work, "loading", NULL, 4 * MEGABYTE);
    work_long();
    ce_progress_add(&work, MEGABYTE);
    ce_progress_end(&work);
    fprintf(stderr, "an error\n");
}

/* ---- a program on a terminal, or in front of a pipe ---- */

typedef struct {
    bool terminal;
    const char *kind, *launcher; /* values of TERM and CSPEED_TERMINAL; NULL: not set */
    int columns;
} place;

static void set(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void show(const place *at, void (*work)(void))
{
    struct winsize size = { .ws_row = 24, .ws_col = (unsigned short)at->columns };
    int ends[2] = { -1, -1 };
    ck_assert(at->terminal || pipe(ends) == 0);
    pid_t pid = at->terminal ? forkpty(&ends[0], NULL, NULL, &size) : fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (!at->terminal)
            dup2(ends[1], STDERR_FILENO);
        set("TERM", at->kind);
        set("CSPEED_TERMINAL", at->launcher);
        unsetenv("COLUMNS");
        work();
        _exit(0);
    }
    if (!at->terminal)
        close(ends[1]);
    size_t length = 0;
    for (ssize_t part; (part = read(ends[0], shown + length, TEXT_BYTES - length - 1)) > 0;)
        length += (size_t)part; /* a terminal that was closed answers EIO */
    shown[length] = '\0';
    close(ends[0]);
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

static void must_show(const char *text)
{
    ck_assert_msg(strstr(shown, text) != NULL, "no \"%s\" in \"%s\"", text, shown);
}

START_TEST(a_terminal_shows_share_rate_and_time)
{
    const place wide = { .terminal = true, .kind = "xterm", .columns = 80 }, narrow = { true, "xterm", NULL, 20 };
    show(&wide, read_bytes);
    ck_assert_msg(strncmp(shown, "\rloading   25 %  1.0 of 4.0 MB  0.", 34) == 0, "%s", shown);
    must_show(" MB/s  0:0");
    must_show(" left\033[K\r\nwarning: a warning\r\n\rloading  100 %  4.0 of 4.0 MB  ");
    must_show("  in 0:01\033[K\r\n");
    show(&narrow, read_bytes);
    must_show("\rloading   25 %  1.0\033[K\r\n");
    show(&wide, share_batches);
    must_show("\revaluating  100 %  20 of 20 batches  ");
    show(&wide, fail_early);
    must_show("left\033[K\r\nan error\r\n");
    ck_assert_ptr_null(strstr(shown, "100 %"));
}
END_TEST

START_TEST(nothing_is_shown_elsewhere)
{
    static const place silent[] = {
        { .terminal = true, .kind = "dumb", .columns = 80 },
        { .terminal = true, .columns = 80 },
        { .kind = "xterm" },
        { .kind = "xterm", .launcher = "1" }, /* the launcher shows stdout only on a terminal */
    };
    const place wide = { .terminal = true, .kind = "xterm", .columns = 80 };
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        show(&silent[i], fail_early);
        ck_assert_msg(strcmp(shown, silent[i].terminal ? "an error\r\n" : "an error\n") == 0, "%zu: \"%s\"", i, shown);
    }
    show(&wide, be_short);
    ck_assert_str_eq(shown, "");
    show(&(place){ .launcher = "12" }, fail_early); /* a rank of a job on a terminal */
    must_show("\rloading   25 %  1.0 of 4.0 MB  ");
}
END_TEST

START_TEST(durations)
{
    static const struct {
        double seconds;
        const char *text;
    } rows[] = { { 0, "0:00" }, { 7.4, "0:07" }, { 59.6, "1:00" }, { 754, "12:34" }, { 3723, "1:02:03" } };
    char text[CE_PROGRESS_TIME_BYTES];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        ck_assert_str_eq(ce_progress_time(text, rows[i].seconds), rows[i].text);
}
END_TEST

SUITE_MAIN("progress", a_terminal_shows_share_rate_and_time, nothing_is_shown_elsewhere, durations)
