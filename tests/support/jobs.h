/* jobs.h - jobs of the cspeed command with real processes, for tests of the launcher.
 *
 * Every job runs in a folder of its own and carries a mark in its environment, by which processes that should be gone
 * are looked for in /proc. */
#ifndef CS_TESTS_JOBS_H
#define CS_TESTS_JOBS_H

#include <stdbool.h>
#include <sys/types.h>

enum { JOBS_LIMIT = 30 }; /* seconds that anything may take */

typedef struct {
    pid_t pid;
    char name[16];   /* of its output's files                   */
    int code;        /* minus the signal when it was killed     */
    char *out, *err; /* what it printed, once ended; malloc'ed */
} job;

extern char jobs_folder[256];

void jobs_begin(void);     /* a new folder, which is the current one, and a new mark */
void jobs_leave(void);     /* removes the folder */
void jobs_kill(job *here); /* if it still runs: SIGKILL, for a test that gives up */

/* Starts cspeed with the arguments; its output goes to files out and err, or to `terminal` when that is a file. */
job jobs_start(int terminal, const char *const *arguments);
job jobs_start_as(const char *name, const char *const *arguments); /* files out.NAME and err.NAME: for one of several */
void jobs_finish(job *here);                                       /* waits for its end */
void jobs_end(job *here); /* checks that nothing is left, frees, removes the folder */

#define START(...) jobs_start(-1, (const char *const[]){ __VA_ARGS__, NULL })
#define RUN(here, ...)                                                                                                 \
    job here = START(__VA_ARGS__);                                                                                     \
    jobs_finish(&here)

void jobs_check_code(const job *here, int code);
void jobs_check_has(const char *text, const char *part);
int jobs_count_of(const char *text, const char *part);
char *jobs_slurp(const char *path); /* malloc'ed; "" without the file */
void jobs_await(const char *file);
int jobs_count(void); /* processes that carry the mark */
void jobs_check_gone(void);
pid_t jobs_child_of(pid_t parent);
void jobs_pause(void);
double jobs_seconds(void);

#endif
