/* resumed.c - trainings that are killed and continue. */
#include "resumed.h"

#include "shell.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WAIT_TURNS = SUITE_PATIENCE * 50 }; /* number of waits of 20 ms */

long resumed_latest(const char *path)
{
    if (access(path, F_OK) != 0)
        return 0;
    char *tag = shell_read(path, NULL), *end;
    long step = strncmp(tag, "global_step", 11) == 0 ? strtol(tag + 11, &end, 10) : 0;
    ck_assert_msg(step > 0, "%s names \"%s\"", path, tag);
    free(tag);
    return step;
}

long resumed_said(void)
{
    char *out = shell_read("out.txt", NULL);
    char *line = strstr(out, "continuing at step "), *past = strstr(out, " is past step ");
    long step = -1;
    if (line && strchr(line, '\n'))
        step = strtol(line + strlen("continuing at step "), NULL, 10);
    else if (past && strchr(past, '\n')) /* the text is " is past step 1: 3 steps are done" */
        sscanf(past, " is past step %*d: %ld", &step);
    free(out);
    return step;
}

bool resumed_has_ended(pid_t child)
{
    siginfo_t info = { 0 };
    ck_assert_int_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT), 0);
    return info.si_pid == child;
}

void resumed_await(pid_t run, long saved)
{
    long said = saved ? resumed_said() : saved;
    for (int waited = 0; said < 0 && !resumed_has_ended(run); waited++) {
        ck_assert_msg(waited < WAIT_TURNS, "the run does not say where it goes on");
        nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
        said = resumed_said();
    }
    said = saved ? resumed_said() : saved;
    ck_assert_msg(said >= saved, "step %ld was saved, the next run goes on at %ld", saved, said);
}

void resumed_sleep(unsigned short state[3], double seconds)
{
    nanosleep(&(struct timespec){ 0, (long)(erand48(state) * seconds * 1e9) }, NULL);
}
