/* plural.h - the ending of a noun behind a number in a message. */
#ifndef CE_BASE_PLURAL_H
#define CE_BASE_PLURAL_H

#include <stdint.h>

/* Returns "" for 1, and "s" for every other count: printf("%d rank%s", count, ce_plural(count)). */
static inline const char *ce_plural(int64_t count)
{
    return count == 1 ? "" : "s";
}

#endif
