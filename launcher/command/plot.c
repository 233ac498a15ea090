/* plot.c - `cspeed plot`: draws the metrics of runs over their steps, in the terminal, as SVG and as HTML. */
#include "base/status.h"
#include "base/terminal.h"
#include "ground/codes.h"
#include "ground/command.h"
#include "cspeed/plot.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RUNS = 16, MAX_KEYS = 16, ROWS = 12, PATIENCE = 60 };

static const char usual[] = "loss,lr,grad_norm,tokens_per_s", with_loss[] = "valid_loss";

typedef struct {
    const char *runs[MAX_RUNS], *svg, *html, *what;
    int run_count;
    bool follow;
    char *words; /* a copy of `what`, split into the names of keys */
    const char *keys[MAX_KEYS + 1];
    /* key_count: the number of keys to read; shown: the number of diagrams. If a diagram shows "loss", the key
     * "valid_loss" is also read. */
    int key_count, shown;
} request;

/* The curves of all runs: read[run][key]. The diagrams point to these curves and do not own them. */
typedef struct {
    cs_plot_curve read[MAX_RUNS][MAX_KEYS + 1], curves[MAX_KEYS][2 * MAX_RUNS];
    cs_plot plots[MAX_KEYS];
    int count;
    char names[MAX_RUNS][PATH_MAX + 16];
} picture;

/* ---- the command line ---- */

static int divide_keys(request *r)
{
    r->words = strdup(r->what ? r->what : usual);
    if (!r->words)
        return cl_codes_fail(CL_CODE_SYSTEM, "plot: out of memory");
    for (char *next, *key = strtok_r(r->words, ",", &next); key; key = strtok_r(NULL, ",", &next)) {
        if (r->shown == MAX_KEYS)
            return cl_codes_fail(CL_CODE_USAGE, "plot: --what names more than %d keys", MAX_KEYS);
        r->keys[r->shown++] = key;
    }
    if (r->shown == 0)
        return cl_codes_fail(CL_CODE_USAGE, "plot: --what needs keys of metrics.jsonl, such as %s", usual);
    r->key_count = r->shown;
    for (int i = 0; i < r->shown && r->key_count == r->shown; i++)
        if (strcmp(r->keys[i], "loss") == 0)
            r->keys[r->key_count++] = with_loss;
    return 0;
}

static int check(request *r)
{
    if (r->follow && (r->svg || r->html))
        return cl_codes_fail(CL_CODE_USAGE, "not supported: --follow with %s, because only the terminal is redrawn",
                             r->svg ? "--svg" : "--html");
    if (r->follow && !ce_terminal_is(STDOUT_FILENO))
        return cl_codes_fail(CL_CODE_USAGE,
                             "not supported: --follow into a file or a pipe, because only a terminal is redrawn");
    return divide_keys(r);
}

static int read_arguments(request *r, char **at)
{
    static const cs_option table[] = {
        { CL_COMMAND_OPTION(TEXT, "svg", svg, "FILE") },
        { CL_COMMAND_OPTION(TEXT, "html", html, "FILE") },
        { CL_COMMAND_OPTION(TEXT, "what", what, "KEY,...") },
        { CL_COMMAND_OPTION(SWITCH, "follow", follow, NULL) },
    };
    static const char needs[] = "name the output folder of a training, or its file of metrics";
    static const cs_options_form form = { CL_COMMAND_FORM("plot", 1, MAX_RUNS, needs), CS_OPTIONS_TABLE(table) };
    int code = cs_options_read(&form, r, &at);
    for (; code == 0 && *at; at++)
        r->runs[r->run_count++] = *at;
    return code ? code : check(r);
}

/* ---- the diagrams ---- */

static void add_curve(picture *all, int count[], const cs_plot_curve *read, const char *name)
{
    if (read->count == 0)
        return;
    cs_plot_curve *curve = &all->curves[all->count][(*count)++];
    *curve = *read;
    curve->name = name;
}

static bool add_diagram(picture *all, const request *r, int key)
{
    int count = 0;
    bool both = strcmp(r->keys[key], "loss") == 0;
    for (int run = 0; run < r->run_count; run++) {
        add_curve(all, &count, &all->read[run][key], r->run_count > 1 ? r->runs[run] : r->keys[key]);
        if (both)
            add_curve(all, &count, &all->read[run][r->shown], r->run_count > 1 ? all->names[run] : with_loss);
    }
    if (count > 0)
        all->plots[all->count] = (cs_plot){ r->keys[key], all->curves[all->count], count };
    all->count += count > 0;
    return count > 0;
}

/* `early` is true while a training runs: a missing file or key is then no error, because the training may write the
 * file or the key later. */
static int read_runs(picture *all, const request *r, bool early)
{
    all->count = 0;
    for (int run = 0; run < r->run_count; run++) {
        cs_status status = cs_plot_read(r->runs[run], r->keys, r->key_count, all->read[run]);
        if (status != CS_OK && !(early && status == CS_NOT_FOUND))
            return cs_exit_code(status);
        snprintf(all->names[run], sizeof all->names[run], "%s %s", r->runs[run], with_loss);
    }
    for (int key = 0; key < r->shown; key++)
        if (!add_diagram(all, r, key) && r->what && !early)
            return cl_codes_fail(CL_CODE_FILE,
                                 "plot: no step of %s%s has a number \"%s\"; --what takes the keys of metrics.jsonl",
                                 r->runs[0], r->run_count > 1 ? " and the other runs" : "", r->keys[key]);
    if (all->count == 0 && !early)
        return cl_codes_fail(CL_CODE_FILE, "plot: no step of %s%s is written yet, so there is nothing to draw",
                             r->runs[0], r->run_count > 1 ? " and the other runs" : "");
    return 0;
}

