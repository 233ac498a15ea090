/* ranges.h - writes and reads ranges of numbers: "0,4-7". */
#ifndef CL_RANGES_H
#define CL_RANGES_H

#include <stdbool.h>

enum { CL_RANGES_BYTES = 128 };

/* Writes the set of those numbers i for which set[i] is true. If the list does not fit into `text`, `text` ends in
 * ",...". */
void cl_ranges_print(const bool *set, int count, char text[CL_RANGES_BYTES]);

/* Reads "4" or "4-7" at *text, and sets *text to the first byte after the text that was read. For "4", *to is equal to
 * *from. Returns false if no number begins at *text. The caller checks that *from is not above *to, and checks the text
 * that follows. */
bool cl_ranges_read(const char **text, long *from, long *to);

#endif
