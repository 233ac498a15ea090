/* main.c - the cspeed command: launch flags, then a command of its own or a program to start on ranks. */
#include "codes.h"
#include "options.h"
#include "run.h"

#include "base/status.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int help(char **arguments);
static int version(char **arguments);

static const struct {
    const char *name;
    int (*run)(char **arguments);
    const char *summary;
} commands[] = {
    { "help", help, "this text" },
    { "version", version, "the version" },
};

enum { COMMAND_COUNT = (int)(sizeof commands / sizeof *commands) };

static const char usage[] = "usage: cspeed [LAUNCH FLAGS] PROGRAM [ARGUMENTS]\n"
                            "       cspeed COMMAND\n";

static const char introduction[] =
    "\nStarts PROGRAM once for each rank on this machine, pinned to cores of its own, and ends them together.\n"
    "PROGRAM is a path if it has a '/', else a program beside cspeed (train), else one in PATH. Its arguments\n"
    "go to it as they are. The variables it gets are listed in ds_env.example.\n"
    "\nOutput: stdout to stdout, stderr to stderr, in whole lines. Lines of rank 0 stand as they are, those of\n"
    "rank 1 begin with \"1| \", and so on; a '\\' ends a line that was too long or had to be broken. A line that\n"
    "redraws itself does so on a terminal; elsewhere its last state of each second is printed.\n"
    "\nThe first rank that fails ends all: stop signal, grace, SIGKILL. A rank that exits with 0 early does not.\n"
    "Exit code: 0 when all ranks exit with 0; that of the first rank that failed, 128+N for signal N; 130, 143,\n"
    "129 after Ctrl-C, SIGTERM, SIGHUP (a second Ctrl-C kills at once); 124 after --timeout; 64 a wrong command\n"
    "line; 69 too few cores, or the port is taken; 71 the system refused; 73 no log files; 126 PROGRAM cannot be\n"
    "executed; 127 not found.\n"
    "\nCommands:\n";

static int help(char **arguments)
{
    (void)arguments;
    printf("%s%s", usage, introduction);
    for (int i = 0; i < COMMAND_COUNT; i++)
        printf("  %-10s %s\n", commands[i].name, commands[i].summary);
    printf("\nLaunch flags, before PROGRAM (--foo-bar is --foo_bar, --x=v is --x v; `--` ends them):\n");
    cs_options_help();
    return 0;
}

static int version(char **arguments)
{
    (void)arguments;
    printf("cspeed %s\n", CS_VERSION);
    return 0;
}

static int obey(char **argv)
{
    cs_options options;
    int        code = cs_options_read(&options, argv);
    if (code)
        return code;
    if (options.help || options.version)
        return options.help ? help(argv) : version(argv);
    if (!options.program[0]) {
        fputs(usage, stderr);
        return cs_codes_fail(CS_CODE_USAGE, "no PROGRAM is named; `cspeed --help` tells more");
    }
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(options.program[0], commands[i].name) == 0)
            return commands[i].run(options.program + 1);
    return cs_run(&options);
}

int main(int argument_count, char **argv)
{
    (void)argument_count;
    for (int fd = 0; fd < 3; fd++) /* a closed one would be given to the first file we open */
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            return CS_CODE_SYSTEM;
    int code = obey(argv);
    if (*cs_error())
        fprintf(stderr, "cspeed: %s\n", cs_error());
    return code;
}
