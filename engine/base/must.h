/* must.h - fatal errors and assertions: the process ends, and the launcher then ends the other ranks. */
#ifndef CE_BASE_MUST_H
#define CE_BASE_MUST_H

#include "cspeed/cspeed.h"

/* Prints this rank's number and the message and ends the process with cs_exit_code(status). */
__attribute__((noreturn, format(printf, 2, 3))) void ce_fatal(cs_status status, const char *format, ...);

/* Returns zeroed memory, which the caller frees with free(). If there is not enough memory, the process ends, because a
 * rank that returned early would leave the other ranks waiting in a collective. */
void *ce_must_alloc(size_t bytes);

__attribute__((noreturn)) void ce_assert_failed(const char *condition, const char *file, int line);

/* An assertion that release builds check too. It is too slow for an inner loop. */
#define CE_ASSERT(condition)                                                                                           \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            ce_assert_failed(#condition, __FILE__, __LINE__);                                                          \
    } while (0)

#endif
