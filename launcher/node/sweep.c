/* sweep.c - every process below this one. */
#include "node/sweep.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    pid_t pid, parent;
    bool  zombie, ours, spared;
} process;

typedef struct {
    process *list;
    int      count, capacity;
} table;

/* "PID (NAME) STATE PARENT ..."; NAME may hold anything, so the last ')' ends it. */
static bool read_process(const char *pid, process *found)
{
    char    path[64], text[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE   *file   = fopen(path, "re");
    size_t  length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    text[length]     = '\0';
    const char *name = strrchr(text, ')');
    char        state;
    if (!name || sscanf(name + 1, " %c %d", &state, &found->parent) != 2)
        return false;
    found->pid    = atoi(pid);
    found->zombie = state == 'Z' || state == 'X';
    found->ours   = found->parent == getpid();
    return true;
}

static void read_table(table *all)
{
    DIR *folder = opendir("/proc");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        process found;
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || !read_process(entry->d_name, &found))
            continue;
        if (all->count == all->capacity) {
            int      capacity = all->capacity ? 2 * all->capacity : 512;
            process *larger   = realloc(all->list, (size_t)capacity * sizeof *larger);
            if (!larger)
                break;
            all->list     = larger;
            all->capacity = capacity;
        }
        all->list[all->count++] = found;
    }
    if (folder)
        closedir(folder);
}

static const process *find(const table *all, pid_t pid)
{
    for (int i = 0; i < all->count; i++)
        if (all->list[i].pid == pid)
            return &all->list[i];
    return NULL;
}

static bool is_spared(const cs_spared *spared, pid_t pid)
{
    for (int i = 0; spared && i < spared->count; i++)
        if (spared->list[i] == pid)
            return true;
    return false;
}

/* A child of ours is ours, and one of a spared is spared, until nothing changes. */
static void mark_descendants(table *all, const cs_spared *spared)
{
    for (int i = 0; i < all->count; i++)
        all->list[i].spared = is_spared(spared, all->list[i].pid);
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < all->count; i++) {
            process       *here   = &all->list[i];
            const process *parent = find(all, here->parent);
            if (parent && parent->ours && !here->ours)
                changed = here->ours = true;
            if (parent && parent->spared && !here->spared)
                changed = here->spared = true;
        }
    }
}

int cs_sweep_signal(int number, const cs_spared *spared, pid_t *pids, int most)
{
    table all   = { 0 };
    int   count = 0;
    read_table(&all);
    mark_descendants(&all, spared);
    for (int i = 0; i < all.count; i++) {
        const process *here = &all.list[i];
        if (!here->ours || here->zombie || here->spared)
            continue;
        if (number)
            kill(here->pid, number);
        if (pids && count < most)
            pids[count] = here->pid;
        count++;
    }
    free(all.list);
    return count;
}

int cs_sweep_kill(double seconds, const cs_spared *spared)
{
    const struct timespec pause = { 0, 5000000 };
    int                   left  = 0;
    for (double waited = 0; waited < seconds; waited += 0.005) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        left = cs_sweep_signal(SIGKILL, spared, NULL, 0);
        if (left == 0)
            return 0;
        nanosleep(&pause, NULL);
    }
    return left;
}
