/* status.h - how control code fails: a code, and a sentence somebody can act on.
 *
 * The failing line writes the sentence, `return cs_fail(CS_BAD_CONFIG, "stage: 0 to 3, not %d", n)`;
 * callers say CS_TRY(call) and add nothing. The last sentence is the one global, a thread its own. */
#ifndef CS_BASE_STATUS_H
#define CS_BASE_STATUS_H

#include "cspeed/cspeed.h"

/* Records the sentence for cs_error() and returns `status`. */
cs_status cs_fail(cs_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Makes cs_error() the empty string. A caller uses it after it has handled a failure itself, so that the sentence is not
 * reported again as the cause of a later one. */
void cs_clear_error(void);

/* cs_fail with ": reason" of `error_number` (an errno value) behind the sentence. */
cs_status cs_fail_errno(cs_status status, int error_number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What an errno value means, as strerror says it; of too many open files, what to do as well. The text is the calling
 * thread's, until its next call. */
const char *cs_reason(int error_number);

#define CS_TRY(call)                                                                                                   \
    do {                                                                                                               \
        cs_status try_status_ = (call);                                                                                \
        if (try_status_ != CS_OK)                                                                                      \
            return try_status_;                                                                                        \
    } while (0)

#endif
