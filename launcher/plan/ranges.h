/* ranges.h - a set of ranks as people write it: "0,4-7". */
#ifndef CL_RANGES_H
#define CL_RANGES_H

#include <stdbool.h>

enum { CL_RANGES_BYTES = 128 };

/* set[i] tells whether i is in it. A list too long for its room ends in ",...". */
void cl_ranges_print(const bool *set, int count, char text[CL_RANGES_BYTES]);

#endif
