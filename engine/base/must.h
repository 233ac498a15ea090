/* must.h - when the program or the machine is wrong, the process ends; the launcher ends the others. */
#ifndef CS_BASE_MUST_H
#define CS_BASE_MUST_H

#include "cspeed/cspeed.h"

/* Prints the sentence with this rank's number and ends the process with cs_exit_code(status). */
__attribute__((noreturn, format(printf, 2, 3))) void cs_fatal(cs_status status, const char *format, ...);

__attribute__((noreturn)) void cs_assert_failed(const char *condition, const char *file, int line);

/* On in release too; not inside inner loops. */
#define CS_ASSERT(condition)                                                                                           \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            cs_assert_failed(#condition, __FILE__, __LINE__);                                                          \
    } while (0)

#endif
