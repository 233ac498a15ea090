/* memory_report.c - memory_breakdown: prints memory use at points of a step, in DeepSpeed's format.
 *
 * MA is the memory that the engine holds; it is allocated at the start, so Max_MA is equal to MA except for the
 * kernels' workspace. CA is the resident set size of the process, and Max_CA is the peak of CA since the last
 * report. */
#include "reporting/reporting.h"
#include "base/say.h"

#include <stdio.h>
#include <string.h>

#define GB (1024.0 * 1024.0 * 1024.0)

/* Finds the line "NAME: SIZE kB" in a file of /proc. Returns the size in bytes, or 0 if there is no such line. */
static double kilobytes_of(const char *path, const char *name)
{
    char line[256];
    long found = 0;
    FILE *file = fopen(path, "r");
    size_t length = strlen(name);
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, length) == 0 && line[length] == ':' && sscanf(line + length + 1, "%ld", &found) == 1)
            break;
    if (file)
        fclose(file);
    return 1024.0 * (double)found;
}

/* Resets the peak of the resident set size (VmHWM), see proc(5). */
static void reset_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file)
        return;
    fputs("5", file);
    fclose(file);
}

double ce_memory_report_held(const cs_engine *engine)
{
    cs_memory m = cs_memory_of(engine);
    return (double)(m.values + m.gradients + m.masters + m.slots - m.offloaded + m.value_rows + m.gradient_rows +
                    m.activations + m.workspace);
}

void ce_memory_report_print(const cs_engine *engine, const char *moment)
{
    if (!engine->settings->memory_breakdown || engine->world.rank != 0)
        return;
    double held = ce_memory_report_held(engine), all = kilobytes_of("/proc/meminfo", "MemTotal"),
           used = all - kilobytes_of("/proc/meminfo", "MemAvailable");
    ce_say("%s", moment);
    ce_say("MA %.2f GB         Max_MA %.2f GB         CA %.2f GB         Max_CA %.2f GB ", held / GB, held / GB,
           kilobytes_of("/proc/self/status", "VmRSS") / GB, kilobytes_of("/proc/self/status", "VmHWM") / GB);
    ce_say("CPU Virtual Memory:  used = %.2f GB, percent = %.1f%%", used / GB, all > 0 ? 100 * used / all : 0);
    reset_peak();
}
