/* status.c - error messages of each thread, exit codes, and the end of the process after fatal errors. */
#include "base/catch.h"
#include "base/faults.h"
#include "base/status.h"
#include "base/must.h"
#include "base/beat.h"
#include "base/log.h"
#include "base/progress.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { ERROR_BYTES = 16384 };

static _Thread_local char last_error[ERROR_BYTES];

cs_status ce_fail(cs_status status, const char *format, ...)
{
    /* The message is built in a separate buffer, because the arguments may contain the text of cs_error(). */
    char sentence[ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    ce_faults_make_printable(sentence, "\n\t");
    memcpy(last_error, sentence, strlen(sentence) + 1);
    return status;
}

void ce_clear_error(void)
{
    last_error[0] = '\0';
}

cs_status ce_fail_errno(cs_status status, int error_number, const char *format, ...)
{
    char sentence[ERROR_BYTES / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return ce_fail(status, "%s: %s", sentence, ce_reason(error_number));
}

const char *ce_reason(int error_number)
{
    static _Thread_local char text[96];
    struct rlimit limit;
    if (error_number != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return strerror(error_number);
    snprintf(text, sizeof text, "too many open files: raise ulimit -n (now %llu)", (unsigned long long)limit.rlim_cur);
    return text;
}

const char *cs_error(void)
{
    return last_error;
}

int cs_exit_code(cs_status status)
{
    switch (status) {
    case CS_OK:
        return 0;
    case CS_BAD_CONFIG:
    case CS_UNSUPPORTED:
        return 78;
    case CS_BAD_FILE:
        return 65;
    case CS_NOT_FOUND:
        return 66;
    case CS_NO_DEVICE:
        return 69;
    case CS_MISUSE:
        return 70;
    case CS_NO_PEER:
        return 75;
    case CS_DISAGREE:
        return 76;
    default:
        return 1;
    }
}

void cs_must(cs_status status, const char *what)
{
    if (status == CS_OK)
        return;
    /* A rank other than 0 waits, because mpirun ends rank 0 when another rank has ended. So rank 0 has time to print
     * its message. */
    if (ce_log_rank() != 0 && status != CS_NO_PEER)
        nanosleep(&(struct timespec){ .tv_nsec = 300 * 1000 * 1000 }, NULL);
    ce_progress_break();
    fflush(stdout); /* without this call lines could change their order if stdout and stderr go to one file */
    fprintf(stderr, "cspeed: %s\n", last_error[0] ? last_error : what);
    if (status == CS_NOT_FINITE)
        ce_beat_give_up();
    exit(cs_exit_code(status));
}

void ce_fatal(cs_status status, const char *format, ...)
{
    char sentence[ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    ce_catch_fatal(status, sentence);
    ce_progress_break();
    fflush(stdout);
    fprintf(stderr, "cspeed: rank %d: %s\n", ce_log_rank(), sentence);
    fflush(NULL);
    _Exit(cs_exit_code(status));
}

static void *must_have(void *memory, size_t bytes)
{
    if (!memory)
        ce_fatal(CS_NO_MEMORY, "out of memory: %zu bytes could not be allocated", bytes);
    return memory;
}

void *ce_must_alloc(size_t bytes)
{
    return must_have(calloc(1, bytes ? bytes : 1), bytes);
}

void *ce_must_resize(void *memory, size_t bytes)
{
    return must_have(realloc(memory, bytes ? bytes : 1), bytes);
}

char *ce_must_copy(const char *text)
{
    return must_have(strdup(text), strlen(text) + 1);
}

char *ce_must_copy_part(const char *text, size_t size)
{
    return must_have(strndup(text, size), size + 1);
}

char *ce_must_print(const char *format, ...)
{
    char *text;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    return must_have(length < 0 ? NULL : text, strlen(format));
}

FILE *ce_must_stream(char **text, size_t *length)
{
    static _Thread_local size_t unused;
    return must_have(open_memstream(text, length ? length : &unused), BUFSIZ);
}

void ce_must_finish(FILE *stream)
{
    must_have(fclose(stream) == 0 ? stream : NULL, BUFSIZ);
}

void ce_must_free(void *variable)
{
    void *memory;
    memcpy(&memory, variable, sizeof memory);
    free(memory);
}

void ce_assert_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "cspeed: rank %d: %s:%d: assertion failed: %s\n", ce_log_rank(), file, line, condition);
    abort();
}
