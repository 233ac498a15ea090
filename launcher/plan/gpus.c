/* gpus.c - counts GPUs and finds their NUMA nodes, without CUDA. */
#include "plan/gpus.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Counts the entries of a folder whose names are `prefix` followed by digits. If `prefix` is "", counts all entries
 * whose names do not begin with a dot. */
static int count_entries(const char *path, const char *prefix)
{
    int count = 0;
    size_t length = strlen(prefix);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        const char *rest = entry->d_name + length;
        if (strncmp(entry->d_name, prefix, length) == 0)
            count += length ? *rest && strspn(rest, "0123456789") == strlen(rest) : *rest != '.';
    }
    if (folder)
        closedir(folder);
    return count;
}

/* Counts the devices in CUDA_VISIBLE_DEVICES up to the first invalid entry, as CUDA does: "0,1,-1,2" has two devices.
 */
static int count_visible(const char *list)
{
    int count = 0;
    for (const char *place = list; *place && *place != '-' && *place != ','; count++) {
        place += strcspn(place, ",");
        place += *place == ',';
    }
    return count;
}

int cl_gpus_count(char why[128])
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    int count = count_entries("/dev", "nvidia");
    if (count == 0)
        count = count_entries("/proc/driver/nvidia/gpus", "");
    why[0] = '\0';
    if (count == 0)
        snprintf(why, 128, "there is no NVIDIA driver here (neither /dev/nvidia0 nor /proc/driver/nvidia/gpus)");
    else if (visible && (count = count_visible(visible)) == 0)
        snprintf(why, 128, "CUDA_VISIBLE_DEVICES=\"%.40s\" excludes all of them", visible);
    return count;
}

/* Returns the entry number `index` of a list separated by commas, and its length. */
static const char *entry_of(const char *list, int index, int *length)
{
    for (; index > 0 && *list; index--) {
        list += strcspn(list, ",");
        list += *list == ',';
    }
    *length = (int)strcspn(list, ",");
    return list;
}

void cl_gpus_devices(const int *slots, int count, const char *visible, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < count && used < size; i++) {
        int length = 0;
        const char *entry = visible && *visible ? entry_of(visible, slots[i], &length) : "";
        if (i && slots[i] == slots[i - 1])
            continue; /* a GPU that several ranks share is listed once */
        used += (size_t)(length ? snprintf(text + used, size - used, used ? ",%.*s" : "%.*s", length, entry)
                                : snprintf(text + used, size - used, used ? ",%d" : "%d", slots[i]));
    }
}

/* ---- NUMA nodes ---- */

static int is_entry(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

/* Returns the NUMA node of a PCI device, or -1 if it is unknown. */
static int node_of(const char *bus)
{
    char path[PATH_MAX];
    int node = -1;
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", bus);
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%d", &node) != 1)
        node = -1;
    if (file)
        fclose(file);
    return node;
}

/* Returns the number of the GPU of a slot. Returns -1 if the slot's entry in `visible` (CUDA_VISIBLE_DEVICES) is not a
 * number but, for example, a UUID. */
static int number_of(int slot, const char *visible)
{
    int length;
    if (!visible || !*visible)
        return slot;
    const char *entry = entry_of(visible, slot, &length);
    return length && (int)strspn(entry, "0123456789") == length ? atoi(entry) : -1;
}

bool cl_gpus_nodes(const int *slots, int count, const char *visible, int *nodes)
{
    struct dirent **list;
    int gpus = scandir("/proc/driver/nvidia/gpus", &list, is_entry, alphasort);
    bool known = gpus > 0;
    for (int i = 0; known && i < count; i++) {
        int number = number_of(slots[i], visible);
        nodes[i] = number >= 0 && number < gpus ? node_of(list[number]->d_name) : -1;
        known = nodes[i] >= 0;
    }
    for (int i = 0; i < gpus; i++)
        free(list[i]);
    if (gpus >= 0)
        free(list);
    return known;
}