static void forget_runs(picture *all, const request *r)
{
    for (int run = 0; run < r->run_count; run++)
        cs_plot_free(all->read[run], r->key_count);
}

/* ---- the outputs: terminal, SVG, HTML ---- */

static int write_file(const picture *all, const request *r, const char *name, bool page)
{
    FILE *file = fopen(name, "w");
    if (file && page)
        cs_plot_html(file, r->run_count > 1 ? "cspeed plot" : r->runs[0], all->plots, all->count);
    else if (file)
        cs_plot_svg(file, all->plots, all->count);
    bool good = file && !ferror(file);
    if (!file || fclose(file) != 0 || !good)
        return cl_codes_fail(CL_CODE_LOG, "%s cannot be written", name);
    return 0;
}

static void print(const picture *all, int rows)
{
    for (int i = 0; i < all->count; i++)
        cs_plot_text(stdout, &all->plots[i], cs_plot_screen_of(stdout), rows);
    fflush(stdout);
}

/* Returns true if a training is writing to the folder. A training keeps a file (.cspeed-owner) in its output folder,
 * renews this file every 10 s and removes it at the end. If a training is killed, its file remains but no longer
 * changes. */
static bool is_held(const char *run, time_t *changed, time_t *seen)
{
    char path[PATH_MAX + 32];
    struct stat info;
    bool folder = stat(run, &info) == 0 && S_ISDIR(info.st_mode);
    const char *slash = strrchr(run, '/');
    int length = folder ? (int)strlen(run) : slash ? (int)(slash - run) : 0;
    snprintf(path, sizeof path, "%.*s%s.cspeed-owner", length, run, length || slash ? "/" : "");
    if (stat(path, &info) != 0)
        return false;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (info.st_mtime != *changed)
        *seen = now.tv_sec;
    *changed = info.st_mtime;
    return now.tv_sec - *seen <= PATIENCE;
}

/* Clears the terminal and draws all diagrams again. */
static void redraw(const picture *all)
{
    int rows = (cs_plot_screen_of(stdout).lines - 1) / (all->count ? all->count : 1);
    fputs("\033[H\033[J", stdout);
    if (all->count == 0)
        puts("no step is written yet");
    print(all, rows < ROWS || all->count == 1 ? rows : ROWS);
}

static int follow(picture *all, const request *r)
{
    time_t changed[MAX_RUNS] = { 0 }, seen[MAX_RUNS] = { 0 };
    for (;;) {
        /* The file .cspeed-owner is read before the metrics, so that the last steps of a training that ends now are
         * also drawn. */
        bool held = false;
        for (int run = 0; run < r->run_count; run++)
            held |= is_held(r->runs[run], &changed[run], &seen[run]);
        int code = read_runs(all, r, held);
        if (code)
            return code;
        redraw(all);
        forget_runs(all, r);
        if (!held)
            return 0;
        nanosleep(&(struct timespec){ 1, 0 }, NULL);
    }
}

static int show(picture *all, const request *r)
{
    if (r->follow)
        return follow(all, r);
    int code = read_runs(all, r, false);
    if (code == 0 && r->svg)
        code = write_file(all, r, r->svg, false);
    if (code == 0 && r->html)
        code = write_file(all, r, r->html, true);
    if (code == 0 && !r->svg && !r->html)
        print(all, ROWS);
    return code;
}

static int run(const cl_options *options, char **arguments)
{
    request r = { 0 };
    picture *all = calloc(1, sizeof *all);
    (void)options;
    int code = all ? read_arguments(&r, arguments) : cl_codes_fail(CL_CODE_SYSTEM, "plot: out of memory");
    if (code == 0)
        code = show(all, &r);
    if (all)
        forget_runs(all, &r);
    free(all);
    free(r.words);
    return code;
}

const cl_command cl_command_plot = {
    .name = "plot",
    .group = "Look",
    .summary = "draw the curves of trainings: loss, learning rate, gradient norm, speed",
    .usage = "cspeed plot RUN... [--what KEY,...] [--svg FILE] [--html FILE] [--follow]",
    .text = "Draws the metrics of trainings over their steps: in the terminal, as an SVG picture, or as an HTML\n"
            "page that needs no other file. RUN is the output folder of a training or its file of metrics; the\n"
            "curves of several runs are drawn in the same picture. --what chooses keys of metrics.jsonl; default:\n"
            "loss (and valid_loss), lr, grad_norm and tokens_per_s. If one column of the terminal stands for\n"
            "several steps, their lowest and highest values are drawn. --follow redraws the terminal every second\n"
            "until the training has ended; Ctrl-C ends the drawing earlier.\n",
    .example = "cspeed plot runs/quickstart --what loss,lr --html curves.html",
    .run = run,
};
