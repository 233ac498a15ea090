/* free_memory.c - how much host memory this process can still allocate.
 *
 * The result is the smallest of several numbers. One is the kernel's estimate (MemAvailable: free memory and memory
 * that the kernel can reclaim) plus free swap. The others are, for each control group (cgroup version 2) of this
 * process, the group's limit minus the memory that the group uses. A group's cached file pages count as free, because
 * the kernel reclaims these pages before it refuses memory. */
#include "device/cpu/cpu.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the number after `name` in a file of lines "NAME NUMBER". If `name` is "", reads the number at the beginning of
 * a line. Returns false if there is no such number. */
static bool read_number(const char *root, const char *folder, const char *file, const char *name, size_t *number)
{
    char path[2 * PATH_MAX], line[256];
    size_t length = strlen(name);
    bool found = false;
    snprintf(path, sizeof path, "%s%s/%s", root, folder, file);
    FILE *from = fopen(path, "re");
    while (from && !found && fgets(line, sizeof line, from))
        found = strncmp(line, name, length) == 0 && sscanf(line + length, "%zu", number) == 1;
    if (from)
        fclose(from);
    return found;
}

/* Reads the path of this process's control group. The path of the root group is "". */
static void read_group(const char *root, char group[PATH_MAX])
{
    char path[PATH_MAX], line[PATH_MAX];
    group[0] = 0;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *from = fopen(path, "re");
    while (from && fgets(line, sizeof line, from))
        if (strncmp(line, "0::/", 4) == 0)
            snprintf(group, PATH_MAX, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    if (from)
        fclose(from);
    if (strcmp(group, "/") == 0)
        group[0] = 0;
}

/* Returns how many bytes a control group leaves to its processes; SIZE_MAX if the group has no limit. */
static size_t left_in(const char *root, const char *group)
{
    char folder[PATH_MAX + 32];
    size_t max, held, active = 0, inactive = 0;
    snprintf(folder, sizeof folder, "/sys/fs/cgroup%s", group);
    if (!read_number(root, folder, "memory.max", "", &max) || !read_number(root, folder, "memory.current", "", &held))
        return SIZE_MAX;
    read_number(root, folder, "memory.stat", "active_file ", &active);
    read_number(root, folder, "memory.stat", "inactive_file ", &inactive);
    held = held > active + inactive ? held - active - inactive : 0;
    return held < max ? max - held : 1;
}

size_t ce_cpu_free_bytes(const char *root)
{
    char group[PATH_MAX];
    size_t available = 0, swap = 0;
    if (!read_number(root, "/proc", "meminfo", "MemAvailable:", &available))
        return 0;
    read_number(root, "/proc", "meminfo", "SwapFree:", &swap);
    size_t free_bytes = (available + swap) << 10;
    for (read_group(root, group);; *strrchr(group, '/') = 0) {
        size_t left = left_in(root, group);
        free_bytes = left < free_bytes ? left : free_bytes;
        if (!strchr(group, '/'))
            return free_bytes;
    }
}
