/* test_plot.c - `cspeed plot`: its text at two widths and in ASCII, its SVG and HTML, --follow on a terminal, and what
 * it refuses. */
#include "shell.h"
#include "suite.h"

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static void prepare(void)
{
    shell_enter();
    ck_assert_int_eq(shell_run("mkdir run"), 0);
    shell_write("run/metrics.jsonl", "{\"step\": 1, \"loss\": 4, \"lr\": 0.1, \"valid_loss\": 4}\n"
                                     "{\"step\": 2, \"loss\": 3, \"lr\": 0.1}\n"
                                     "{\"step\": 3, \"loss\": null, \"lr\": 0.1}\n"
                                     "{\"step\": 4, \"loss\": 1, \"lr\": 0.1}\n"
                                     "{\"step\": 5, \"loss\": 0, \"lr\": 0.1, \"valid_loss\": 2}\n"
                                     "{\"step\": 6, \"loss\": 9"); /* this line is not finished yet */
}

static void must_say(const char *wanted)
{
    char *out = shell_read("out.txt", NULL);
    ck_assert_msg(strstr(out, wanted) != NULL, "no \"%s\" in:\n%s", wanted, out);
    free(out);
}

static void must_print(const char *wanted)
{
    char *out = shell_read("out.txt", NULL);
    ck_assert_str_eq(out, wanted);
    free(out);
}

START_TEST(the_text_is_the_golden_one)
{
    static const struct {
        const char *locale, *golden;
        int columns;
    } rows[] = { { "C", "plot_ascii.golden", 80 },
                 { "C.UTF-8", "plot_80.golden", 80 },
                 { "C.UTF-8", "plot_200.golden", 200 } };
    prepare();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[1024];
        snprintf(path, sizeof path, CS_TESTS "/golden/%s", rows[i].golden);
        ck_assert_int_eq(shell_run("LC_ALL=%s COLUMNS=%d " CS_BIN "/cspeed plot run", rows[i].locale, rows[i].columns),
                         0);
        char *golden = shell_read(path, NULL);
        must_print(golden);
        free(golden);
    }
    ck_assert_int_eq(shell_run("LC_ALL=C COLUMNS=80 " CS_BIN "/cspeed plot run/metrics.jsonl --what=lr"), 0);
    must_say("lr    * lr 0.1\n     0.15 |\n");
    shell_leave();
}
END_TEST

START_TEST(pictures_are_well_formed)
{
    prepare();
    ck_assert_int_eq(shell_run("cp -r run 'a<b&c'"), 0);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed plot 'a<b&c' run --svg a.svg --html a.html"), 0);
    must_print("");
    char *svg = shell_read("a.svg", NULL), *html = shell_read("a.html", NULL);
    ck_assert_int_eq(shell_count_of(svg, "<polyline "), 6); /* loss, valid_loss and lr of two runs */
    ck_assert_int_eq(shell_count_of(svg, "class=\"curve second\" stroke=\"#2f81f7\""), 2); /* a curve and its legend */
    ck_assert(strstr(svg, ">a&lt;b&amp;c valid_loss</text>") && strstr(svg, ">run</text>"));
    ck_assert(strstr(svg, ">null in the file (NaN or infinite): 2 of 14 values</text>"));
    /* the curve goes from the left edge to the right one; step 3 has no loss */
    ck_assert(strstr(svg, "points=\"84.00,50.23 229.00,102.11 519.00,205.89 664.00,257.77\""));
    ck_assert(strstr(svg, "@media (prefers-color-scheme: dark)") && !strstr(svg, "<script"));
    ck_assert(strncmp(html, "<!DOCTYPE html>", 15) == 0 && strstr(html, "<title>a&lt;b&amp;c and 1 more</title>"));
    ck_assert(strstr(html, "<svg ") && strstr(html, "data-values=\"1,4 2,3 4,1 5,0\"") && !strstr(html, "src="));
    ck_assert_int_eq(shell_run("! command -v xmllint > /dev/null || xmllint --noout a.svg a.html"), 0);
    ck_assert_int_eq(shell_run("! command -v python3 > /dev/null || python3 -c 'import xml.dom.minidom as m; "
                               "m.parse(\"a.svg\"), m.parse(\"a.html\")'"),
                     0);
    free(svg);
    free(html);
    shell_leave();
}
END_TEST

