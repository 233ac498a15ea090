/* plot.c - `cspeed plot`: draws the metrics of runs over their steps, in the terminal, as SVG, HTML and PNG. */
#include "base/must.h"
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
    const char *runs[MAX_RUNS], *files[CS_PLOT_PNG + 1], *what; /* files: for each form of a picture, or NULL */
    int run_count, log;
    bool follow, full, draws; /* draws: a file is written */
    double smooth;            /* below 0: not given */
    char *words;              /* a copy of `what`, split into the names of keys */
    /* for each diagram its key and the key of its second curves, which is "" unless the first key is "loss" */
    const char *keys[MAX_KEYS][2];
    int shown;
} request;

/* The curves of all diagrams: of run r, curves[diagram][r][0] and [1]. */
typedef struct {
    cs_plot_curve curves[MAX_KEYS][MAX_RUNS][2];
    cs_plot plots[MAX_KEYS];
    int count;
    char names[MAX_RUNS][PATH_MAX + 16];
} picture;

/* ---- the command line ---- */

static int divide_keys(request *r)
{
    r->words = ce_must_copy(r->what ? r->what : usual);
    for (char *next, *key = strtok_r(r->words, ",", &next); key; key = strtok_r(NULL, ",", &next)) {
        if (r->shown == MAX_KEYS)
            return cl_codes_fail(CL_CODE_USAGE, "plot: --what names more than %d keys", MAX_KEYS);
        r->keys[r->shown][0] = key;
        r->keys[r->shown++][1] = strcmp(key, "loss") == 0 ? with_loss : "";
    }
    return r->shown > 0 ? 0
                        : cl_codes_fail(CL_CODE_USAGE, "plot: --what needs keys of metrics.jsonl, such as %s", usual);
}

static int check(request *r)
{
    for (int form = 0; form <= CS_PLOT_PNG; form++)
        r->draws |= r->files[form] != NULL;
    if (r->follow && (r->draws || !ce_terminal_is(STDOUT_FILENO)))
        return cl_codes_fail(CL_CODE_USAGE,
                             "not supported: --follow with --svg, --html or --png, or into a file or a pipe, because "
                             "only a terminal is redrawn");
    return divide_keys(r);
}

static int read_arguments(request *r, char **at)
{
    static const cs_option table[] = {
        { CL_COMMAND_OPTION(TEXT, "svg", files[CS_PLOT_SVG], "FILE") },
        { CL_COMMAND_OPTION(TEXT, "html", files[CS_PLOT_HTML], "FILE") },
        { CL_COMMAND_OPTION(TEXT, "png", files[CS_PLOT_PNG], "FILE") },
        { CL_COMMAND_OPTION(TEXT, "what", what, "KEY,...") },
        { CL_COMMAND_OPTION(CHOICE, "log", log, "none|x|y|xy") },
        { CL_COMMAND_OPTION(NUMBER, "smooth", smooth, "W"), .min = 0, .max = 0.99999 },
        { CL_COMMAND_OPTION(SWITCH, "full", full, NULL) },
        { CL_COMMAND_OPTION(SWITCH, "follow", follow, NULL) },
    };
    static const char needs[] = "name the output folder of a training, or its file of metrics";
    static const cs_options_form form = { CL_COMMAND_FORM("plot", 1, MAX_RUNS, needs), CS_OPTIONS_TABLE(table) };
    r->smooth = -1;
    int code = cs_options_read(&form, r, &at);
    for (; code == 0 && *at; at++)
        r->runs[r->run_count++] = *at;
    return code ? code : check(r);
}

/* ---- the diagrams ---- */

static cs_status read_run(picture *all, const request *r, int run)
{
    cs_plot_curve read[MAX_KEYS][2] = { 0 };
    cs_status status = cs_plot_read(r->runs[run], r->keys[0], 2 * r->shown, read[0]);
    snprintf(all->names[run], sizeof all->names[run], "%s %s", r->runs[run], with_loss);
    for (int i = 0; i < 2 * r->shown; i++) {
        cs_plot_curve *curve = &all->curves[i / 2][run][i % 2];
        *curve = read[i / 2][i % 2];
        curve->name = r->run_count == 1 ? r->keys[i / 2][i % 2] : i % 2 ? all->names[run] : r->runs[run];
        curve->is_second = i % 2 && curve[-1].count > 0;
    }
    return status;
}

