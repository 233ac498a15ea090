/* ranges.h - Prints a set of ranks as ranges: "0,4-7". */
#ifndef CL_RANGES_H
#define CL_RANGES_H

#include <stdbool.h>

enum { CL_RANGES_BYTES = 128 };

/* set[i] is true if i is in the set. A list that does not fit into `text` ends in ",...". */
void cl_ranges_print(const bool *set, int count, char text[CL_RANGES_BYTES]);

#endif
