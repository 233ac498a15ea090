/* test_pages.c - runs the commands of the documents, and compares the output of the commands with the output that the
 * pages show.
 *
 *     test_pages [PAGE...]      build/bin/test_pages docs/first-hour.md
 *
 * Without PAGE, the program tests all pages whose label is the value of CSPEED_PAGES (default: short). The rules for a
 * page are in CONTRIBUTING.md, "Documents". */
#include "form.h"
#include "page.h"
#include "shell.h"
#include "suite.h"

#include <glob.h>
#include <sys/stat.h>

static char **named; /* the pages of the command line; NULL ends them */

/* Compares two pages that must have the same commands, files and output. */
static void expect_same_steps(page *it, const page *other)
{
    for (int i = 0; i < it->count || i < other->count; i++) {
        const page_step *a = i < it->count ? &it->step[i] : NULL, *b = i < other->count ? &other->step[i] : NULL;
        if (a && b && a->kind == b->kind && strcmp(a->text, b->text) == 0 && strcmp(a->content, b->content) == 0)
            continue;
        page_fault(it, a ? a->line : 1, "%s\n  differs from %s:%d: %s", a ? a->text : "no such block", other->path,
                   b ? b->line : 1, b ? b->text : "no such block");
        return;
    }
}

static void compare_with(page *it, const char *name)
{
    static page other;
    char path[1200];
    snprintf(path, sizeof path, "%.*s%s", (int)(strrchr(it->path, '/') + 1 - it->path), it->path, name);
    page_read(&other, path);
    expect_same_steps(it, &other);
    page_free(&other);
}

static void print_counts(const page *it, int commands)
{
    printf("%s: %d commands run", it->path, commands);
    for (int i = 0; i < it->count; i++)
        if (it->step[i].kind == PAGE_NOT_RUN)
            printf("; line %d not run: %s", it->step[i].line, it->step[i].text);
    printf("\n");
    fflush(stdout); /* the next page's shell is forked from this process and must not inherit buffered output */
}

/* Returns the number of faults. */
static int try_page(const char *path, const char *label)
{
    static page it;
    page_read(&it, path);
    if (strncmp(it.label, "as ", 3) == 0)
        compare_with(&it, it.label + 3);
    else if (*it.label && (!label || strcmp(it.label, label) == 0)) {
        shell_enter();
        print_counts(&it, page_run(&it));
        shell_leave();
    }
    page_free(&it);
    return it.faults;
}

START_TEST(pages_show_what_their_commands_print)
{
    const char *label = getenv("CSPEED_PAGES");
    int faults = 0;
    glob_t found = { 0 };
    for (char **path = named; *path; path++)
        faults += try_page(*path, NULL);
    if (!*named) {
        glob(CS_SOURCE "/docs/*.md", 0, NULL, &found);
        glob(CS_SOURCE "/*.md", GLOB_APPEND, NULL, &found);
        ck_assert_uint_gt(found.gl_pathc, 10);
    }
    for (size_t i = 0; i < found.gl_pathc; i++)
        faults += try_page(found.gl_pathv[i], label ? label : "short");
    globfree(&found);
    ck_assert_int_eq(faults, 0);
}
END_TEST

/* Returns the number of faults of a page with this text. */
static int faults_of(const char *text, int *commands)
{
    static page it;
    shell_enter();
    shell_write("page.md", text);
    page_read(&it, "page.md");
    int ran = page_run(&it);
    if (commands)
        *commands = ran;
    page_free(&it);
    shell_leave();
    return it.faults;
}

START_TEST(a_page_that_is_right_has_no_faults)
{
    int commands;
    ck_assert_int_eq(
        faults_of("<!-- commands: short -->\n"
                  "<!-- file: sub/names -->\n```text\none\ntwo\n```\n"
                  "```console\n$ cat \\\n    sub/names\none\ntwo\n$ cd sub; word=x\n$ echo $word; ls\n"
                  "x\nnames\n$ false; echo $?\n1\n$ seq 9\n1\n…\n8\n9\n```\n"
                  "1. A list.\n\n   ```console\n   $ echo loss 2.5, 3 ms, step 4\n   loss 1.25, 5 s, step 4\n"
                  "   ```\n"
                  "<!-- not run: needs a GPU -->\n```console\n$ false\n```\n",
                  &commands),
        0);
    ck_assert_int_eq(commands, 6);
}
END_TEST