/* Adds the diagram of a key with the curves that have values. Returns false if there is none. */
static bool add_diagram(picture *all, const request *r, int key)
{
    cs_plot_curve *curves = all->curves[key][0];
    cs_plot plot = { .title = r->keys[key][0],
                     .curves = curves,
                     .log_x = (r->log & 1) != 0,
                     .log_y = (r->log & 2) != 0,
                     .full = r->full,
                     .smooth = r->draws || r->smooth >= 0 ? r->smooth : 0 };
    for (int c = 0; c < 2 * r->run_count; c++) {
        cs_plot_curve curve = curves[c];
        curves[c] = (cs_plot_curve){ 0 };
        if (curve.count + curve.nulls > 0)
            curves[plot.count++] = curve;
    }
    if (plot.count > 0)
        all->plots[all->count++] = plot;
    return plot.count > 0;
}

static int fail_missing(const request *r, const char *key)
{
    CE_FREED char *keys = NULL;
    cs_status status = cs_plot_keys(r->runs[0], &keys);
    return status != CS_OK
               ? cs_exit_code(status)
               : cl_codes_fail(CL_CODE_FILE, "plot: no step of %s%s has a number \"%s\"; there are %s", r->runs[0],
                               r->run_count > 1 ? " and the other runs" : "", key, keys ? keys : "none");
}

static void forget_runs(picture *all)
{
    cs_plot_free(all->curves[0][0], MAX_KEYS * MAX_RUNS * 2);
}

/* `early` is true while a training runs: a missing file or key is then no error, because the training may write the
 * file or the key later. */
static int read_runs(picture *all, const request *r, bool early)
{
    forget_runs(all);
    all->count = 0;
    for (int run = 0; run < r->run_count; run++) {
        cs_status status = read_run(all, r, run);
        if (status != CS_OK && !(early && status == CS_NOT_FOUND))
            return cs_exit_code(status);
    }
    for (int key = 0; key < r->shown; key++)
        if (!add_diagram(all, r, key) && r->what && !early)
            return fail_missing(r, r->keys[key][0]);
    if (all->count == 0 && !early)
        return cl_codes_fail(CL_CODE_FILE, "plot: no step of %s%s is written yet, so there is nothing to draw",
                             r->runs[0], r->run_count > 1 ? " and the other runs" : "");
    return 0;
}

/* ---- the outputs: files, terminal ---- */

static int write_files(const picture *all, const request *r)
{
    char title[PATH_MAX + 32];
    int others = r->run_count - 1;
    snprintf(title, sizeof title, others ? "%s and %d more" : "%s", r->runs[0], others);
    for (int form = 0; form <= CS_PLOT_PNG; form++)
        if (r->files[form] && cs_plot_write(r->files[form], (cs_plot_form)form, title, all->plots, all->count) != CS_OK)
            return CL_CODE_LOG;
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
    if (code == 0 && r->draws)
        return write_files(all, r);
    if (code == 0)
        print(all, ROWS);
    return code;
}

static int run(const cl_options *options, char **arguments)
{
    request r = { 0 };
    CE_FREED picture *all = ce_must_alloc(sizeof *all);
    (void)options;
    int code = read_arguments(&r, arguments);
    if (code == 0)
        code = show(all, &r);
    forget_runs(all);
    free(r.words);
    return code;
}

const cl_command cl_command_plot = {
    .name = "plot",
    .group = "Look",
    .summary = "draw the curves of trainings: loss, learning rate, gradient norm, speed",
    .usage = "cspeed plot RUN... [--what KEY,...] [--svg FILE] [--html FILE]\n"
             "                 [--png FILE] [--log x|y|xy] [--smooth W] [--full] [--follow]",
    .text = "Draws the metrics of trainings over their steps: in the terminal, as an SVG or PNG picture, or as an\n"
            "HTML page that needs no other file and shows the values under the pointer. RUN is the output folder\n"
            "of a training or its file of metrics; the curves of several runs are drawn in the same diagrams.\n"
            "--what chooses keys of metrics.jsonl; default: loss (and valid_loss), lr, grad_norm and\n"
            "tokens_per_s. If one column stands for several steps, their lowest and highest values are drawn.\n"
            "--log makes the axis of the steps (x), of the values (y) or both logarithmic. --smooth sets the\n"
            "weight of the moving average that pictures draw over curves that go up and down; 0: none. --full\n"
            "lets the axis include values that are far from all others. A PNG needs the program rsvg-convert\n"
            "(Debian's package librsvg2-bin). --follow redraws the terminal every second until the training has\n"
            "ended; Ctrl-C ends the drawing earlier. `cspeed help metrics` says more.\n",
    .example = "cspeed plot runs/quickstart --what loss,lr --html curves.html",
    .run = run,
};
