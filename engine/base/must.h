/* must.h - fatal errors and assertions: the process ends, and the launcher then ends the other ranks. */
#ifndef CE_BASE_MUST_H
#define CE_BASE_MUST_H

#include "cspeed/cspeed.h"

#include <stdio.h>

/* Prints this rank's number and the message and ends the process with cs_exit_code(status). */
__attribute__((noreturn, format(printf, 2, 3))) void ce_fatal(cs_status status, const char *format, ...);

/* These functions return memory that the caller frees with free(). If there is not enough memory, the process ends,
 * because a rank that returned early would leave the other ranks waiting in a collective. */
void *ce_must_alloc(size_t bytes); /* zeroed */
void *ce_must_resize(void *memory, size_t bytes);
char *ce_must_copy(const char *text);
char *ce_must_copy_part(const char *text, size_t size); /* at most `size` bytes of the text */
char *ce_must_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ce_must_stream opens a stream whose text is in *text, *length bytes, after ce_must_finish has closed it. The caller
 * frees *text. `length` may be NULL. */
FILE *ce_must_stream(char **text, size_t *length);
void ce_must_finish(FILE *stream);

/* At the end of its scope, free() is called for a local variable that is declared with CE_FREED, and function(&variable)
 * for one that is declared with CE_CLOSED(function). */
#define CE_FREED CE_CLOSED(ce_must_free)
#define CE_CLOSED(function) __attribute__((cleanup(function)))
void ce_must_free(void *variable);

/* Makes `list`, which has room for `capacity` elements, longer if it is too short for `wanted` elements. */
#define CE_MUST_HOLD(list, capacity, wanted)                                                                           \
    do {                                                                                                               \
        if ((capacity) < (wanted)) {                                                                                   \
            (capacity) = 2 * (wanted) + 16;                                                                            \
            (list) = ce_must_resize((list), (size_t)(capacity) * sizeof *(list));                                      \
        }                                                                                                              \
    } while (0)

__attribute__((noreturn)) void ce_assert_failed(const char *condition, const char *file, int line);

/* An assertion that release builds check too. It is too slow for an inner loop. */
#define CE_ASSERT(condition)                                                                                           \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            ce_assert_failed(#condition, __FILE__, __LINE__);                                                          \
    } while (0)

#endif
