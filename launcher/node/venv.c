/* venv.c - runs --venv_script and reads the environment that this script leaves. */
#include "node/agent.h"

#include "ground/codes.h"
#include "ground/descriptors.h"

#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs the script in a shell. *bytes receives the environment that the shell has after the script: entries NAME=VALUE,
 * each followed by NUL, *length bytes in all. The caller frees *bytes, also after an error. */
static int run_script(const char *script, char **bytes, size_t *length)
{
    int pipes[2], status = 0;
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return cl_codes_fail(CL_CODE_SYSTEM, "--venv_script: no pipe can be opened: %s", ce_reason(errno));
    pid_t pid = fork();
    if (pid == 0) {
        dup2(pipes[1], 3);
        cl_descriptors_restore();
        char path[PATH_MAX + 2]; /* sh searches PATH for a script whose name has no slash */
        snprintf(path, sizeof path, "%s%s", strchr(script, '/') ? "" : "./", script);
        execl("/bin/sh", "sh", "-c", ". \"$0\" >&2 && exec env -0 >&3", path, (char *)NULL);
        _exit(CL_CODE_NOT_FOUND);
    }
    close(pipes[1]);
    FILE *in = fdopen(pipes[0], "r"), *out = open_memstream(bytes, length);
    for (int byte; in && out && (byte = getc(in)) != EOF;)
        putc(byte, out);
    if (in)
        fclose(in);
    if (!out || fclose(out) != 0 || pid < 0 || waitpid(pid, &status, 0) != pid)
        return cl_codes_fail(CL_CODE_SYSTEM, "--venv_script: %s could not be run: %s", script, strerror(errno));
    return status == 0
               ? 0
               : cl_codes_fail(CL_CODE_FILE, "--venv_script: %s ended with %d", script, cl_codes_of_status(status));
}

/* Sets the variables in this process. The ranks inherit them, and the variables of the order override them. */
static void set_variables(char *bytes, size_t length)
{
    for (char *entry = bytes; entry < bytes + length; entry += strlen(entry) + 1) {
        char *equals = strchr(entry, '=');
        if (!equals || strncmp(entry, "_=", 2) == 0)
            continue;
        *equals = '\0';
        setenv(entry, equals + 1, 1);
        *equals = '=';
    }
}

int cl_venv_read(cl_order *order)
{
    char *bytes = NULL;
    size_t length = 0;
    if (!*order->venv_script)
        return 0;
    if (access(order->venv_script, R_OK) != 0)
        return cl_codes_fail(CL_CODE_NO_FILE, "%s: --venv_script %s: %s", order->host, order->venv_script,
                             strerror(errno));
    int code = run_script(order->venv_script, &bytes, &length);
    if (code == 0)
        set_variables(bytes, length);
    free(bytes);
    return code;
}
