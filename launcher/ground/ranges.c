/* ranges.c - writes a set of ranks as ranges, and reads one range of a list. */
#include "ground/ranges.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

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

bool cl_ranges_read(const char **text, long *from, long *to)
{
    char *end;
    if (!isdigit((unsigned char)**text))
        return false;
    *from = *to = strtol(*text, &end, 10);
    if (*end == '-' && isdigit((unsigned char)end[1]))
        *to = strtol(end + 1, &end, 10);
    *text = end;
    return true;
}
