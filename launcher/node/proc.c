/* proc.c - reads /proc/PID/stat. */
#include "node/proc.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* The line is "PID (NAME) STATE PARENT ... START". NAME may contain any character, so it ends at the last ')'; START
 * is the 22nd field. */
bool cl_proc_read(pid_t pid, cl_proc *found)
{
    char path[64], text[1024], state = 'X';
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = '\0';
    const char *after = strrchr(text, ')');
    *found = (cl_proc){ .pid = pid };
    if (!after || sscanf(after + 1, " %c %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                         &state, &found->parent, &found->start) != 3)
        return false;
    found->zombie = state == 'Z' || state == 'X';
    found->halted = state == 'T' || state == 't';
    return true;
}

unsigned long long cl_proc_start(pid_t pid)
{
    cl_proc found;
    return cl_proc_read(pid, &found) && !found.zombie ? found.start : 0;
}

bool cl_proc_is_gone(pid_t pid, unsigned long long start)
{
    cl_proc found;
    if (cl_proc_read(pid, &found))
        return found.zombie || found.start != start;
    return kill(pid, 0) < 0 && errno == ESRCH;
}
