/* main.c - writes the manual pages from the table of commands: cspeed-COMMAND.1 for each command, and cspeed.1. The
 * build runs this program:
 *
 *     manual TEMPLATE FOLDER HELPS
 *
 * TEMPLATE is the text of cspeed.1, in which the descriptions of the commands and of the launch flags replace two lines,
 * the comments COMMANDS and FLAGS. FOLDER receives the pages. HELPS is a folder with one file for each program, which
 * contains the text that the program prints for --help, and the file flags with that of `cspeed help flags`. The lists
 * of options become a part of the manual pages. */
#include "ground/command.h"

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

/* Converts a text about options to roff. In `text`, a line that names an option has two leading blanks, and a line of
 * that option's description has more. Other lines become paragraphs that begin with `macro`. */
static void put_options(FILE *page, const char *text, const char *macro)
{
    for (const char *line = text; *line; line = next_line(line)) {
        size_t blanks = strspn(line, " "), length = length_of(line);
        if (length == blanks)
            continue;
        if (blanks <= 2)
            fputs(blanks == 2 ? ".TP\n.B " : macro, page);
        put_line(page, line + blanks, length - blanks);
    }
}

/* Returns the malloc'ed contents of a file. NULL: the file cannot be read or is empty; a message is printed. */
static char *read_file(const char *path)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = fopen(path, "r");
    bool read = file && getdelim(&text, &size, '\0', file) > 0;
    if (file)
        fclose(file);
    if (read)
        return text;
    fprintf(stderr, "manual: %s cannot be read\n", path);
    free(text);
    return NULL;
}

static void put_usage(FILE *page, const cl_command *command)
{
    put_lines(page, command->usage, strlen("usage: "));
}

static bool put_page(FILE *page, const cl_command *command, const char *helps)
{
    char path[PATH_MAX], *options = NULL;
    snprintf(path, sizeof path, "%s/%s", helps, command->name);
    if (command->is_program && !(options = read_file(path)))
        return false;
    fputs(".\\\" Generated from cspeed's table of commands.\n.TH CSPEED\\-", page);
    for (const char *c = command->name; *c; c++)
        putc(toupper((unsigned char)*c), page);
    fprintf(page, " 1 \"\" \"cspeed %s\" \"cspeed %s\"\n.SH NAME\n", CS_VERSION, command->name);
    fprintf(page, "cspeed\\-%s \\- ", command->name);
    put_line(page, command->summary, strlen(command->summary));
    fputs(".SH SYNOPSIS\n", page);
    put_usage(page, command);
    fputs(".SH DESCRIPTION\n", page);
    put_text(page, command->text);
    if (options) {
        fputs(".SH OPTIONS\n", page);
        put_options(page, next_line(options), ".PP\n"); /* without the usage line */
    }
    fputs(".SH EXAMPLE\n", page);
    put_lines(page, command->example, 0);
    fputs(".SH SEE ALSO\n.BR cspeed (1)\n", page);
    free(options);
    return true;
}

static void put_commands(FILE *page)
{
    for (const cl_command *const *each = cl_commands; *each; each++) {
        fprintf(page, ".SS %s\n", (*each)->name);
        put_usage(page, *each);
        fputs(".PP\n", page);
        put_text(page, (*each)->text);
    }
}

/* Writes the manual page of cspeed itself: the template, with the descriptions of all commands and launch flags. */
static bool put_overview(FILE *page, const char *template, const char *helps)
{
    static const char commands_mark[] = ".\\\" COMMANDS\n", flags_mark[] = ".\\\" FLAGS\n";
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/flags", helps);
    char *text = read_file(template), *flags = read_file(path);
    char *commands_at = text ? strstr(text, commands_mark) : NULL, *flags_at = text ? strstr(text, flags_mark) : NULL;
    char *list = flags ? strstr(flags, "\n\n") : NULL; /* behind the introduction, which the template has too */
    bool whole = commands_at && flags_at > commands_at && list;
    if (whole) {
        fprintf(page, "%.*s", (int)(commands_at - text), text);
        put_commands(page);
        commands_at += sizeof commands_mark - 1;
        fprintf(page, "%.*s", (int)(flags_at - commands_at), commands_at);
        put_options(page, list, ".SS ");
        fputs(flags_at + sizeof flags_mark - 1, page);
    }
    free(text);
    free(flags);
    return whole;
}

/* Writes FOLDER/cspeed-COMMAND.1, or, if `command` is NULL, FOLDER/cspeed.1. */
static bool write_page(const cl_command *command, char **arguments)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/cspeed%s%s.1", arguments[2], command ? "-" : "", command ? command->name : "");
    FILE *page = fopen(path, "w");
    bool whole =
        page && (command ? put_page(page, command, arguments[3]) : put_overview(page, arguments[1], arguments[3]));
    if (page && fclose(page) == 0 && whole)
        return true;
    fprintf(stderr, "manual: %s cannot be written\n", path);
    return false;
}

int main(int argument_count, char **arguments)
{
    if (argument_count != 4) {
        fputs("usage: manual TEMPLATE FOLDER HELPS\n", stderr);
        return 64;
    }
    for (const cl_command *const *each = cl_commands; *each; each++)
        if (!write_page(*each, arguments))
            return 1;
    return write_page(NULL, arguments) ? 0 : 1;
}
