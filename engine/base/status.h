/* status.h - error handling for code that may fail: a status code and an error message that says what to do.
 *
 * The line that detects the error writes the message: `return ce_fail(CS_BAD_CONFIG, "stage: 0 to 3, not %d", n)`.
 * Callers pass the status on with CE_TRY(call). Each thread stores its last message, which cs_error() returns. */
#ifndef CE_BASE_STATUS_H
#define CE_BASE_STATUS_H

#include "cspeed/cspeed.h"

/* Stores the message for cs_error() and returns `status`. */
cs_status ce_fail(cs_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Makes cs_error() the empty string. A caller that has handled a failure itself calls this function, so that the
 * failure's message is not reported again as the cause of a later failure. */
void ce_clear_error(void);

/* Does the same as ce_fail, and appends ": " and the meaning of `error_number`, an errno value, to the message. */
cs_status ce_fail_errno(cs_status status, int error_number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns the meaning of an errno value, as strerror gives it. For EMFILE (too many open files) the text also says what
 * to do. The text is valid until the calling thread's next call. */
const char *ce_reason(int error_number);

#define CE_TRY(call)                                                                                                   \
    do {                                                                                                               \
        cs_status try_status_ = (call);                                                                                \
        if (try_status_ != CS_OK)                                                                                      \
            return try_status_;                                                                                        \
    } while (0)

#endif
