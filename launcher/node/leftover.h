/* leftover.h - processes that a job has left on this machine because everything that would have ended them was killed.
 *
 * Every rank has CSPEED_AGENT=PID:START:NAMESPACES in its environment, the agent that started it, and what a rank
 * starts inherits that. A process is left over when the agent it names is gone. Where that is not certain it is not.
 * While an agent lives, it ends its ranks and all that they have started by itself, so that nothing of a running job is
 * ever left over. A process whose environment does not have that variable (`env -i`) is not found. */
#ifndef CL_LEFTOVER_H
#define CL_LEFTOVER_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct {
    pid_t pid;
    unsigned long long start; /* as cl_proc's */
    char job[64], name[32];   /* CSPEED_JOB_ID, and the program's name */
} cl_leftover;

enum { CL_LEFTOVER_MARK = 128 }; /* bytes */

/* The value of CSPEED_AGENT for what the process `agent` starts. False: /proc does not tell it. */
bool cl_leftover_mark(pid_t agent, char text[CL_LEFTOVER_MARK]);

/* The processes that are left over in this pid namespace and are of this user; malloc'ed, `*count` of them. */
cl_leftover *cl_leftover_find(int *count);

/* Signals those that still run (0: none is signalled); returns how many do. */
int cl_leftover_signal(const cl_leftover *list, int count, int number);

/* The same until none runs any more, for at most `seconds`, without a signal. Returns how many still run. */
int cl_leftover_await(const cl_leftover *list, int count, double seconds);

#endif
