/* ranges.c - writes a set of ranks as ranges. */
#include "plan/ranges.h"

#include <stdio.h>

enum { LONGEST = 32 }; /* number of bytes for the text ",FROM-TO" and the text ",..." */

void cl_ranges_print(const bool *set, int count, char text[CL_RANGES_BYTES])
{
    int used = 0;
    text[0] = '\0';
    for (int from = 0, to; from < count; from = to + 1) {
        to = from;
        if (!set[from])
            continue;
        while (to + 1 < count && set[to + 1])
            to++;
        if (used > CL_RANGES_BYTES - LONGEST) {
            snprintf(text + used, (size_t)(CL_RANGES_BYTES - used), ",...");
            return;
        }
        used += snprintf(text + used, (size_t)(CL_RANGES_BYTES - used), from == to ? "%s%d" : "%s%d-%d",
                         used ? "," : "", from, to);
    }
}
