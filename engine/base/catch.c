/* catch.c - fatal errors and lines of output that the calling program takes. */
#include "base/catch.h"
#include "base/misuse.h"
#include "base/status.h"

#include <setjmp.h>

static struct {
    cs_fatal_hook *call;
    void *argument;
} on_fatal;

static struct {
    cs_log_hook *call;
    void *argument;
} on_log;

static _Thread_local jmp_buf *catcher; /* of the innermost ce_catch of this thread */
static _Thread_local cs_status caught;

void cs_on_fatal(cs_fatal_hook *hook, void *argument)
{
    on_fatal.call = hook;
    on_fatal.argument = argument;
}

void cs_on_log(cs_log_hook *hook, void *argument)
{
    on_log.call = hook;
    on_log.argument = argument;
}

cs_status ce_catch(void (*run)(void *argument), void *argument)
{
    jmp_buf here, *before = catcher;
    caught = CS_OK;
    if (setjmp(here) == 0) {
        catcher = &here;
        run(argument);
    }
    catcher = before;
    ce_misuse_enter(NULL, NULL);
    return caught;
}

void ce_catch_fatal(cs_status status, const char *sentence)
{
    if (catcher) {
        caught = ce_fail(status, "%s", sentence);
        longjmp(*catcher, 1);
    }
    if (on_fatal.call)
        on_fatal.call(status, sentence, on_fatal.argument);
}

bool ce_catch_line(cs_log_level level, const char *line)
{
    if (on_log.call)
        on_log.call(level, line, on_log.argument);
    return on_log.call;
}
