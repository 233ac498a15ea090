/* sweep.c - sends signals to all descendants of this process. */
#include "node/sweep.h"

#include "node/proc.h"

#include "base/clock.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    cl_proc facts;
    bool ours, spared;
} process;

typedef struct {
    process *list;
    int count, capacity;
} table;

static void read_table(table *all)
{
    DIR *folder = opendir("/proc");
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        process found = { .ours = false };
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || !cl_proc_read(atoi(entry->d_name), &found.facts))
            continue;
        found.ours = found.facts.parent == getpid();
        if (all->count == all->capacity) {
            int capacity = all->capacity ? 2 * all->capacity : 512;
            process *larger = realloc(all->list, (size_t)capacity * sizeof *larger);
            if (!larger)
                break;
            all->list = larger;
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
        if (all->list[i].facts.pid == pid)
            return &all->list[i];
    return NULL;
}

static bool is_spared(const cl_spared *spared, pid_t pid)
{
    for (int i = 0; spared && i < spared->count; i++)
        if (spared->list[i] == pid)
            return true;
    return false;
}

/* Marks all descendants of this process as `ours`. Marks the processes that the argument `spared` lists, and their
 * descendants, as `spared`. The loop scans the table until no mark changes, because a child may be in the table before
 * its parent. */
static void mark_descendants(table *all, const cl_spared *spared)
{
    for (int i = 0; i < all->count; i++)
        all->list[i].spared = is_spared(spared, all->list[i].facts.pid);
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < all->count; i++) {
            process *here = &all->list[i];
            const process *parent = find(all, here->facts.parent);
            if (parent && parent->ours && !here->ours)
                changed = here->ours = true;
            if (parent && parent->spared && !here->spared)
                changed = here->spared = true;
        }
    }
}

int cl_sweep_signal(int number, const cl_spared *spared, pid_t *pids, int max)
{
    table all = { 0 };
    int count = 0;
    read_table(&all);
    mark_descendants(&all, spared);
    for (int i = 0; i < all.count; i++) {
        const process *here = &all.list[i];
        if (!here->ours || here->facts.zombie || here->spared)
            continue;
        if (number)
            kill(here->facts.pid, number);
        if (pids && count < max)
            pids[count] = here->facts.pid;
        count++;
    }
    free(all.list);
    return count;
}

bool cl_sweep_await(pid_t pid, double seconds, int *status)
{
    int64_t deadline = ce_clock_now() + ce_clock_span(seconds);
    while (waitpid(pid, status, WNOHANG) == 0) {
        if (ce_clock_now() >= deadline)
            return false;
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    return true;
}

int cl_sweep_kill(double seconds, const cl_spared *spared)
{
    const struct timespec pause = { 0, 5000000 };
    int left = 0;
    for (double waited = 0; waited < seconds; waited += 0.005) {
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
        left = cl_sweep_signal(SIGKILL, spared, NULL, 0);
        if (left == 0)
            return 0;
        nanosleep(&pause, NULL);
    }
    return left;
}
