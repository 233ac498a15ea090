/* codes.c - exit codes and the names of signals. */
#include "ground/codes.h"

#include "base/status.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>

static const struct {
    int code, explained;
    const char *meaning;
} meanings[] = {
    { 1, 0, "a failure" },
    { 64, 1, "the command line is wrong" },
    { 65, 1, "a file's content is wrong" },
    { 66, 1, "a named file is missing" },
    { 69, 1, "what it needs is not available" },
    { 70, 1, "the program is wrong: it called cspeed in a way that is not allowed" },
    { 71, 0, "the system refused something" },
    { 73, 0, "a file could not be created" },
    { 74, 0, "input or output failed" },
    { 75, 0, "another rank was lost or never came" },
    { 76, 1, "ranks were given different settings or data" },
    { 78, 1, "the configuration is wrong, or asks for what is not supported" },
    { 126, 0, "a program is not executable" },
    { 127, 0, "a program was not found" },
};

static const struct {
    int number;
    const char *name;
} signals[] = {
    { SIGHUP, "SIGHUP" },   { SIGINT, "SIGINT" },   { SIGQUIT, "SIGQUIT" }, { SIGILL, "SIGILL" },
    { SIGTRAP, "SIGTRAP" }, { SIGABRT, "SIGABRT" }, { SIGBUS, "SIGBUS" },   { SIGFPE, "SIGFPE" },
    { SIGKILL, "SIGKILL" }, { SIGUSR1, "SIGUSR1" }, { SIGSEGV, "SIGSEGV" }, { SIGUSR2, "SIGUSR2" },
    { SIGPIPE, "SIGPIPE" }, { SIGALRM, "SIGALRM" }, { SIGTERM, "SIGTERM" }, { SIGXCPU, "SIGXCPU" },
    { SIGXFSZ, "SIGXFSZ" }, { SIGSYS, "SIGSYS" },
};

enum {
    MEANING_COUNT = (int)(sizeof meanings / sizeof *meanings),
    SIGNAL_COUNT = (int)(sizeof signals / sizeof *signals)
};

int cl_codes_fail(int code, const char *format, ...)
{
    char sentence[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    ce_fail(CS_BAD_CONFIG, "%s", sentence);
    return code;
}

int cl_codes_of_status(int wait_status)
{
    return WIFSIGNALED(wait_status) ? CL_CODE_SIGNAL + WTERMSIG(wait_status) : WEXITSTATUS(wait_status);
}

const char *cl_codes_meaning(int code)
{
    for (int i = 0; i < MEANING_COUNT; i++)
        if (meanings[i].code == code)
            return meanings[i].meaning;
    return "";
}

int cl_codes_explained(int code)
{
    for (int i = 0; i < MEANING_COUNT; i++)
        if (meanings[i].code == code)
            return meanings[i].explained;
    return 0;
}

const char *cl_codes_signal_name(int number)
{
    for (int i = 0; i < SIGNAL_COUNT; i++)
        if (signals[i].number == number)
            return signals[i].name;
    return "a signal";
}

int cl_codes_signal_number(const char *name)
{
    char *end;
    long number = strtol(name, &end, 10);
    if (end != name && *end == '\0')
        return number > 0 && number < NSIG ? (int)number : 0;
    for (int i = 0; i < SIGNAL_COUNT; i++)
        if (strcasecmp(name, signals[i].name) == 0 || strcasecmp(name, signals[i].name + 3) == 0)
            return signals[i].number;
    return 0;
}
