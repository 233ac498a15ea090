/* cgroup.c - reads the limits, the memory in use and the out-of-memory counters of control groups (cgroups), version 2
 * and version 1.
 *
 * /proc/self/cgroup has a line "0::/PATH" for version 2, and lines "N:CONTROLLER,...:/PATH" for version 1. If this
 * path does not exist in the mount of a container, the root of the mount is the container's own group. */
#include "base/cgroup.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);
    for (const char *place = list; (place = strstr(place, word)); place += length)
        if ((place == list || place[-1] == ',') && (place[length] == ',' || place[length] == '\0'))
            return true;
    return false;
}

/* Finds the cgroup of this process for a controller. The controller "" means version 2, which has one hierarchy for all
 * controllers. */
static bool group_path(const char *root, const char *controller, char path[PATH_MAX])
{
    char line[PATH_MAX + 64];
    snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
    FILE *file = fopen(line, "re");
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *list = strchr(line, ':');
        char *group = list ? strchr(list + 1, ':') : NULL;
        if (!group)
            continue;
        *group = '\0';
        found = *controller ? has_word(list + 1, controller) : list[1] == '\0';
        if (found)
            snprintf(path, PATH_MAX, "%s", group + 1);
    }
    if (file)
        fclose(file);
    return found;
}

static FILE *open_in(const char *root, const char *mount, const char *group, const char *name)
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s/%s", root, mount, strcmp(group, "/") == 0 ? "" : group, name);
    return fopen(path, "re");
}

/* Reads two numbers from the beginning of a file. The text "max" is read as infinity. */
static int read_numbers(FILE *file, double numbers[2])
{
    char words[2][32] = { "", "" };
    int count = file ? fscanf(file, "%31s %31s", words[0], words[1]) : 0;
    for (int i = 0; i < count; i++)
        numbers[i] = strcmp(words[i], "max") == 0 ? INFINITY : strtod(words[i], NULL);
    if (file)
        fclose(file);
    return count;
}

static double quota_of_2(const char *root, const char *group)
{
    double numbers[2];
    if (read_numbers(open_in(root, "", group, "cpu.max"), numbers) == 2 && numbers[1] > 0)
        return numbers[0] / numbers[1];
    return INFINITY;
}

static double quota_of_1(const char *root, const char *group)
{
    double quota[2], period[2];
    if (read_numbers(open_in(root, "/cpu", group, "cpu.cfs_quota_us"), quota) == 1 && quota[0] > 0 &&
        read_numbers(open_in(root, "/cpu", group, "cpu.cfs_period_us"), period) == 1 && period[0] > 0)
        return quota[0] / period[0];
    return INFINITY;
}

static double memory_of_2(const char *root, const char *group)
{
    double bytes[2];
    return read_numbers(open_in(root, "", group, "memory.max"), bytes) == 1 ? bytes[0] : NAN;
}

/* Version 1 has a number that is larger than any memory if there is no limit. */
static double memory_of_1(const char *root, const char *group)
{
    double bytes[2];
    if (read_numbers(open_in(root, "/memory", group, "memory.limit_in_bytes"), bytes) != 1)
        return NAN;
    return bytes[0] < 1e18 ? bytes[0] : INFINITY;
}

/* Returns the sum of the numbers after one or two names in a file of lines "NAME NUMBER"; -1 if the file has neither
 * name. `second` may be NULL. */
static int64_t counter(FILE *file, const char *first, const char *second)
{
    char word[64];
    int64_t value, sum = -1;
    while (file && fscanf(file, "%63s %ld", word, &value) == 2)
        if (strcmp(word, first) == 0 || (second && strcmp(word, second) == 0))
            sum = (sum < 0 ? 0 : sum) + value;
    if (file)
        fclose(file);
    return sum;
}

/* Returns the limit minus the memory that the group uses; the limit itself if it is not a finite number, or if the
 * memory in use cannot be read. Cached file pages count as free, because the kernel reclaims these pages before it
 * refuses memory. `names` are the file of the memory in use, and the two numbers of cached pages in memory.stat. */
static double limit_minus_used(double limit, const char *root, const char *mount, const char *group,
                               const char *const names[3])
{
    double used[2];
    if (!isfinite(limit) || read_numbers(open_in(root, mount, group, names[0]), used) != 1)
        return limit;
    int64_t cached = counter(open_in(root, mount, group, "memory.stat"), names[1], names[2]);
    return fmax(0, limit - fmax(0, used[0] - fmax(0, (double)cached)));
}

static double free_of_2(const char *root, const char *group)
{
    static const char *const names[] = { "memory.current", "active_file", "inactive_file" };
    return limit_minus_used(memory_of_2(root, group), root, "", group, names);
}

/* The names that begin with "total_" include the groups below, as the memory in use does. */
static double free_of_1(const char *root, const char *group)
{
    static const char *const names[] = { "memory.usage_in_bytes", "total_active_file", "total_inactive_file" };
    return limit_minus_used(memory_of_1(root, group), root, "/memory", group, names);
}

/* Returns the smallest value of this process's group for the controller and of the groups above it, up to the root of
 * the mount. A value that is not a number is ignored; if there is no other, the result is not a number either. */
static double smallest(const char *root, const char *controller, double (*value_of)(const char *, const char *))
{
    char group[PATH_MAX];
    double min = value_of(root, "/");
    if (!group_path(root, controller, group))
        return min;
    for (char *end; (end = strrchr(group, '/')); *end = '\0')
        min = fmin(min, value_of(root, group));
    return min;
}

double ce_cgroup_cpu_quota(void)
{
    return fmin(smallest("", "", quota_of_2), smallest("", "cpu", quota_of_1));
}

double ce_cgroup_memory_limit(const char *root)
{
    return fmin(smallest(root, "", memory_of_2), smallest(root, "memory", memory_of_1));
}

double ce_cgroup_free_bytes(const char *root)
{
    return fmin(smallest(root, "", free_of_2), smallest(root, "memory", free_of_1));
}

int64_t ce_cgroup_oom_kills(void)
{
    char group[PATH_MAX];
    int64_t kills = -1;
    if (group_path("", "", group))
        kills = counter(open_in("", "", group, "memory.events"), "oom_kill", NULL);
    if (kills < 0 && group_path("", "memory", group))
        kills = counter(open_in("", "/memory", group, "memory.oom_control"), "oom_kill", NULL);
    if (kills < 0)
        kills = counter(fopen("/proc/vmstat", "re"), "oom_kill", NULL);
    return kills;
}