/* A program that copies its input takes the place of rsvg-convert. */
START_TEST(a_png_is_made_by_a_program)
{
    prepare();
    ck_assert_int_eq(shell_run("mkdir bin && printf '#!/bin/sh\\ncat >\"${2#--output=}\"\\n' >bin/rsvg-convert && "
                               "chmod +x bin/rsvg-convert && PATH=$PWD/bin:$PATH " CS_BIN
                               "/cspeed plot run --png 'a b.png' --svg a.svg && cmp a.svg 'a b.png'"),
                     0);
    ck_assert_int_eq(shell_run("printf '#!/bin/sh\\nexit 1\\n' >bin/rsvg-convert && PATH=$PWD/bin:$PATH " CS_BIN
                               "/cspeed plot run --png b.png"),
                     73);
    must_say("b.png cannot be written by the program rsvg-convert");
    must_say("librsvg2-bin");
    shell_leave();
}
END_TEST

START_TEST(options_change_the_diagrams)
{
    shell_enter();
    ck_assert_int_eq(shell_run("mkdir run && for i in $(seq 40); do echo '{\"step\": '$i', \"loss\": '$((i %% 2 + 2))'"
                               ", \"grad_norm\": '$((i == 17 ? 1000 : 1 + i %% 3))'}'; done >run/metrics.jsonl"),
                     0);
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed plot run"), 0);
    must_say("beyond the axis: 1 of 40 values, as far as 1000 at step 17 (plot --full)\n");
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed plot run --full --log xy --smooth 0.5 && ! grep beyond out.txt"), 0);
    must_say("smoothed: debiased exponential moving average, weight 0.5\n");
    must_say("\n      step 1 ");
    shell_write("nan.jsonl", "{\"step\": 1, \"loss\": null, \"lr\": 0}\n{\"step\": 2, \"loss\": null, \"lr\": 0}\n");
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed plot nan.jsonl"), 0); /* nothing to draw is not a missing diagram */
    must_say("null in the file (NaN or infinite): 2 of 2 values\n");
    ck_assert_int_eq(shell_run(CS_BIN "/cspeed plot run --svg a.svg && grep -c 'class=\"raw\"' a.svg; " CS_BIN
                                      "/cspeed plot run --smooth 0 --svg a.svg && ! grep 'class=\"raw\"' a.svg"),
                     0);
    shell_leave();
}
END_TEST

START_TEST(faults_are_named)
{
    static const struct {
        int code;
        const char *arguments, *message;
    } rows[] = { { 64, "", "name the output folder" },
                 { 64, "run --color", "unknown flag --color" },
                 { 64, "run --what", "--what needs a value" },
                 { 64, "run --what ,", "--what needs keys" },
                 { 64, "run --follow", "only a terminal is redrawn" },
                 { 64, "run --follow --svg a.svg", "not supported: --follow with --svg" },
                 { 66, "nowhere", "nowhere cannot be read" },
                 { 66, "empty", "empty has no metrics.jsonl" },
                 { 65, "none.jsonl", "nothing to draw" },
                 { 64, "run --smooth 1", "--smooth" },
                 { 64, "run --log z", "none|x|y|xy" },
                 { 65, "run --what lr,speed", "has a number \"speed\"; there are step, loss, lr, valid_loss" },
                 { 65, "none.jsonl --what lr", "has a number \"lr\"; there are none" },
                 { 65, "torn.jsonl", "torn.jsonl:2: this line is not the metrics of a step" },
                 { 65, "twice.jsonl", "twice.jsonl:2: this line is not the metrics of a step: its step is not above" },
                 { 65, "list.jsonl", "list.jsonl:1: this line is not the metrics of a step" },
                 { 73, "run --svg nowhere/a.svg", "nowhere/a.svg cannot be written" },
                 { 73, "run --png nowhere/a.png", "nowhere/a.png cannot be written by the program rsvg-convert" } };
    prepare();
    ck_assert_int_eq(shell_run("mkdir empty && : > none.jsonl"), 0);
    shell_write("torn.jsonl", "{\"step\": 1, \"loss\": 4}\n{\"step\": 2, \"lo\n{\"step\": 3, \"loss\": 4}\n");
    shell_write("twice.jsonl", "{\"step\": 1, \"loss\": 4}\n{\"step\": 1, \"loss\": 4}\n");
    shell_write("list.jsonl", "[1, 2]\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int code = shell_run(CS_BIN "/cspeed plot %s", rows[i].arguments);
        ck_assert_msg(code == rows[i].code, "plot %s: exit code %d", rows[i].arguments, code);
        must_say(rows[i].message);
    }
    shell_leave();
}
END_TEST

