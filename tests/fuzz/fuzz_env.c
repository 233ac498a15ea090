/* fuzz_env.c - reads any bytes as an environment file: nothing crashes, and a shell accepts every name that results. */
#include "plan/env.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_once(const uint8_t *data, size_t size, bool expand)
{
    cl_env env = { 0 };
    ce_faults faults = { .count = 0 };
    cl_envfile_read(&env, "fuzz", (const char *)data, size, expand, &faults);
    for (int i = 0; i < env.count; i++) {
        const char *name = env.list[i].name;
        if (!*name || strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name))
            abort();
        if (i && strcmp(env.list[i - 1].name, name) >= 0)
            abort();
    }
    cl_env_free(&env);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_once(data, size, false);
    read_once(data, size, true);
    return 0;
}
