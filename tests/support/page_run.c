/* page_run.c - runs the commands of a page of the documents in one shell, and compares their output. */
#include "form.h"
#include "page.h"
#include "shell.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SECONDS = 1800 }; /* the time limit of a page, in seconds */

static void write_step(const char *what, int index, const char *content)
{
    char path[64];
    snprintf(path, sizeof path, "%s.%d", what, index);
    shell_write(path, content);
}

/* Writes the script that runs all commands in one shell, so that `cd`, variables and background jobs last until the end
 * of the page, as they do for a reader. GPUs are hidden, and variables of the caller that concern cspeed are unset. */
static void write_script(const page *it)
{
    FILE *script = fopen("script", "w");
    ck_assert_ptr_nonnull(script);
    fputs("unset COLUMNS ${!CSPEED_*} ${!PET_*} ${!CUDA_*} ${!NCCL*} ${!PYTHON*} ${!SLURM_*}\n", script);
    fprintf(script, "above=$PWD\nexport HOME=$PWD/home LC_ALL=C.UTF-8 CUDA_VISIBLE_DEVICES= PATH=%s:$PATH\n", CS_BIN);
    fprintf(script, "mkdir home page\ncd page\nln -s %s/configs %s/examples .\n", CS_SOURCE, CS_SOURCE);
    for (int i = 0; i < it->count; i++) {
        const page_step *step = &it->step[i];
        if (step->kind == PAGE_FILE) {
            write_step("file", i, step->content);
            fprintf(script, "mkdir -p \"$(dirname '%s')\" && cp \"$above/file.%d\" '%s'\n", step->text, i, step->text);
        } else if (step->kind == PAGE_COMMAND) {
            write_step("command", i, step->text);
            fprintf(script, "eval \"$(cat \"$above/command.%d\")\" >\"$above/out.%d\" 2>&1 </dev/null\n", i, i);
            fprintf(script, "echo $? >\"$above/code.%d\"\n", i);
        }
    }
    ck_assert_int_eq(fclose(script), 0);
}

/* Prints a text with an indentation. */
static void show(const char *text)
{
    char *copy = strdup(text), *rest = copy;
    for (char *line; (line = strsep(&rest, "\n"));)
        if (*line || rest)
            fprintf(stderr, "    %s\n", line);
    free(copy);
}

/* Returns the beginning of line `number`, counted from 0. */
static const char *nth_line(const char *text, int number)
{
    for (; number > 0 && *text; number--)
        text += strcspn(text, "\n") + (strchr(text, '\n') != NULL);
    return text;
}

static void judge_command(page *it, int index)
{
    const page_step *step = &it->step[index];
    char out[64], code[64];
    snprintf(out, sizeof out, "out.%d", index);
    snprintf(code, sizeof code, "code.%d", index);
    if (access(code, F_OK) != 0) {
        page_fault(it, step->line, "$ %s: did not end, or one before it ended the shell", step->text);
        return;
    }
    char *got = shell_read(out, NULL), *ended = shell_read(code, NULL);
    int line;
    if (atoi(ended) != 0) {
        page_fault(it, step->line, "$ %s: exit code %d, which the page does not show with ; echo $?", step->text,
                   atoi(ended));
        show(got);
    } else if (!form_matches(step->content, got, &line)) {
        const char *expected = nth_line(step->content, line);
        page_fault(it, step->line, "$ %s", step->text);
        if (*expected)
            fprintf(stderr, "  expected, line %d of the output:\n    %.*s\n", line + 1, (int)strcspn(expected, "\n"),
                    expected);
        else
            fprintf(stderr, "  expected no more lines after %d\n", line);
        fprintf(stderr, "  got:\n");
        show(got);
    }
    free(got);
    free(ended);
}

int page_run(page *it)
{
    int commands = 0;
    write_script(it);
    pid_t shell = shell_start("timeout %d bash --norc --noprofile script", SECONDS);
    int code = shell_wait(shell);
    kill(-shell, SIGKILL); /* ends background jobs of the page */
    if (code == 124)
        page_fault(it, 1, "the commands of this page did not end within %d s", SECONDS);
    for (int i = 0; i < it->count; i++)
        if (it->step[i].kind == PAGE_COMMAND) {
            judge_command(it, i);
            commands++;
        }
    return commands;
}
