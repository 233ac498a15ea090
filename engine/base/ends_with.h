/* ends_with.h - compares the end of a text. */
#ifndef CE_BASE_ENDS_WITH_H
#define CE_BASE_ENDS_WITH_H

#include <stdbool.h>
#include <string.h>

/* Returns true if the last bytes of `text` are `end`. */
static inline bool ce_ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), tail = strlen(end);
    return length >= tail && memcmp(text + length - tail, end, tail) == 0;
}

#endif
