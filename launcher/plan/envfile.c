/* envfile.c - parses environment files, over bytes in memory.
 *
 * A line is NAME=value, with an optional `export ` before the name. A line may also be only NAME: the variable then
 * gets the value that it has in the environment of this process. Blank lines and lines that begin with '#' are skipped.
 * A value without quotes ends at " #" and is trimmed. A value in '...' is literal. A value in "..." may contain \n \t
 * \\ \" \$, and ${NAME} with --env_expand. A value in quotes may span several lines. Nothing else is expanded, and
 * values are not split into words. */
#include "plan/env.h"

#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ORIGIN_BYTES = 512 };

typedef struct {
    cl_env *env;
    ce_faults *faults;
    const char *file, *at, *end, *line_start;
    int line;
    bool expand;
    /* the buffer of a value, allocated with the length of the file; it is enlarged if an expanded variable needs more
     */
    char *value;
    size_t used, capacity;
} scanner;

#define FAULT(scan, place, ...)                                                                                        \
    ce_faults_add((scan)->faults, (scan)->file, (scan)->line, (int)((place) - (scan)->line_start) + 1, "", __VA_ARGS__)

static void put(scanner *scan, const char *bytes, size_t count)
{
    CE_MUST_HOLD(scan->value, scan->capacity, scan->used + count + 1);
    memcpy(scan->value + scan->used, bytes, count);
    scan->used += count;
    scan->value[scan->used] = '\0';
}

static bool is_blank(const scanner *scan)
{
    return scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\t' || *scan->at == '\r');
}

static void skip_blanks(scanner *scan)
{
    while (is_blank(scan))
        scan->at++;
}

static bool at_end_of_line(const scanner *scan)
{
    return scan->at == scan->end || *scan->at == '\n';
}

static void skip_line(scanner *scan)
{
    while (!at_end_of_line(scan))
        scan->at++;
}

static void next_line(scanner *scan)
{
    scan->line++;
    scan->line_start = ++scan->at;
}

static bool is_name_byte(char c, bool first)
{
    return c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (!first && c >= '0' && c <= '9');
}

/* Reads the name that begins at `at`. Returns a malloc'ed copy of the name, or NULL if no name begins there. */
static char *take_name(scanner *scan)
{
    const char *from = scan->at;
    while (scan->at < scan->end && is_name_byte(*scan->at, scan->at == from))
        scan->at++;
    return scan->at == from ? NULL : ce_must_copy_part(from, (size_t)(scan->at - from));
}

/* ---- values ---- */

static const char *value_of(const cl_env *env, const char *name)
{
    const char *value = cl_env_value(env, name);
    return value ? value : getenv(name);
}

/* Reads "${NAME}" at `at`, and appends the value of this variable. */
static bool take_expansion(scanner *scan)
{
    const char *from = scan->at;
    scan->at += 2;
    CE_FREED char *name = take_name(scan);
    bool good = name && scan->at < scan->end && *scan->at == '}';
    if (!good)
        FAULT(scan, from, "${ is not followed by a name and }; write \\$ for the character $");
    else if (!value_of(scan->env, name))
        FAULT(scan, from, "${%s}: there is no such variable", name);
    else
        put(scan, value_of(scan->env, name), strlen(value_of(scan->env, name)));
    scan->at += good;
    return good;
}

/* Reads a backslash escape at `at`. If the escape is unknown, its backslash is kept. */
static void take_escape(scanner *scan)
{
    static const char from[] = "nt\\\"$", to[] = "\n\t\\\"$";
    const char *known = scan->at + 1 < scan->end && scan->at[1] ? strchr(from, scan->at[1]) : NULL;
    put(scan, known ? &to[known - from] : scan->at, 1);
    scan->at += known ? 2 : 1;
}

