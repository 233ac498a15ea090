/* jobs.h - running the cspeed command with real processes, for tests of the launcher.
 *
 * Every job runs in its own folder. Its processes carry a mark in their environment, by which the tests search /proc
 * for processes that should have ended. */
#ifndef CS_TESTS_JOBS_H
#define CS_TESTS_JOBS_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct {
    pid_t pid;
    char name[16];   /* suffix of the job's output files */
    int code;        /* exit code, or minus the signal that killed it */
    char *out, *err; /* what it printed, set when it has ended; malloc'ed */
} job;

extern char jobs_folder[256];

void jobs_begin(void);     /* creates and enters a new folder, and chooses a new mark */
void jobs_leave(void);     /* removes the folder */
void jobs_kill(job *here); /* sends SIGKILL to cspeed and waits for its end */

/* Starts cspeed with the arguments. Its output goes to the files `out` and `err`, or to `terminal` if that is not
 * -1. */
job jobs_start(int terminal, const char *const *arguments);
/* uses the files out.NAME and err.NAME, for one of several jobs */
job jobs_start_as(const char *name, const char *const *arguments);
void jobs_finish(job *here); /* waits for the end of the job and reads its output */
void jobs_end(job *here);    /* checks that no process remains, frees the memory, and removes the folder */

#define START(...) jobs_start(-1, (const char *const[]){ __VA_ARGS__, NULL })
#define RUN(here, ...)                                                                                                 \
    job here = START(__VA_ARGS__);                                                                                     \
    jobs_finish(&here)

/* Runs cspeed to its end with CSPEED_TEST_ROLE set to the role, for a test program that runs itself as the ranks. */
job jobs_run_role(const char *role, const char *const *arguments);
const char *jobs_self(void); /* the path of this test program */

#define ROLE(role, ...) jobs_run_role(role, (const char *const[]){ __VA_ARGS__, NULL })
#define TWO "--oversubscribe", "--num_gpus", "2"
#define SHELL "/bin/sh", "-c"

void jobs_check_code(const job *here, int code);
void jobs_check_has(const char *text, const char *part);
char *jobs_slurp(const char *path); /* returns the content of a file, malloc'ed; "" if there is none */
void jobs_await(const char *file);  /* waits until the file exists */
/* Waits for the files up.ATTEMPT.RANK of ranks 0 to count - 1, and checks that there is no such file of rank
 * `count`. */
void jobs_await_ranks(int attempt, int count);
void jobs_await_times(const char *file, const char *words, int times); /* waits until the words are there so often */
void jobs_await_words(const char *file, const char *words);            /* the same, once */
int jobs_count(void);                                                  /* number of processes that carry the mark */
void jobs_check_gone(void);
pid_t jobs_child_of(pid_t parent);
void jobs_pause(void);

#endif
