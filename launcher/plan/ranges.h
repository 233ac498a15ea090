/* ranges.h - a set of ranks as people write it: "0,4-7". */
#ifndef CS_LAUNCHER_RANGES_H
#define CS_LAUNCHER_RANGES_H

#include <stdbool.h>

enum { CS_RANGES_BYTES = 128 };

/* set[i] tells whether i is in it. A list too long for its room ends in ",...". */
void cs_ranges_print(const bool *set, int count, char text[CS_RANGES_BYTES]);

#endif
