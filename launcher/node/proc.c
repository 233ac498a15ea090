/* proc.c - reads /proc/PID/stat. */
#include "node/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

size_t cl_proc_text(pid_t pid, const char *file, char *text, size_t capacity)
{
    char path[128];
    size_t length = 0;
    snprintf(path, sizeof path, "/proc/%d/%s", pid, file);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (ssize_t part = 1; fd >= 0 && part > 0 && length<capacity - 1; length += part> 0 ? (size_t)part : 0)
        part = read(fd, text + length, capacity - 1 - length);
    if (fd >= 0)
        close(fd);
    text[length] = '\0';
    return length;
}

/* The line is "PID (NAME) STATE PARENT ... START". NAME may contain any character, so it ends at the last ')'; START
 * is the 22nd field. */
bool cl_proc_read(pid_t pid, cl_proc *found)
{
    char text[1024], state = 'X';
    cl_proc_text(pid, "stat", text, sizeof text);
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
