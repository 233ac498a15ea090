/* jobs.c - running the cspeed command with real processes. */
#include "jobs.h"

#include "shell.h"
#include "suite.h"

#include "base/clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TEXT_BYTES = 4 << 20 };

char jobs_folder[256];
static char mark[64];

/* ---- the folder, files, time ---- */

void jobs_pause(void)
{
    nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
}

void jobs_leave(void)
{
    char command[400];
    snprintf(command, sizeof command, "rm -rf '%s'", jobs_folder);
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(system(command), 0);
}

/* Creates and enters a new folder, and sets CSPEED_TEST_MARK to a new value, by which processes of this test are
 * found. */
void jobs_begin(void)
{
    const char *base = getenv("TMPDIR");
    snprintf(jobs_folder, sizeof jobs_folder, "%s/cspeed-jobs.XXXXXX", base ? base : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(jobs_folder));
    ck_assert_int_eq(chdir(jobs_folder), 0);
    snprintf(mark, sizeof mark, "CSPEED_TEST_MARK=%s", strrchr(jobs_folder, '.'));
    putenv(mark);
    unsetenv("OMP_NUM_THREADS");
    unsetenv("CSPEED_TERMINAL");
    unsetenv("COLUMNS");
}

char *jobs_slurp(const char *path)
{
    char *text = malloc(TEXT_BYTES + 1);
    int fd = open(path, O_RDONLY);
    ssize_t part = 0, length = 0;
    while (fd >= 0 && length < TEXT_BYTES && (part = read(fd, text + length, (size_t)(TEXT_BYTES - length))) > 0)
        length += part;
    if (fd >= 0)
        close(fd);
    text[length] = '\0';
    return text;
}

void jobs_await(const char *name)
{
    for (double until = ce_clock_seconds() + SUITE_PATIENCE; access(name, F_OK) < 0; jobs_pause())
        ck_assert_msg(ce_clock_seconds() < until, "no file %s after %d s", name, SUITE_PATIENCE);
}

/* ---- processes ---- */

int jobs_count(void)
{
    return shell_left(mark);
}

void jobs_check_gone(void)
{
    shell_await_left(mark, 0);
}

pid_t jobs_child_of(pid_t parent)
{
    pid_t found = 0;
    DIR *all = opendir("/proc");
    for (struct dirent *entry; (entry = readdir(all));) {
        char path[300], state;
        int above = 0;
        snprintf(path, sizeof path, "/proc/%s/stat", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file && fscanf(file, "%*d (%*[^)]) %c %d", &state, &above) == 2 && above == parent)
            found = atoi(entry->d_name);
        if (file)
            fclose(file);
    }
    closedir(all);
    return found;
}

/* ---- jobs ---- */

static job launch(const char *name, int terminal, const char *const *arguments)
{
    const char *argv[64] = { CS_BIN "/cspeed" };
    char out_name[32], err_name[32];
    for (int i = 0; arguments[i]; i++)
        argv[i + 1] = arguments[i];
    snprintf(out_name, sizeof out_name, "out%s", name);
    snprintf(err_name, sizeof err_name, "err%s", name);
    job here = { .pid = fork() };
    snprintf(here.name, sizeof here.name, "%s", name);
    ck_assert_int_ge(here.pid, 0);
    if (here.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* a test that fails leaves no job behind */
        int out = terminal >= 0 ? terminal : open(out_name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        int err = terminal >= 0 ? terminal : open(err_name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(out, 1);
        dup2(err, 2);
        execv(argv[0], (char *const *)(uintptr_t)argv);
        _exit(99);
    }
    return here;
}

job jobs_start(int terminal, const char *const *arguments)
{
    return launch("", terminal, arguments);
}

job jobs_start_as(const char *name, const char *const *arguments)
{
    char file[16];
    snprintf(file, sizeof file, ".%s", name);
    return launch(file, -1, arguments);
}

void jobs_kill(job *here)
{
    if (kill(here->pid, SIGKILL) == 0)
        waitpid(here->pid, NULL, 0);
}

const char *jobs_self(void)
{
    static char path[512];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return path;
}

void jobs_finish(job *here)
{
    char file[32];
    int status = 0;
    for (double until = ce_clock_seconds() + SUITE_PATIENCE; waitpid(here->pid, &status, WNOHANG) == 0; jobs_pause())
        if (ce_clock_seconds() > until) {
            kill(here->pid, SIGKILL);
            waitpid(here->pid, &status, 0);
            snprintf(file, sizeof file, "err%s", here->name);
            ck_abort_msg("cspeed did not end in %d s: %.1500s", SUITE_PATIENCE, jobs_slurp(file));
        }
    here->code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    snprintf(file, sizeof file, "out%s", here->name);
    here->out = jobs_slurp(file);
    snprintf(file, sizeof file, "err%s", here->name);
    here->err = jobs_slurp(file);
}

job jobs_run_role(const char *role, const char *const *arguments)
{
    setenv("CSPEED_TEST_ROLE", role, 1);
    job here = jobs_start(-1, arguments);
    jobs_finish(&here);
    unsetenv("CSPEED_TEST_ROLE");
    return here;
}

void jobs_end(job *here)
{
    jobs_check_gone();
    free(here->out);
    free(here->err);
    jobs_leave();
}

void jobs_check_has(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "\"%s\" is not in: %.1500s", part, text);
}

void jobs_check_code(const job *here, int code)
{
    ck_assert_msg(here->code == code, "exit code %d, not %d: %.1500s", here->code, code, here->err);
}

void jobs_await_times(const char *file, const char *words, int times)
{
    int found = 0;
    for (double until = ce_clock_seconds() + SUITE_PATIENCE; found < times; jobs_pause()) {
        char *text = jobs_slurp(file);
        found = shell_count_of(text, words);
        ck_assert_msg(found >= times || ce_clock_seconds() < until, "\"%s\" is in %s %d times, not %d: %.1500s", words,
                      file, found, times, text);
        free(text);
    }
}

void jobs_await_words(const char *file, const char *words)
{
    jobs_await_times(file, words, 1);
}

void jobs_await_ranks(int attempt, int count)
{
    char file[32];
    for (int rank = 0; rank <= count; rank++) {
        snprintf(file, sizeof file, "up.%d.%d", attempt, rank);
        if (rank < count)
            jobs_await(file);
        else
            ck_assert_int_ne(access(file, F_OK), 0);
    }
}
