/* shell.c - helpers for tests that run the programs as a user does. */
#include "shell.h"

#include "suite.h"

#include "base/clock.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[4096], before[4096];

void shell_enter(void)
{
    const char *parent = getenv("TMPDIR");
    ck_assert_ptr_nonnull(getcwd(before, sizeof before));
    snprintf(folder, sizeof folder, "%s/cspeed-test-XXXXXX", parent ? parent : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
}

void shell_leave(void)
{
    char command[4200];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    ck_assert_int_eq(chdir(before), 0);
    ck_assert_int_eq(system(command), 0);
}

void shell_write(const char *path, const char *content)
{
    FILE *file = fopen(path, "wb");
    ck_assert_msg(file != NULL, "cannot write %s", path);
    ck_assert_uint_eq(fwrite(content, 1, strlen(content), file), strlen(content));
    ck_assert_int_eq(fclose(file), 0);
}

void shell_write_below(const char *root, const char *file, const char *content)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", root, file);
    ck_assert_int_eq(shell_run("mkdir -p \"$(dirname %s)\"", path), 0);
    shell_write(path, content);
}

char *shell_read(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    ck_assert_msg(file != NULL, "there is no %s", path);
    ck_assert_int_eq(fseek(file, 0, SEEK_END), 0);
    size_t length = (size_t)ftell(file);
    rewind(file);
    char *content = malloc(length + 1);
    ck_assert_ptr_nonnull(content);
    ck_assert_uint_eq(fread(content, 1, length, file), length);
    content[length] = 0;
    fclose(file);
    if (bytes)
        *bytes = length;
    return content;
}

void shell_flip(const char *path, long offset)
{
    FILE *file = fopen(path, "r+b");
    ck_assert_msg(file != NULL, "no %s", path);
    fseek(file, offset, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, offset, SEEK_SET);
    fputc(byte ^ 0x10, file);
    fclose(file);
}

static pid_t start(const char *command)
{
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGTERM); /* if the test fails, the command ends too */
        if (!freopen("out.txt", "w", stdout) || dup2(STDOUT_FILENO, STDERR_FILENO) < 0)
            _exit(99);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return child;
}

int shell_wait(pid_t child)
{
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void shell_expect(int code, const char *words, const char *arguments)
{
    int got = shell_run("%s/cspeed %s", CS_BIN, arguments);
    char *text = shell_read("out.txt", NULL);
    ck_assert_msg(got == code, "cspeed %s: exit code %d, not %d:\n%s", arguments, got, code, text);
    ck_assert_msg(strstr(text, words) != NULL, "cspeed %s: \"%s\" is not in\n%s", arguments, words, text);
    free(text);
}

void shell_ended(int code, int got, const char *words)
{
    char *out = shell_read("out.txt", NULL);
    ck_assert_msg(code == got && strstr(out, words), "exit code %d, not %d, or not said: %s\n%s", got, code, words,
                  out);
    free(out);
}

bool shell_says(const char *words)
{
    char *out = shell_read("out.txt", NULL);
    bool found = strstr(out, words) != NULL;
    free(out);
    return found;
}

int shell_count_of(const char *text, const char *part)
{
    int count = 0;
    for (; (text = strstr(text, part)); text += strlen(part))
        count++;
    return count;
}

pid_t shell_start(const char *format, ...)
{
    char command[8192] = "exec ";
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command + 5, sizeof command - 5, format, arguments);
    va_end(arguments);
    return start(command);
}

int shell_run(const char *format, ...)
{
    char command[8192];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    return shell_wait(start(command));
}

static int mentions(const char *pid, const char *file, const char *word)
{
    static char content[1 << 17];
    char path[300];
    snprintf(path, sizeof path, "/proc/%s/%s", pid, file);
    FILE *in = fopen(path, "rb");
    if (!in)
        return 0;
    size_t bytes = fread(content, 1, sizeof content, in);
    fclose(in);
    return memmem(content, bytes, word, strlen(word)) != NULL;
}

int shell_left(const char *word)
{
    DIR *proc = opendir("/proc");
    int found = 0;
    ck_assert_ptr_nonnull(proc);
    for (struct dirent *entry; (entry = readdir(proc));)
        if (atoi(entry->d_name) > 0 && atoi(entry->d_name) != getpid())
            found += mentions(entry->d_name, "environ", word) || mentions(entry->d_name, "cmdline", word);
    closedir(proc);
    return found;
}

static pid_t find(const char *word, const char *other, const char *name)
{
    DIR *proc = opendir("/proc");
    pid_t found = 0;
    char line[64];
    ck_assert_ptr_nonnull(proc);
    snprintf(line, sizeof line, "%s\n", name);
    for (struct dirent *entry; (entry = readdir(proc)) && !found;)
        if (atoi(entry->d_name) > 0 && mentions(entry->d_name, "environ", word) &&
            mentions(entry->d_name, "environ", other) && mentions(entry->d_name, "comm", line))
            found = atoi(entry->d_name);
    closedir(proc);
    return found;
}

pid_t shell_find(const char *word, const char *name)
{
    return find(word, word, name);
}

pid_t shell_find_rank(const char *word, int local_rank, const char *name)
{
    char rank[32];
    snprintf(rank, sizeof rank, "LOCAL_RANK=%d", local_rank);
    return find(word, rank, name);
}

void shell_await_left(const char *word, int count)
{
    for (double until = ce_clock_seconds() + SUITE_PATIENCE; shell_left(word) != count; usleep(20000))
        ck_assert_msg(ce_clock_seconds() < until, "%d processes with %s, not %d", shell_left(word), word, count);
}

void shell_await(const char *format, ...)
{
    char command[1024] = "exec 2>/dev/null; ";
    size_t used = strlen(command);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command + used, sizeof command - used, format, arguments);
    va_end(arguments);
    for (double until = ce_clock_seconds() + SUITE_PATIENCE; system(command) != 0; usleep(20000))
        ck_assert_msg(ce_clock_seconds() < until, "waited in vain for: %s\n%.2500s", command,
                      access("out.txt", F_OK) == 0 ? shell_read("out.txt", NULL) : "");
}
