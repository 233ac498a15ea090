/* owner.c - finds the process that listens on a port: the socket in /proc/net/tcp, then the process that has it open.
 */
#include "wire/rendezvous.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LISTENS = 0x0A };

/* Returns the inode of the socket that listens on `port`; 0: no socket listens on it. */
static unsigned long find_socket(const char *table, int port)
{
    char line[512];
    unsigned long inode = 0;
    FILE *file = fopen(table, "re");
    while (file && !inode && fgets(line, sizeof line, file)) {
        unsigned state, its_port;
        unsigned long its_inode;
        if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*s %*s %lu", &its_port, &state,
                   &its_inode) == 3 &&
            (int)its_port == port && state == LISTENS)
            inode = its_inode;
    }
    if (file)
        fclose(file);
    return inode;
}

static bool has_socket(const char *pid, const char *wanted)
{
    char path[300], target[64];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%.20s/fd", pid);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && !found && (entry = readdir(folder));) {
        ssize_t length = readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        found = strcmp(target, wanted) == 0;
    }
    if (folder)
        closedir(folder);
    return found;
}

static void describe(const char *pid, char *text, size_t capacity)
{
    char path[64], name[64] = "?";
    snprintf(path, sizeof path, "/proc/%.20s/comm", pid);
    FILE *file = fopen(path, "re");
    if (file && fgets(name, sizeof name, file))
        name[strcspn(name, "\n")] = '\0';
    if (file)
        fclose(file);
    snprintf(text, capacity, "%s (pid %.20s)", name, pid);
}

void cl_owner_of_port(int port, char *text, size_t capacity)
{
    char wanted[64];
    unsigned long inode = find_socket("/proc/net/tcp", port);
    if (!inode)
        inode = find_socket("/proc/net/tcp6", port);
    snprintf(text, capacity, "%s", inode ? "another user's process" : "");
    snprintf(wanted, sizeof wanted, "socket:[%lu]", inode);
    DIR *proc = inode ? opendir("/proc") : NULL;
    for (struct dirent *entry; proc && (entry = readdir(proc));)
        if (atoi(entry->d_name) > 0 && has_socket(entry->d_name, wanted)) {
            describe(entry->d_name, text, capacity);
            break;
        }
    if (proc)
        closedir(proc);
}
