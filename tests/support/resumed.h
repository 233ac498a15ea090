/* resumed.h - trainings that are killed and continue: from which step they go on. Their output is in out.txt. */
#ifndef CS_TESTS_RESUMED_H
#define CS_TESTS_RESUMED_H

#include <stdbool.h>
#include <sys/types.h>

/* Returns the step that the file `path`, a folder's `latest`, names, for example 17 for global_step17. Returns 0 if there
 * is no such file. */
long resumed_latest(const char *path);
/* Returns the step from which the run says that it resumes. If the run says that it is past its --steps already,
 * returns the number of steps that are done. Returns -1 if the run has said neither yet. */
long resumed_said(void);
bool resumed_has_ended(pid_t child); /* returns whether the child process has ended; it is not waited for */
/* Checks that saved work is not lost: a run that starts while `latest` names step `saved` resumes from that step or a
 * later one. No other check would detect a restart from the beginning, which reaches the same losses. */
void resumed_await(pid_t run, long saved);
/* Sleeps for a random time of at most `seconds`. */
void resumed_sleep(unsigned short state[3], double seconds);

#endif
