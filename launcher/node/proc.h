/* proc.h - what /proc/PID/stat says of a process. */
#ifndef CL_PROC_H
#define CL_PROC_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct {
    pid_t pid, parent;
    unsigned long long start; /* when it was started, in the kernel's ticks: with it, a pid is not mistaken for one that
                                 came later */
    bool zombie;
} cl_proc;

/* False: there is no such process. */
bool cl_proc_read(pid_t pid, cl_proc *found);

/* When a process was started; 0: there is none, or it is a zombie. */
unsigned long long cl_proc_start(pid_t pid);

/* Whether the process that was started then has ended. False also where /proc cannot be read: it may hide processes of
 * other users (hidepid), or no descriptor may be free. */
bool cl_proc_is_gone(pid_t pid, unsigned long long start);

#endif
