/* leftover.h - finds processes that a job left on this machine because its agent and its guard were killed.
 *
 * The environment of every rank contains CSPEED_AGENT=PID:START:NAMESPACES, which identifies the agent that started the
 * rank. The children of the rank inherit this variable. A process counts as a leftover only if it is certain that the
 * agent in this variable no longer exists. An agent that exists ends its ranks and all their descendants itself, so a
 * process of a running job is never a leftover. A process that lost the variable (`env -i`) is not found. */
#ifndef CL_LEFTOVER_H
#define CL_LEFTOVER_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct {
    pid_t pid;
    unsigned long long start; /* start time of the process, as in cl_proc */
    char job[64], name[32];   /* job: value of CSPEED_JOB_ID; name: name of the program */
} cl_leftover;

enum { CL_LEFTOVER_MARK = 128 }; /* room for the value of CSPEED_AGENT, in bytes */

/* Writes the value that the variable CSPEED_AGENT has in the children of the process `agent`. Returns false if /proc
 * cannot be read. */
bool cl_leftover_mark(pid_t agent, char text[CL_LEFTOVER_MARK]);

/* Returns the leftover processes of this user in this pid namespace, as a malloc'ed array of *count entries. */
cl_leftover *cl_leftover_find(int *count);

/* Sends a signal (0: none) to the processes of the list that still run, and returns the number of these processes. */
int cl_leftover_signal(const cl_leftover *list, int count, int number);

/* Waits at most `seconds` for the processes of the list to end. Returns how many still run. */
int cl_leftover_await(const cl_leftover *list, int count, double seconds);

#endif
