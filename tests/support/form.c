/* form.c - compares what a command printed with what a page of the documents shows. */
#include "form.h"

#include <check.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ELISION "…"
#define NUMBER "[-+]?[0-9][0-9,]*(\\.[0-9]+)?([eE][-+]?[0-9]+)?"
#define BESIDE "[[:space:]\"'(=]"    /* a character before a path */
#define INSIDE "[^[:space:]\"'(),;:" /* the class of characters of a path, without its closing bracket */

/* pattern: an extended regular expression; name: the name of the form, which replaces a match. front, behind: numbers
 * of the groups whose text is kept before and after the name; 0: none. The patterns are applied in this order. */
static const struct {
    const char *pattern, *name;
    int front, behind;
} forms[] = {
    { "(^|" BESIDE ")/(" INSIDE "]*/)?(" INSIDE "/]+)", "<folder>/", 1, 3 },
    { "[0-9]{4}-[0-9]{2}-[0-9]{2}", "<date>", 0, 0 },
    { "\\b[0-9]{1,2}:[0-9]{2}(:[0-9]{2}(\\.[0-9]+)?)?\\b", "<clock>", 0, 0 },
    { "\\b(pid|process) [0-9]+", " <pid>", 1, 0 },
    { "\\b(job) [0-9a-f]{8}\\b", " <job>", 1, 0 },
    { NUMBER " ?(ns|us|µs|ms|s|min|h)\\b", "<time>", 0, 0 },
    { NUMBER " ?[kMGT]?(tok|tokens|samples|steps|[Bb]|bit|FLOP|FLOPS)/s\\b", "<rate>", 0, 0 },
    { NUMBER " ?[kMGT]FLOPS\\b", "<rate>", 0, 0 },
    { NUMBER " ?([kKMGT]?B|[KMGT]iB)\\b", "<bytes>", 0, 0 },
    { NUMBER " ?%", "<percent>", 0, 0 },
    { "[-+]?[0-9]+(\\.[0-9]+([eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+)", "<number>", 0, 0 },
    { "-{3,}", "---", 0, 0 },
    { "[[:space:]]+", " ", 0, 0 },
};
enum { FORMS = sizeof forms / sizeof *forms, GROUPS = 6 };

/* Returns a copy of the text in which each match of forms[which] is replaced; the caller frees it. */
static char *replace(const char *text, int which)
{
    static regex_t compiled[FORMS];
    static bool is_compiled[FORMS];
    if (!is_compiled[which]) {
        ck_assert_int_eq(regcomp(&compiled[which], forms[which].pattern, REG_EXTENDED), 0);
        is_compiled[which] = true;
    }
    char *out;
    size_t bytes;
    FILE *to = open_memstream(&out, &bytes);
    ck_assert_ptr_nonnull(to);
    regmatch_t group[GROUPS];
    const char *at = text;
    while (*at && regexec(&compiled[which], at, GROUPS, group, at > text ? REG_NOTBOL : 0) == 0) {
        const regmatch_t *front = &group[forms[which].front], *behind = &group[forms[which].behind];
        fwrite(at, 1, (size_t)group[0].rm_so, to);
        if (forms[which].front)
            fwrite(at + front->rm_so, 1, (size_t)(front->rm_eo - front->rm_so), to);
        fputs(forms[which].name, to);
        if (forms[which].behind)
            fwrite(at + behind->rm_so, 1, (size_t)(behind->rm_eo - behind->rm_so), to);
        at += group[0].rm_eo;
    }
    fputs(at, to);
    ck_assert_int_eq(fclose(to), 0);
    return out;
}

char *form_of(const char *line)
{
    char *text = strdup(line);
    for (int i = 0; i < FORMS; i++) {
        char *next = replace(text, i);
        free(text);
        text = next;
    }
    size_t length = strlen(text), spaces = strspn(text, " ");
    while (length > spaces && text[length - 1] == ' ')
        text[--length] = 0;
    memmove(text, text + spaces, length - spaces + 1);
    return text;
}

static bool line_matches(const char *expected, const char *got)
{
    for (; strncmp(expected, ELISION, strlen(ELISION)) != 0; expected++, got++) {
        if (*expected != *got)
            return false;
        if (!*expected)
            return true;
    }
    expected += strlen(ELISION);
    for (;; got++) {
        if (line_matches(expected, got))
            return true;
        if (!*got)
            return false;
    }
}

typedef struct {
    char **line;
    int count;
} lines;

static lines lines_split(const char *text)
{
    lines all = { 0 };
    char *copy = strdup(text), *rest = copy;
    for (char *line; (line = strsep(&rest, "\n"));) {
        all.line = realloc(all.line, (size_t)(all.count + 1) * sizeof *all.line);
        ck_assert_ptr_nonnull(all.line);
        all.line[all.count++] = form_of(line);
    }
    free(copy);
    while (all.count > 0 && !*all.line[all.count - 1])
        free(all.line[--all.count]);
    return all;
}

static void lines_free(lines *all)
{
    for (int i = 0; i < all->count; i++)
        free(all->line[i]);
    free(all->line);
}

/* Computes a table row by row. Element j of row i is true if the first i lines of `expected` match the first j lines of
 * `got`. */
bool form_matches(const char *expected, const char *got, int *line)
{
    lines wanted = lines_split(expected), had = lines_split(got);
    size_t columns = (size_t)had.count + 1;
    bool *ends = calloc(columns, 1), *next = calloc(columns, 1), any = true;
    ck_assert(ends && next);
    ends[0] = true;
    int i = 0;
    for (; i < wanted.count && any; i++) {
        bool elides = strcmp(wanted.line[i], ELISION) == 0;
        any = next[0] = elides && ends[0];
        for (size_t j = 1; j < columns; j++) {
            next[j] = elides ? next[j - 1] || ends[j] : ends[j - 1] && line_matches(wanted.line[i], had.line[j - 1]);
            any |= next[j];
        }
        bool *swap = ends;
        ends = next;
        next = swap;
    }
    bool matches = any && ends[columns - 1];
    if (line)
        *line = any ? i : i - 1;
    lines_free(&wanted);
    lines_free(&had);
    free(ends);
    free(next);
    return matches;
}
