/* env.c - `cspeed env`: lists the environment variables that a job would send to its ranks, and their origins. */
#include "codes.h"
#include "command.h"
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
        printf("nothing is sent; `cspeed env --help` tells what could be\n");
    for (int i = 0; i < env.count; i++)
        print_row(&env.list[i]);
    cl_env_free(&env);
    return 0;
}

const cl_command cl_command_env = {
    .name = "env",
    .group = "Prepare",
    .summary = "the environment that is sent to every node, and from where",
    .usage = "cspeed [LAUNCH FLAGS] env",
    .text = "Later wins: variables of the caller that begin with NCCL UCX MLFLOW PYTHON MV2 CSPEED OMP_ GLOO FI_\n"
            "CUDA_ (not CUDA_VISIBLE_DEVICES, no secrets); ~/.deepspeed_env, ~/.cspeed_env, ./.deepspeed_env,\n"
            "./.cspeed_env, or the name in CSPEED_ENV_FILE or DS_ENV_FILE; each --env_file; each --env. What a\n"
            "host's line in the hostfile says by env.NAME=VALUE beats all on that host. Secrets (KEY, TOKEN,\n"
            "SECRET, PASSWORD and their like in the name) go only when a file or --env names them, and are\n"
            "never printed.\n",
    .example = "cspeed --env 'HF_*' --env_file job.env env",
    .run = print_all,
};
