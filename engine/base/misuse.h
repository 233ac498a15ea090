/* misuse.h - the end of the process after a mistake of the calling program, with a sentence that names the place: the unit
 * whose function runs, whether this is its declare, forward or backward, and the public function that finds the mistake. */
#ifndef CE_BASE_MISUSE_H
#define CE_BASE_MISUSE_H

#include "cspeed/cspeed.h"

/* Says that a function of the unit runs on this thread, for example its "forward". Both are NULL if none does. The texts
 * are not copied. */
void ce_misuse_enter(const char *unit, const char *pass);

/* Prints "unit UNIT, PASS: FUNCTION: " and the message, and ends the process with the exit code of CS_MISUSE. `function`
 * may be NULL. */
__attribute__((noreturn, format(printf, 2, 3))) void ce_misuse(const char *function, const char *format, ...);

/* Ends the process unless none of the pointers is NULL. The sentence has the pointer's name in the source text. */
#define CE_GIVEN(...)                                                                                                  \
    ce_misuse_given(__func__, #__VA_ARGS__, (const void *const[]){ __VA_ARGS__ },                                      \
                    (int)(sizeof(const void *const[]){ __VA_ARGS__ } / sizeof(void *)))
void ce_misuse_given(const char *function, const char *names, const void *const *pointers, int count);

#endif
