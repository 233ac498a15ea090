/* stack.c - reads the C stack of a rank that makes no progress. */
#include "node/agent.h"

#include "node/proc.h"

#include "base/must.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Asks the rank for its stack. Returns true when the rank has written the stack into the page of shared memory, behind
 * its heartbeat record. Returns false if the rank does not answer within 200 ms. */
static bool ask(cl_process *process)
{
    enum { TRIES = 40 };
    const struct timespec pause = { 0, 5000000 };
    int number = atomic_load(&process->beat->stack_signal);
    int before = atomic_load(&process->beat->stacks);
    if (!number || kill(process->pid, number) < 0)
        return false;
    for (int i = 0; i < TRIES; i++) {
        if (atomic_load(&process->beat->stacks) != before)
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

static void copy_stack(FILE *out, const cl_process *process)
{
    int length = atomic_load(&process->beat->stack_bytes), max = CE_BEAT_BYTES - CE_BEAT_STACK;
    const char *text = (const char *)process->beat + CE_BEAT_STACK;
    fwrite(text, 1, (size_t)(length < 0 ? 0 : length > max ? max : length), out);
}

/* Reads the first line of the file /proc/PID/task/THREAD/NAME. */
static const char *read_line(pid_t pid, const char *thread, const char *name, char line[256])
{
    char file[64];
    snprintf(file, sizeof file, "task/%.16s/%s", thread, name);
    cl_proc_text(pid, file, line, 256);
    line[strcspn(line, "\n")] = '\0';
    return *line ? line : "?";
}

static void copy_threads(FILE *out, pid_t pid)
{
    char path[64], name[256], stat[256], place[256];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        const char *state = strrchr(read_line(pid, entry->d_name, "stat", stat), ')');
        fprintf(out, "thread %s (%s): state %.1s, in %s\n", entry->d_name, read_line(pid, entry->d_name, "comm", name),
                state && state[1] ? state + 2 : "?", read_line(pid, entry->d_name, "wchan", place));
    }
    if (folder)
        closedir(folder);
}

char *cl_stack_text(cl_process *process)
{
    char *text;
    FILE *out = ce_must_stream(&text, NULL);
    if (ask(process)) {
        copy_stack(out, process);
    } else {
        fprintf(out, "it does not write its stack (it is stopped, or does not use libcspeed); the kernel reports:\n");
        copy_threads(out, process->pid);
    }
    ce_must_finish(out);
    return text;
}
