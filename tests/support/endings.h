/* endings.h - ranks that a test starts as child processes, to check how each of them ends. */
#ifndef CS_TESTS_ENDINGS_H
#define CS_TESTS_ENDINGS_H

#include "cspeed/comm.h"

typedef struct {
    int code; /* exit code, or 128 + signal */
    char said[2048];
} ending;

/* The function of one rank: it must end the process. The test receives its error output. */
typedef void endings_play(const void *scene, int index);

/* Runs play(scene, 0) to play(scene, count - 1) at the same time, each in its own process, and stores how each ended in
 * endings[]. */
void endings_perform(ending *endings, int count, endings_play *play, const void *scene);
/* For a rank: prints cs_error() and ends the process with the exit code of `status`, unless it is CS_OK. */
void endings_must(cs_status status);
/* Checks the exit code, and that the error output contains `sentence`. If `sentence` is NULL, checks the exit code
 * only. */
void endings_expect(const ending *end, int code, const char *sentence);

/* Functions of ranks for several tests. endings_leave_early: rank 1 of three leaves early. endings_call_another: the
 * ranks call different collectives. If the comm does not end the process, the function returns 1 if a received value is
 * wrong, otherwise 0. */
int endings_leave_early(cs_comm *comm);
int endings_call_another(cs_comm *comm);

#endif