START_TEST(each_fault_is_found)
{
    static const char *const wrong[] = {
        "```console\n$ echo a\nb\n```\n",             /* the output is another text */
        "```console\n$ echo a\n```\n",                /* the page lacks the output */
        "```console\n$ true\na\n```\n",               /* the command does not print the output */
        "```console\n$ echo a; false\na\n```\n",      /* the page does not show the exit code */
        "```console\n$ echo step 4\nstep 5\n```\n",   /* another integer is printed */
        "```console\n$ seq 9\n1\n…\n8\n```\n",        /* a line after the elided lines is missing */
        "```console\n$ exit 0\n```\n",                /* the command ends the shell */
        "```console\na\n```\n",                       /* output without a command */
        "```console\n$ true\n",                       /* the block has no end */
        "```bash\ntrue\n```\n",                       /* a block whose commands are not run */
        "    cspeed help\n",                          /* an indented block whose commands are not run */
        "<!-- not run: needs a GPU -->\ntext\n",      /* no block follows the comment */
        "<!-- commands: quick -->\n",                 /* this label does not exist */
        "```console\n$ echo 'a\n```\n```text\n```\n", /* the shell cannot parse the command */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[512];
        snprintf(text, sizeof text, "<!-- commands: short -->\n%s", wrong[i]);
        ck_assert_msg(faults_of(text, NULL) == 1, "%s", text);
    }
    ck_assert_int_eq(faults_of("```console\n$ true\n```\n", NULL), 1); /* the page has no label */
}
END_TEST

START_TEST(commands_of_the_documents_are_run)
{
    static page it;
    shell_enter();
    mkdir("docs", 0755);
    shell_write("docs/page.md", "```bash\ntrue\n```\n\n    cspeed help\n");
    shell_write("page.md", "```bash\ntrue\n```\n\n    cspeed help\n");
    page_read(&it, "docs/page.md");
    ck_assert_int_eq(it.faults, 2);
    page_read(&it, "page.md"); /* a page outside of docs/, such as README.md, may show commands without running them */
    ck_assert_int_eq(it.faults, 0);
    shell_leave();
}
END_TEST

START_TEST(what_differs_between_machines_is_compared_by_form)
{
    static const char *const same[][2] = {
        { "loss 2.31", "loss -0.02e-4" },
        { "a step takes 3 ms", "a step takes 1.5 s" },
        { "1,000 tokens/s, 87 %", "2.5 ktokens/s, 9%" },
        { "holds 13.6 MB", "holds 2 GB" },
        { "in /tmp/a/runs/mine: ok", "in /home/you/runs/mine: ok" },
        { "job 01ab23cd, pid 12", "job ffffffff, pid 3456" },
        { "at 2026-01-31 09:00:01", "at 2027-12-01 23:59:59" },
        { "a    b ---", "  a b ------ " },
        { "saved … in …", "saved x in y z" },
    };
    static const char *const other[][2] = {
        { "step 3", "step 4" },      { "loss 2.31", "loss 2" },         { "3 ms", "3 MB" },
        { "3 ms", "3 steps" },       { "/tmp/a/mine", "/tmp/a/other" }, { "runs/a", "runs/b" },
        { "saved … in", "saved x" }, { "rank 1.", "rank 2." },
    };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        ck_assert_msg(form_matches(same[i][0], same[i][1], NULL), "%s | %s", same[i][0], same[i][1]);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        ck_assert_msg(!form_matches(other[i][0], other[i][1], NULL), "%s | %s", other[i][0], other[i][1]);
}
END_TEST

START_TEST(pages_in_two_languages_have_the_same_commands)
{
    static page it;
    shell_enter();
    mkdir("docs", 0755);
    shell_write("docs/a.md", "<!-- commands: short -->\n```console\n$ true\n```\n");
    shell_write("docs/b.md", "<!-- commands: as a.md -->\n```console\n$ true\n```\n");
    shell_write("docs/c.md", "<!-- commands: as a.md -->\n```console\n$ true\n$ false\n```\n");
    page_read(&it, "docs/b.md");
    compare_with(&it, it.label + 3);
    ck_assert_int_eq(it.faults, 0);
    page_free(&it);
    page_read(&it, "docs/c.md");
    compare_with(&it, it.label + 3);
    ck_assert_int_eq(it.faults, 1);
    page_free(&it);
    shell_leave();
}
END_TEST

int main(int count, char **argument)
{
    named = argument + (count > 0);
    const TTest *const tests[] = {
        pages_show_what_their_commands_print,
        a_page_that_is_right_has_no_faults,
        each_fault_is_found,
        commands_of_the_documents_are_run,
        what_differs_between_machines_is_compared_by_form,
        pages_in_two_languages_have_the_same_commands,
    };
    /* with named pages or another label the harness itself is not tested again */
    bool only_pages = *named || getenv("CSPEED_PAGES");
    return suite_run("pages", tests, only_pages ? 1 : (int)(sizeof tests / sizeof *tests));
}
