/* test_links.c - each link inside the documents names a file that exists. If a link also names a heading, the file has
 * this heading. A link from one page to another has a title, not the name of the file. Lines of prose have at most 120
 * columns. The tests that tests/scope.md names exist. */
#include "shell.h"
#include "suite.h"

#include <ctype.h>
#include <glob.h>
#include <unistd.h>

enum { COLUMNS = 120 };

static int faults, links;

/* Writes the anchor that GitHub gives a heading: lower case, spaces as hyphens, without punctuation. */
static void anchor_of(const char *heading, char *anchor, size_t bytes)
{
    char *end = anchor + bytes - 1;
    for (; *heading && *heading != '\n' && anchor < end; heading++) {
        unsigned char c = (unsigned char)*heading;
        if (c == ' ')
            *anchor++ = '-';
        else if (isalnum(c) || c == '-' || c == '_' || c >= 0x80)
            *anchor++ = (char)tolower(c);
    }
    *anchor = 0;
}

static bool has_anchor(const char *page, const char *anchor)
{
    char *text = shell_read(page, NULL), *rest = text, found[512];
    bool has = false, code = false;
    for (char *line; !has && (line = strsep(&rest, "\n"));) {
        code ^= strncmp(line + strspn(line, " "), "```", 3) == 0;
        size_t level = strspn(line, "#");
        if (code || level == 0 || line[level] != ' ')
            continue;
        anchor_of(line + level + 1, found, sizeof found);
        has = strcmp(found, anchor) == 0;
    }
    free(text);
    return has;
}

static void fault(const char *page, int line, const char *target, const char *why)
{
    fprintf(stderr, "%s:%d: (%s): %s\n", page, line, target, why);
    faults++;
}

static void check_link(const char *page, int line, const char *target)
{
    char path[2048];
    const char *hash = strchr(target, '#'), *slash = strrchr(page, '/');
    int file_length = hash ? (int)(hash - target) : (int)strlen(target);
    if (strstr(target, "://"))
        return;
    links++;
    if (file_length == 0)
        snprintf(path, sizeof path, "%s", page);
    else
        snprintf(path, sizeof path, "%.*s%.*s", slash ? (int)(slash + 1 - page) : 0, page, file_length, target);
    if (access(path, F_OK) != 0)
        fault(page, line, target, "there is no such file");
    else if (hash && !has_anchor(path, hash + 1))
        fault(page, line, target, "the page has no such heading");
}

/* Checks the links of a line, except links inside `code`, and its length, except in tables and in the generated page of
 * keys. */
static void check_line(const char *page, int number, const char *line)
{
    char target[1024];
    bool code = false;
    for (const char *at = line; *at; at++) {
        code ^= *at == '`';
        if (!code && sscanf(at, "](%1023[^) ]", target) == 1) {
            check_link(page, number, target);
            if (at - line > 3 && memcmp(at - 3, ".md", 3) == 0)
                fault(page, number, target, "the link has the name of a file instead of a title");
        }
    }
    int columns = 0;
    for (const char *at = line; *at; at++)
        columns += (*at & 0xc0) != 0x80; /* bytes that continue a character do not count */
    if (columns > COLUMNS && *line != '|' && !strstr(page, "/keys.md"))
        fault(page, number, line, "the line is longer than 120 columns");
}

static void check_page(const char *page)
{
    char *text = shell_read(page, NULL), *rest = text;
    bool code = false;
    int number = 0;
    for (char *line; (line = strsep(&rest, "\n"));) {
        number++;
        code ^= strncmp(line + strspn(line, " "), "```", 3) == 0;
        if (!code)
            check_line(page, number, line);
    }
    free(text);
}

START_TEST(links_lead_somewhere)
{
    glob_t found;
    faults = links = 0;
    ck_assert_int_eq(glob(CS_SOURCE "/docs/*.md", 0, NULL, &found), 0);
    ck_assert_int_eq(glob(CS_SOURCE "/*.md", GLOB_APPEND, NULL, &found), 0);
    ck_assert_int_eq(glob(CS_SOURCE "/tests/*.md", GLOB_APPEND, NULL, &found), 0);
    ck_assert_int_eq(glob(CS_SOURCE "/tests/bench/*.md", GLOB_APPEND, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        check_page(found.gl_pathv[i]);
    globfree(&found);
    ck_assert_int_eq(faults, 0);
    ck_assert_int_gt(links, 30);
}
END_TEST

START_TEST(a_broken_link_is_found)
{
    faults = links = 0;
    shell_enter();
    shell_write("there.md", "# One, two: `three_4`\n");
    shell_write("page.md", "# A heading\n"
                           "[a](there.md) [b](#a-heading) [c](there.md#one-two-three_4) `[d](none)`\n"
                           "```\n[e](none)\n```\n"
                           "[f](none.md) [g](#nothing)\n[h](there.md#two) [there.md](there.md)\n");
    check_page("page.md");
    shell_leave();
    ck_assert_int_eq(links, 7);
    ck_assert_int_eq(faults, 4);
}
END_TEST

START_TEST(a_long_line_is_found)
{
    char text[1024];
    faults = links = 0;
    shell_enter();
    /* two lines of 120 columns, a table and code, and then a line of 121 columns */
    snprintf(text, sizeof text, "%0120d\n%0119d\u00e9\n| %0120d |\n```\n%0130d\n```\n%0121d\n", 0, 0, 0, 0, 0);
    shell_write("page.md", text);
    check_page("page.md");
    shell_leave();
    ck_assert_int_eq(faults, 1);
}
END_TEST

/* Reports a `test_NAME` of tests/scope.md for which tests/ has no file test_NAME.c. */
static void check_test(const char *name)
{
    char pattern[512];
    glob_t found;
    links++;
    snprintf(pattern, sizeof pattern, "%s/tests/{,*/,*/*/}%s.c", CS_SOURCE, name);
    if (glob(pattern, GLOB_BRACE | GLOB_NOSORT, NULL, &found) != 0)
        fault("tests/scope.md", 0, name, "there is no such test");
    else
        globfree(&found);
}

START_TEST(the_scope_names_tests_that_exist)
{
    char *text = shell_read(CS_SOURCE "/tests/scope.md", NULL), name[128];
    faults = links = 0;
    for (const char *at = text; (at = strstr(at, "`test_")); at++)
        if (sscanf(at, "`%127[a-z0-9_]`", name) == 1)
            check_test(name);
    free(text);
    ck_assert_int_gt(links, 50);
    ck_assert_int_eq(faults, 0);
    check_test("test_that_is_missing");
    ck_assert_int_eq(faults, 1);
}
END_TEST

SUITE_MAIN("links", links_lead_somewhere, a_broken_link_is_found, a_long_line_is_found,
           the_scope_names_tests_that_exist)
