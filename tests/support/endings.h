/* endings.h - ranks that a test starts itself, as child processes, so that it sees how each of them ends. */
#ifndef CS_TESTS_ENDINGS_H
#define CS_TESTS_ENDINGS_H

#include "cspeed/comm.h"

typedef struct {
    int code; /* exit code, or 128 + signal */
    char said[2048];
} ending;

/* What one rank does; it ends the process. Its error output goes to the test. */
typedef void endings_play(const void *scene, int index);

/* Runs play(scene, 0) to play(scene, count - 1) at the same time, each in a process of its own, and stores how each
 * ended. */
void endings_perform(ending *endings, int count, endings_play *play, const void *scene);
/* For a rank: prints cs_error() and ends the process with the exit code of `status`, unless it is CS_OK. */
void endings_must(cs_status status);
void endings_expect(const ending *end, int code, const char *sentence); /* sentence NULL: any */

/* What ranks do in several tests: rank 1 of three leaves early; ranks make different calls. Both return 0 where the
 * values are right. */
int endings_leave_early(cs_comm *comm);
int endings_call_another(cs_comm *comm);

#endif
