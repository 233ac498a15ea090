/* ranges.h - writes a set of ranks as ranges: "0,4-7". */
#ifndef CL_RANGES_H
#define CL_RANGES_H

#include <stdbool.h>

enum { CL_RANGES_BYTES = 128 };

/* Writes the set of those numbers i for which set[i] is true. If the list does not fit into `text`, it ends in ",...".
 */
void cl_ranges_print(const bool *set, int count, char text[CL_RANGES_BYTES]);

#endif
