/* main.c - writes the manual pages of all commands, cspeed-COMMAND.1, from the table of commands. The build runs this
 * program:
 *
 *     manual FOLDER HELPS
 *
 * FOLDER receives the pages. HELPS is a folder with one file for each program, which contains the text that the program
 * prints for --help. That text becomes a part of the manual page of the program. */
#include "command.h"

#include "cspeed/cspeed.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Writes one line of text. Characters that have a meaning for roff are escaped. */
static void put_line(FILE *page, const char *line, size_t length)
{
    if (length > 0 && strchr(".'", *line))
        fputs("\\&", page);
    for (size_t i = 0; i < length; i++)
        if (line[i] == '\\' || line[i] == '-')
            fputs(line[i] == '-' ? "\\-" : "\\e", page);
        else
            putc(line[i], page);
    putc('\n', page);
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

static size_t length_of(const char *line)
{
    return strcspn(line, "\n");
}

/* Writes the lines unchanged, except that up to `indent` leading blanks are removed from the second and later lines. */
static void put_lines(FILE *page, const char *text, size_t indent)
{
    fputs(".nf\n", page);
    for (const char *line = text; *line; line = next_line(line)) {
        size_t blanks = strspn(line, " ");
        const char *from = line == text ? line : line + (blanks < indent ? blanks : indent);
        put_line(page, from, length_of(from));
    }
    fputs(".fi\n", page);
}

/* Writes text as paragraphs, which man fills to the width of the screen. An empty line or an indented line ends a
 * paragraph. */
static void put_text(FILE *page, const char *text)
{
    bool aligned = false;
    for (const char *line = text; *line; line = next_line(line)) {
        bool indented = *line == ' ';
        if (indented != aligned)
            fputs(indented ? ".PP\n.nf\n" : ".fi\n.PP\n", page);
        aligned = indented;
        if (length_of(line) > 0)
            put_line(page, line, length_of(line));
        else
            fputs(".PP\n", page);
    }
    if (aligned)
        fputs(".fi\n", page);
}

/* Converts a program's text about its options to roff. In `text`, a line that names an option has two leading blanks,
 * and a line of that option's description has more. */
static void put_options(FILE *page, const char *text)
{
    for (const char *line = text; *line; line = next_line(line)) {
        size_t blanks = strspn(line, " "), length = length_of(line);
        if (length == blanks)
            continue;
        if (blanks <= 2)
            fputs(blanks == 2 ? ".TP\n" : ".PP\n", page);
        put_line(page, line + blanks, length - blanks);
    }
}

/* Returns the malloc'ed text that a program printed for --help, without the first line (the usage). NULL: there is no
 * file with this text. */
static char *read_options(const char *folder, const char *name)
{
    char path[PATH_MAX], *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    bool read = file && getdelim(&text, &size, '\0', file) > 0;
    if (file)
        fclose(file);
    if (!read) {
        free(text);
        return NULL;
    }
    const char *rest = next_line(text);
    memmove(text, rest, strlen(rest) + 1);
    return text;
}

static bool put_page(FILE *page, const cl_command *command, const char *helps)
{
    char *options = command->is_program ? read_options(helps, command->name) : NULL;
    fputs(".\\\" Generated from cspeed's table of commands.\n.TH CSPEED\\-", page);
    for (const char *c = command->name; *c; c++)
        putc(toupper((unsigned char)*c), page);
    fprintf(page, " 1 \"\" \"cspeed %s\" \"cspeed %s\"\n.SH NAME\n", CS_VERSION, command->name);
    fprintf(page, "cspeed\\-%s \\- ", command->name);
    put_line(page, command->summary, strlen(command->summary));
    fputs(".SH SYNOPSIS\n", page);
    put_lines(page, command->usage, strlen("usage: "));
    fputs(".SH DESCRIPTION\n", page);
    put_text(page, command->text);
    if (options) {
        fputs(".SH OPTIONS\n", page);
        put_options(page, options);
    }
    fputs(".SH EXAMPLE\n", page);
    put_lines(page, command->example, 0);
    fputs(".SH SEE ALSO\n.BR cspeed (1)\n", page);
    free(options);
    return !command->is_program || options;
}

static bool write_page(const char *folder, const cl_command *command, const char *helps)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/cspeed-%s.1", folder, command->name);
    FILE *page = fopen(path, "w");
    bool whole = page && put_page(page, command, helps);
    if (page && fclose(page) == 0 && whole)
        return true;
    fprintf(stderr, "manual: %s cannot be written\n", path);
    return false;
}

int main(int argument_count, char **arguments)
{
    if (argument_count != 3) {
        fputs("usage: manual FOLDER HELPS\n", stderr);
        return 64;
    }
    for (const cl_command *const *each = cl_commands; *each; each++)
        if (!write_page(arguments[1], *each, arguments[2]))
            return 1;
    return 0;
}