static bool take_quoted(scanner *scan)
{
    const char *from = scan->at, *from_line = scan->line_start;
    char quote = *scan->at++;
    int line = scan->line;
    while (scan->at < scan->end && *scan->at != quote) {
        bool doubled = quote == '"';
        if (doubled && *scan->at == '\\') {
            take_escape(scan);
        } else if (doubled && scan->expand && *scan->at == '$' && scan->at + 1 < scan->end && scan->at[1] == '{') {
            if (!take_expansion(scan))
                return false;
        } else {
            put(scan, scan->at, 1);
            if (*scan->at == '\n')
                next_line(scan);
            else
                scan->at++;
        }
    }
    if (scan->at < scan->end) {
        scan->at++;
        return true;
    }
    ce_faults_add(scan->faults, scan->file, line, (int)(from - from_line) + 1, "", "the closing quote is missing");
    return false;
}

/* Reads a value without quotes, which ends at the end of the line or at " #". */
static void take_bare(scanner *scan)
{
    const char *from = scan->at;
    while (!at_end_of_line(scan) && !(*scan->at == '#' && (scan->at[-1] == ' ' || scan->at[-1] == '\t')))
        scan->at++;
    size_t length = (size_t)(scan->at - from);
    while (length && strchr(" \t\r", from[length - 1]))
        length--;
    put(scan, from, length);
}

/* Reads the value after the '='. */
static bool take_value(scanner *scan)
{
    scan->used = 0;
    put(scan, "", 0);
    skip_blanks(scan);
    if (at_end_of_line(scan) || (*scan->at != '\'' && *scan->at != '"')) {
        take_bare(scan);
        return true;
    }
    if (!take_quoted(scan))
        return false;
    skip_blanks(scan);
    if (at_end_of_line(scan) || *scan->at == '#')
        return true;
    FAULT(scan, scan->at, "only a comment may follow the closing quote");
    return false;
}

/* ---- lines ---- */

static void set(scanner *scan, const char *name, const char *value, int line)
{
    char origin[ORIGIN_BYTES];
    snprintf(origin, sizeof origin, "%s:%d", scan->file, line);
    cl_env_set(scan->env, name, value, origin);
}

static void read_assignment(scanner *scan, const char *name)
{
    const char *place = scan->at;
    int line = scan->line;
    skip_blanks(scan);
    if (at_end_of_line(scan) || *scan->at == '#') {
        if (getenv(name))
            set(scan, name, getenv(name), line);
        else
            FAULT(scan, place, "%s without a value copies the variable of this machine, but it is not set here", name);
    } else if (*scan->at != '=') {
        FAULT(scan, scan->at, "%s is not followed by '='", name);
    } else {
        scan->at++;
        if (take_value(scan))
            set(scan, name, scan->value, line);
    }
}

static void read_line(scanner *scan)
{
    skip_blanks(scan);
    if (at_end_of_line(scan) || *scan->at == '#')
        return;
    if (scan->end - scan->at > 7 && strncmp(scan->at, "export", 6) == 0 && strchr(" \t", scan->at[6])) {
        scan->at += 6;
        skip_blanks(scan);
    }
    CE_FREED char *name = take_name(scan);
    if (name)
        read_assignment(scan, name);
    else
        FAULT(scan, scan->at,
              "a line is NAME=value; a name consists of letters, digits and _ and does not begin with a digit");
}

void cl_envfile_read(cl_env *env, const char *file, const char *text, size_t length, bool expand, ce_faults *faults)
{
    scanner scan = { .env = env, .faults = faults, .file = file, .line = 1, .expand = expand };
    scan.at = text;
    scan.end = text + length;
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        scan.at += 3; /* skips a byte order mark of UTF-8 */
    scan.line_start = scan.at;
    const char *nul = memchr(text, '\0', length);
    for (const char *place = text; nul && place < nul; place++)
        if (*place == '\n') {
            scan.line++;
            scan.line_start = place + 1;
        }
    if (nul) {
        FAULT(&scan, nul, "there is a NUL byte in this file");
        return;
    }
    while (scan.at < scan.end) {
        read_line(&scan);
        skip_line(&scan);
        if (scan.at < scan.end)
            next_line(&scan);
    }
    free(scan.value);
}
