/* ranges.h - writes and reads ranges of numbers: "0,4-7". */
#ifndef CL_RANGES_H
#define CL_RANGES_H

#include <stdbool.h>

enum { CL_RANGES_BYTES = 128 };

/* Writes the set of those numbers i for which set[i] is true. If the list does not fit into `text`, it ends in ",...".
 */
void cl_ranges_print(const bool *set, int count, char text[CL_RANGES_BYTES]);

/* Reads "4" or "4-7" at *text and moves *text behind it. Returns false if there is no number. The caller checks the
 * order of the two numbers and what follows. */
bool cl_ranges_read(const char **text, long *from, long *to);

#endif
