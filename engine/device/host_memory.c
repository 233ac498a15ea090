/* host_memory.c - how much host memory this process can still allocate.
 *
 * The result is the smaller of two numbers. One is the kernel's estimate (MemAvailable: free memory and memory that the
 * kernel can reclaim), plus free swap for memory that is not pinned. The other is what the control groups of this
 * process leave to it (base/cgroup.h). */
#include "base/cgroup.h"
#include "device/device.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the number after `name` in /proc/meminfo, in bytes; 0 if there is no such line. */
static size_t read_meminfo(const char *root, const char *name)
{
    char path[PATH_MAX], line[256];
    size_t length = strlen(name), kilobytes = 0;
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    FILE *from = fopen(path, "re");
    while (from && kilobytes == 0 && fgets(line, sizeof line, from))
        if (strncmp(line, name, length) == 0)
            kilobytes = strtoull(line + length, NULL, 10);
    if (from)
        fclose(from);
    return kilobytes << 10;
}

size_t ce_host_free_bytes(const char *root, bool pinned)
{
    size_t available = read_meminfo(root, "MemAvailable:");
    if (available == 0)
        return 0;
    if (!pinned)
        available += read_meminfo(root, "SwapFree:");
    double left = ce_cgroup_free_bytes(root);
    if (!(left < (double)available)) /* also if it is not a number */
        return available;
    return left < 1 ? 1 : (size_t)left;
}
