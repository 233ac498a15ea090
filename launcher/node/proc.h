/* proc.h - State, parent and start time of a process, from /proc/PID/stat. */
#ifndef CL_PROC_H
#define CL_PROC_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct {
    pid_t pid, parent;
    /* start time in clock ticks of the kernel. Process ids are reused, so only process id and start time together
     * identify a process */
    unsigned long long start;
    bool zombie, halted; /* halted: a signal or a debugger has stopped the process (state T or t) */
} cl_proc;

/* Reads the process with this id into `found`. Returns false if there is no such process. */
bool cl_proc_read(pid_t pid, cl_proc *found);

/* Returns the start time of a process; 0: there is no such process, or it is a zombie. */
unsigned long long cl_proc_start(pid_t pid);

/* Returns true if the process with this id and start time has ended. Returns false if that is not known: /proc can hide
 * the processes of other users (mount option hidepid), and it cannot be read when no file descriptor is free. */
bool cl_proc_is_gone(pid_t pid, unsigned long long start);

/* Reads the file /proc/PID/FILE as a text, at most `capacity` - 1 bytes. Returns its length; 0: it cannot be read. */
size_t cl_proc_text(pid_t pid, const char *file, char *text, size_t capacity);

#endif