/* ---- --follow, on a terminal ---- */

typedef struct {
    pid_t pid;
    int terminal;
    char text[1 << 18]; /* everything that was drawn so far; `length` bytes */
    size_t length;
} screen;

static void open_screen(screen *s, int columns, const char *kind)
{
    struct winsize size = { .ws_row = 24, .ws_col = (unsigned short)columns };
    s->length = 0;
    s->text[0] = '\0';
    s->pid = forkpty(&s->terminal, NULL, NULL, &size);
    ck_assert_int_ge(s->pid, 0);
    if (s->pid == 0) {
        setenv("TERM", kind, 1);
        setenv("LC_ALL", "C", 1);
        unsetenv("COLUMNS");
        unsetenv("LINES");
        execl(CS_BIN "/cspeed", "cspeed", "plot", "run", "--what", "loss", "--follow", (char *)NULL);
        _exit(127);
    }
}

/* Reads the terminal until the text `wanted` has been drawn. If `wanted` is NULL, reads until the program closes the
 * terminal. */
static void await_text(screen *s, const char *wanted)
{
    enum { SECONDS = 60 };
    ssize_t part = 1;
    while (part > 0 && !(wanted && strstr(s->text, wanted))) {
        struct pollfd ready = { .fd = s->terminal, .events = POLLIN };
        ck_assert_msg(poll(&ready, 1, SECONDS * 1000) == 1, "no \"%s\" in:\n%s", wanted ? wanted : "end", s->text);
        part = read(s->terminal, s->text + s->length, sizeof s->text - s->length - 1);
        s->length += part > 0 ? (size_t)part : 0;
        s->text[s->length] = '\0';
    }
    ck_assert_msg(!wanted || part > 0, "no \"%s\" in:\n%s", wanted, s->text);
}

/* Waits for the end of the program. Returns its exit code, or 128 + the signal that ended it. */
static int close_screen(screen *s)
{
    int status;
    await_text(s, NULL);
    ck_assert_int_eq(waitpid(s->pid, &status, 0), s->pid);
    close(s->terminal);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* While the file .cspeed-owner exists, the training in this folder has not ended. */
START_TEST(a_growing_run_is_followed_to_its_end)
{
    static screen s;
    shell_enter();
    ck_assert_int_eq(shell_run("mkdir run && : > run/.cspeed-owner"), 0);
    open_screen(&s, 40, "xterm");
    await_text(&s, "no step is written yet");
    shell_write("run/metrics.jsonl", "{\"step\": 1, \"loss\": 4}\n{\"step\": 2, \"loss\": 3.5}\n");
    await_text(&s, "\033[H\033[Jloss    * loss 3.5\r\n");
    ck_assert_int_eq(shell_run("echo '{\"step\": 3, \"loss\": 1.25}' >> run/metrics.jsonl"), 0);
    await_text(&s, "loss 1.25\r\n");
    ck_assert_int_eq(shell_run("echo '{\"step\": 4, \"loss\": 0.5}' >> run/metrics.jsonl && rm run/.cspeed-owner"), 0);
    ck_assert_int_eq(close_screen(&s), 0);
    const char *last = strstr(s.text, "loss 0.5\r\n");
    ck_assert_ptr_nonnull(last);
    ck_assert_ptr_null(strstr(last, "\033[H")); /* after the last curve the screen is not cleared again */
    shell_leave();
}
END_TEST

START_TEST(an_interrupt_ends_following)
{
    static screen s;
    prepare();
    ck_assert_int_eq(shell_run(": > run/.cspeed-owner"), 0);
    open_screen(&s, 40, "xterm");
    await_text(&s, "valid_loss 2");
    ck_assert_int_eq(write(s.terminal, "\003", 1), 1); /* sends Ctrl-C */
    ck_assert_int_eq(close_screen(&s), 128 + SIGINT);
    open_screen(&s, 40, "dumb");
    ck_assert_int_eq(close_screen(&s), 64);
    ck_assert_ptr_nonnull(strstr(s.text, "only a terminal is redrawn"));
    shell_leave();
}
END_TEST

SUITE_MAIN("plot", the_text_is_the_golden_one, pictures_are_well_formed, a_png_is_made_by_a_program,
           options_change_the_diagrams, faults_are_named, a_growing_run_is_followed_to_its_end,
           an_interrupt_ends_following)
