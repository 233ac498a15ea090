/* page.c - reads the blocks of a page of the documents. */
#include "page.h"
#include "shell.h"

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void page_fault(page *it, int line, const char *format, ...)
{
    va_list arguments;
    fprintf(stderr, "%s:%d: ", it->path, line);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    it->faults++;
}

/* The state of reading a page. */
typedef struct {
    page *it;
    char *rest;       /* the text that has not been read */
    int line;         /* number of the last line read, from 1 */
    char reason[256]; /* value of a `not run` comment that applies to the next block; "": none */
    char file[256];   /* value of a `file` comment, likewise */
} reader;

static char *take_line(reader *at)
{
    at->line++;
    return strsep(&at->rest, "\n");
}

static page_step *add_step(reader *at, page_kind kind, const char *text)
{
    ck_assert_int_lt(at->it->count, PAGE_STEPS);
    page_step *step = &at->it->step[at->it->count++];
    *step = (page_step){ .kind = kind, .line = at->line, .text = strdup(text), .content = strdup("") };
    return step;
}

/* Appends a line to a malloc'ed text, which may move. */
static void append(char **text, const char *line)
{
    size_t length = strlen(*text);
    *text = realloc(*text, length + strlen(line) + 2);
    ck_assert_ptr_nonnull(*text);
    sprintf(*text + length, "%s\n", line);
}

/* Returns the next line of a block without the indentation of its opening fence, or NULL after the closing fence. */
static char *take_block_line(reader *at, size_t indentation, int opened)
{
    char *line = take_line(at);
    if (!line) {
        page_fault(at->it, opened, "this block has no end");
        return NULL;
    }
    size_t spaces = strspn(line, " ");
    line += spaces < indentation ? spaces : indentation;
    return strncmp(line, "```", 3) == 0 ? NULL : line;
}

/* Returns true if each command of the page must be in a console block. */
static bool is_run(const page *it)
{
    return *it->label || strstr(it->path, "docs/");
}

static void read_commands(reader *at, size_t indentation)
{
    int opened = at->line;
    page_step *step = NULL;
    bool continues = false;
    for (char *line; (line = take_block_line(at, indentation, opened));) {
        if (continues) {
            size_t length = strlen(step->text);
            step->text = realloc(step->text, length + strlen(line) + 2);
            ck_assert_ptr_nonnull(step->text);
            sprintf(step->text + length, "\n%s", line);
        } else if (strncmp(line, "$ ", 2) == 0)
            step = add_step(at, PAGE_COMMAND, line + 2);
        else if (step)
            append(&step->content, line);
        else
            page_fault(at->it, at->line, "output before any command; a command's line begins with \"$ \"");
        const char *command = step && (continues || strncmp(line, "$ ", 2) == 0) ? step->text : "";
        continues = *command && command[strlen(command) - 1] == '\\';
    }
}

static void read_block(reader *at, const char *fence, size_t indentation)
{
    const char *language = fence + strspn(fence, "`");
    bool console = strcmp(language, "console") == 0;
    int opened = at->line;
    if (console && !*at->it->label && !*at->reason)
        page_fault(at->it, opened, "the page has no <!-- commands: short --> or slow above its first console block");
    if (is_run(at->it) && (strcmp(language, "sh") == 0 || strcmp(language, "bash") == 0))
        page_fault(at->it, opened, "commands of a page stand in blocks whose language is console");
    if (console && !*at->reason && !*at->file) {
        read_commands(at, indentation);
        return;
    }
    bool known = *at->reason || *at->file;
    page_step *step =
        known ? add_step(at, *at->file ? PAGE_FILE : PAGE_NOT_RUN, *at->file ? at->file : at->reason) : NULL;
    for (char *line; (line = take_block_line(at, indentation, opened));)
        if (step)
            append(&step->content, line);
    *at->reason = *at->file = 0;
}

/* Returns true if the line is `<!-- NAME: VALUE -->`, and copies VALUE to `value`. */
static bool comment(const char *line, const char *name, char *value, size_t bytes)
{
    char begin[64];
    snprintf(begin, sizeof begin, "<!-- %s: ", name);
    const char *end = strstr(line, " -->");
    if (strncmp(line, begin, strlen(begin)) != 0 || !end)
        return false;
    snprintf(value, bytes, "%.*s", (int)(end - line - (long)strlen(begin)), line + strlen(begin));
    return true;
}

static void read_line(reader *at, char *line)
{
    page *it = at->it;
    size_t spaces = strspn(line, " ");
    const char *word = line + spaces;
    if (strncmp(word, "```", 3) == 0) {
        read_block(at, word, spaces);
        return;
    }
    if (*word && (*at->reason || *at->file)) {
        page_fault(it, at->line, "no block follows the comment in front of this line");
        *at->reason = *at->file = 0;
    }
    if (comment(word, "commands", it->label, sizeof it->label)) {
        if (strcmp(it->label, "short") != 0 && strcmp(it->label, "slow") != 0 && strncmp(it->label, "as ", 3) != 0)
            page_fault(it, at->line, "commands: %s: it is short, slow or \"as PAGE\"", it->label);
    } else if (!comment(word, "not run", at->reason, sizeof at->reason))
        comment(word, "file", at->file, sizeof at->file);
    if (is_run(it) && spaces >= 4 && (strncmp(word, "cspeed ", 7) == 0 || strncmp(word, "build/bin/", 10) == 0))
        page_fault(it, at->line, "commands of a page stand in console blocks");
}

void page_read(page *it, const char *path)
{
    *it = (page){ .path = path };
    char *text = shell_read(path, NULL);
    reader at = { .it = it, .rest = text };
    for (char *line; (line = take_line(&at));)
        read_line(&at, line);
    if (*at.reason || *at.file)
        page_fault(it, at.line, "no block follows the last comment");
    free(text);
}

void page_free(page *it)
{
    for (int i = 0; i < it->count; i++) {
        free(it->step[i].text);
        free(it->step[i].content);
    }
}
