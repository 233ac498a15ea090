/* written.c - a configuration from text, as if a file held it. */
#include "written.h"

#include "base/status.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

cs_config *written_config(const char *text)
{
    char        path[512];
    const char *folder = getenv("TMPDIR");
    cs_config  *config;
    snprintf(path, sizeof path, "%s/%s.XXXXXX", folder ? folder : "/tmp", program_invocation_short_name);
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, text, strlen(text)), (ssize_t)strlen(text));
    close(file);
    cs_status status = cs_config_open(&config, path);
    unlink(path);
    ck_assert_msg(status == CS_OK, "%s", cs_error());
    return config;
}
