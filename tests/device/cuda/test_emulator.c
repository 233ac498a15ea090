/* test_emulator.c - tests of the CUDA emulator itself: streams are lazy, the host cannot access device memory, a
 * fault in a kernel aborts with a message; the instrumented module finds data races and reads of uninitialised
 * shared memory. The kernels are part of the modules (tests/emulator/trials*.cc). */
#include "suite.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "emulator/trials.h"

static const emulator_trials *trials;

static bool find(const char *path, const char *name)
{
    if (access(path, R_OK) != 0) {
        printf("skipped: %s was not built\n", path);
        return false;
    }
    void *module = dlopen(path, RTLD_LAZY | RTLD_LOCAL); /* this program does not link the engine */
    ck_assert_msg(module != NULL, "%s", dlerror());
    trials = dlsym(module, name);
    ck_assert_ptr_nonnull(trials);
    return true;
}

static bool find_trials(void)
{
    return find(CS_BIN "/libcspeed_cuda_emulated.so", "emulator_trials_of_module");
}

static bool find_race_trials(void)
{
    return find(CS_BIN "/libcspeed_cuda_emulated_instrumented.so", "emulator_race_trials");
}

/* Runs trial() in a child process. Returns "" if the child ended with exit code 0, otherwise what the child wrote to
 * stderr, or "signal S" if it wrote nothing. */
static const char *fatal_message(void (*trial)(void))
{
    static char said[4096];
    int ends[2], status;
    ck_assert_int_eq(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
        dup2(ends[1], STDERR_FILENO);
        trial();
        _exit(0);
    }
    close(ends[1]);
    size_t size = 0;
    ssize_t more;
    while (size < sizeof said - 1 && (more = read(ends[0], said + size, sizeof said - 1 - size)) > 0)
        size += (size_t)more;
    said[size] = 0;
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    bool died = WIFSIGNALED(status) || WEXITSTATUS(status) != 0;
    if (died && !said[0])
        snprintf(said, sizeof said, "signal %d", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return died ? said : "";
}

static bool (*held)(void);

static void hold(void)
{
    if (held())
        return;
    fputs("it does not hold", stderr);
    _exit(1);
}

START_TEST(streams_run_when_something_waits)
{
    for (int i = 0; find_trials() && i < trials->right_count; i++)
        ck_assert_msg(trials->right[i].holds(), "%s", trials->right[i].name);
}
END_TEST

START_TEST(captured_work_runs_as_a_graph)
{
    for (int i = 0; find_trials() && i < trials->graph_count; i++)
        ck_assert_msg(trials->graphs[i].holds(), "%s", trials->graphs[i].name);
}
END_TEST

static void check_wrong(void)
{
    for (int i = 0; i < trials->wrong_count; i++) {
        const emulator_wrong *wrong = &trials->wrong[i];
        const char *said = fatal_message(wrong->run);
        ck_assert_msg(said[0] && (strstr(said, wrong->says) || strstr(said, "AddressSanitizer")), "%s: said \"%s\"",
                      wrong->name, said);
    }
}

START_TEST(faults_are_fatal)
{
    if (find_trials())
        check_wrong();
}
END_TEST

/* Each trial runs in a child process, which must not abort: nothing may be reported. */
START_TEST(correct_programs_are_not_reported)
{
    for (int i = 0; find_race_trials() && i < trials->right_count; i++) {
        held = trials->right[i].holds;
        const char *said = fatal_message(hold);
        ck_assert_msg(!said[0], "%s: said \"%s\"", trials->right[i].name, said);
    }
}
END_TEST

START_TEST(races_and_uninitialised_memory_are_found)
{
    if (find_race_trials())
        check_wrong();
}
END_TEST

SUITE_MAIN_APART("emulator", streams_run_when_something_waits, captured_work_runs_as_a_graph, faults_are_fatal,
                 correct_programs_are_not_reported, races_and_uninitialised_memory_are_found)
