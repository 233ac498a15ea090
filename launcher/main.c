/* main.c - the cspeed command: parses launch flags, then runs a command of cspeed or starts a program on the ranks. */
#include "node/agent.h"
#include "node/program.h"
#include "ground/codes.h"
#include "ground/command.h"
#include "ground/descriptors.h"
#include "command/run.h"
#include "wire/starter.h"

#include "base/status.h"
#include "cspeed/cspeed.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char introduction[] = "usage: cspeed [LAUNCH FLAGS] PROGRAM [ARGUMENTS]\n"
                                   "       cspeed [LAUNCH FLAGS] COMMAND [ARGUMENTS]\n";

/* Returns true if an argument is --help or -h. For a command with hands_on only the first argument counts, because
 * later ones may belong to another program. */
static bool wants_help(const cl_command *command, char **arguments)
{
    for (int i = 0; arguments[i] && (i == 0 || !command->hands_on); i++)
        if (strcmp(arguments[i], "--help") == 0 || strcmp(arguments[i], "-h") == 0)
            return true;
    return false;
}

static const cl_command *find(const char *name)
{
    for (int i = 0; cl_commands[i]; i++)
        if (strcmp(cl_commands[i]->name, name) == 0)
            return cl_commands[i];
    return NULL;
}

/* Main function of `cspeed __agent`, which a front process started on this host; the link is stdin and stdout. */
static int serve(void *argument, const cl_guard *guard)
{
    (void)argument;
    int in = dup(STDIN_FILENO), out = dup(STDOUT_FILENO), empty = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (in < 0 || out < 0 || empty < 0 || dup2(empty, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
        return CL_CODE_SYSTEM;
    fcntl(in, F_SETFD, FD_CLOEXEC);
    fcntl(out, F_SETFD, FD_CLOEXEC);
    return cl_agent_serve(in, out, NULL, guard);
}

static int be_agent(const cl_options *options, char **arguments)
{
    if (arguments[0])
        return cl_starter_join(options, arguments);
    if (write(STDOUT_FILENO, CL_LINK_MAGIC, sizeof CL_LINK_MAGIC - 1) != sizeof CL_LINK_MAGIC - 1)
        return CL_CODE_SYSTEM;
    return cl_guard_run(serve, NULL);
}

/* Refuses a command of another trainer, such as accelerate. */
static int refuse_word(const char *word)
{
    char *advice = cs_word_advice(word, true);
    int code = advice ? cl_codes_fail(CL_CODE_USAGE, "%s is not a command of cspeed but %s", word, advice) : 0;
    free(advice);
    return code;
}

static int obey(char **argv)
{
    cl_options options;
    int code = cl_options_read(&options, argv);
    if (code)
        return code;
    if (options.help || options.version)
        return find(options.help ? "help" : "version")->run(&options, (char *[]){ NULL });
    if (!options.program[0]) {
        fputs(introduction, stderr);
        return cl_codes_fail(CL_CODE_USAGE, "no PROGRAM is given; see `cspeed --help`");
    }
    if (strcmp(options.program[0], "__agent") == 0)
        return be_agent(&options, options.program + 1);
    const cl_command *command = find(options.program[0]);
    if (!command) {
        code = refuse_word(options.program[0]);
        code = code ? code : cl_program_may_be(options.program[0]);
        return code ? code : cl_run(&options);
    }
    if (!wants_help(command, options.program + 1))
        return command->run(&options, options.program + 1);
    return cl_command_print_help(command);
}

int main(int argument_count, char **argv)
{
    (void)argument_count;
    /* opens /dev/null for each standard descriptor that is closed; otherwise a file that is opened later would get the
     * number of that descriptor */
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) < 0)
            return CL_CODE_SYSTEM;
    cl_descriptors_raise();
    int code = obey(argv);
    fflush(stdout); /* keeps the order of lines if stdout and stderr are the same file */
    if (code && *cs_error())
        fprintf(stderr, "cspeed: %s\n", cs_error());
    return code;
}
