/* env.c - `cspeed env`: lists the environment variables that a job would send to its ranks, and their origins. */
#include "ground/codes.h"
#include "ground/command.h"
#include "plan/env.h"
#include "show/quote.h"

#include <stdio.h>

static void print_row(const cl_env_entry *entry)
{
    printf("%-24s ", entry->origin);
    printf("%s=", entry->name);
    if (cl_env_is_secret(entry->name))
        fputs(CL_ENV_MASKED, stdout);
    else
        cl_quote(stdout, entry->value);
    putchar('\n');
}

static int print_all(const cl_options *options, char **arguments)
{
    cl_env env;
    if (*arguments)
        return cl_codes_fail(CL_CODE_USAGE, "env takes no arguments, not %s; launch flags stand before env",
                             *arguments);
    int code = cl_env_collect(&env, options);
    if (code)
        return code;
    if (env.count == 0)
        printf("no variable is sent; `cspeed env --help` says which variables can be\n");
    for (int i = 0; i < env.count; i++)
        print_row(&env.list[i]);
    cl_env_free(&env);
    return 0;
}

const cl_command cl_command_env = {
    .name = "env",
    .group = "Prepare",
    .summary = "show the environment variables that are sent to every node",
    .usage = "cspeed [LAUNCH FLAGS] env",
    .text = "Prints each variable that is sent to the nodes, and its origin. There are four sources; a later one\n"
            "overrides an earlier one:\n"
            "\n"
            "  1. variables of the current environment that begin with NCCL, UCX, MLFLOW,\n"
            "     PYTHON, MV2, CSPEED, OMP_, GLOO, FI_ or CUDA_, except CUDA_VISIBLE_DEVICES\n"
            "     and secrets\n"
            "  2. the files ~/.deepspeed_env, ~/.cspeed_env, ./.deepspeed_env, ./.cspeed_env;\n"
            "     CSPEED_ENV_FILE or DS_ENV_FILE gives these files another name\n"
            "  3. the files of --env_file\n"
            "  4. the variables of --env\n"
            "\n"
            "env.NAME=VALUE in a host's line of the hostfile overrides all of them on that host. Secrets (names\n"
            "that contain KEY, TOKEN, SECRET, PASSWORD, PASSWD or CREDENTIAL) are sent only if a file or --env\n"
            "names them, and their values are never printed.\n",
    .example = "cspeed --env 'HF_*' --env_file job.env env",
    .run = print_all,
};
