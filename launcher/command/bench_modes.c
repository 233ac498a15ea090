/* bench_modes.c - `cspeed bench modes`: measures the samples per second of each training mode on this machine.
 *
 * Each measurement is a separate training, which this command starts in a temporary folder, as a user would. The time
 * of a step is the mean over the steps after the warm-up, and comes from the metrics of the training. The rest of the
 * training's duration is the time that its start and its end take. */
#include "command/bench_modes.h"

#include "base/clock.h"
#include "codes.h"
#include "command.h"
#include "cspeed/plot.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { WARM_UP = 5, MICRO = 4, TEXT_BYTES = 1 << 18, TEXT_CAPACITY = 256 };
/* The diagram's axis shows the number of samples, from 10^MIN_EXPONENT to 10^MAX_EXPONENT. */
enum { MIN_EXPONENT = 2, MAX_EXPONENT = 7, POINTS = MAX_EXPONENT - MIN_EXPONENT + 1 };

static const struct {
    const char *name, *text;
    int length;
} models[] = {
    { "small", "\"n_layer\": 2, \"n_head\": 2, \"n_embd\": 64, \"n_positions\": 32", 32 },
    { "larger", "\"n_layer\": 4, \"n_head\": 4, \"n_embd\": 128, \"n_positions\": 64", 64 },
};
enum { MODELS = sizeof models / sizeof *models };

enum { DP, DDP };
static const struct {
    const char *name, *keys;
    bool one_process, server;
    int stage;
} modes[] = {
    [DP] = { "dp", "\"mode\": \"dp\", \"dp\": {\"threads\": %d},", true, false, 0 },
    [DDP] = { "ddp", "", false, false, 0 },
    { "zero 1", "", false, false, 1 },
    { "zero 2", "", false, false, 2 },
    { "zero 3", "", false, false, 3 },
    { "ps", "\"mode\": \"ps\",", false, true, 0 },
    { "ps async", "\"mode\": \"ps\", \"ps\": {\"async\": true, \"staleness\": 4},", false, true, 0 },
};
enum { MODES = sizeof modes / sizeof *modes };

typedef struct {
    int64_t workers, steps;
    const char *plot;
    char folder[PATH_MAX / 2];
} request;

/* ---- one training ---- */

static int write_file(const request *r, const char *name, const char *text)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", r->folder, name);
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        return cl_codes_fail(CL_CODE_LOG, "bench modes: %s cannot be written", path);
    return 0;
}

static int write_text(const request *r)
{
    char *text = malloc(TEXT_BYTES + 1);
    uint32_t state = 1;
    if (!text)
        return cl_codes_fail(CL_CODE_SYSTEM, "bench modes: out of memory");
    for (int i = 0; i < TEXT_BYTES; i++)
        text[i] = (char)('a' + ((state = state * 1664525u + 1013904223u) >> 24) % 26);
    text[TEXT_BYTES] = 0;
    int code = write_file(r, "text.txt", text);
    free(text);
    return code;
}

static int write_config(const request *r, int model, int mode)
{
    char text[2048], keys[TEXT_CAPACITY];
    snprintf(keys, sizeof keys, modes[mode].keys, (int)r->workers);
    snprintf(
        text, sizeof text,
        "{\"train_micro_batch_size_per_gpu\": %d, \"gradient_clipping\": 0, \"zero_optimization\": {\"stage\": %d},\n"
        "\"cspeed\": {%s \"device\": \"cpu\", \"steps\": %lld, \"save_interval\": 0, \"output\": \"run\",\n"
        "\"data\": {\"train\": \"text.txt\", \"seq_len\": %d},\n"
        "\"model\": {\"model_type\": \"gpt2\", \"vocab_size\": 257, %s}}}\n",
        MICRO, modes[mode].stage, keys, (long long)r->steps, models[model].length, models[model].text);
    return write_file(r, "modes.json", text);
}

/* Starts the training in the temporary folder, with its output in the file "log" there. Returns its exit code. */
static int start(const request *r, int mode)
{
    char ranks[16], self[PATH_MAX] = "";
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status;
    snprintf(ranks, sizeof ranks, "%d", modes[mode].one_process ? 1 : (int)r->workers + modes[mode].server);
    if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
        return cl_codes_fail(CL_CODE_SYSTEM, "bench modes: /proc/self/exe cannot be read");
    char *words[] = { self,    "--quiet",  "--num_gpus", ranks,     "--oversubscribe",
                      "train", "--config", "modes.json", "--fresh", NULL };
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, r->folder);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "log", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    int error = posix_spawn(&pid, self, &actions, NULL, words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error || waitpid(pid, &status, 0) < 0)
        return cl_codes_fail(CL_CODE_SYSTEM, "bench modes: %s cannot be started", self);
    int code = cl_codes_of_status(status);
    return code ? cl_codes_fail(code, "bench modes: the training with %s failed; %s/log says why", modes[mode].name,
                                r->folder)
                : 0;
}

static int read_metrics(const request *r, double duration, cl_bench_mode *measured)
{
    static const char *const keys[] = { "step_ms", "samples" };
    cs_plot_curve curves[2] = { { .name = keys[0] }, { .name = keys[1] } };
    char path[PATH_MAX];
    double all = 0, counted = 0;
    snprintf(path, sizeof path, "%s/run", r->folder);
    cs_status status = cs_plot_read(path, keys, 2, curves);
    if (status != CS_OK)
        return cs_exit_code(status);
    int64_t count = curves[0].count;
    for (int64_t i = 0; i < count; i++) {
        all += 1e-3 * curves[0].points[i].y;
        counted += i < WARM_UP ? 0 : 1e-3 * curves[0].points[i].y;
    }
    double samples = curves[1].points[count - 1].y - curves[1].points[WARM_UP - 1].y;
    *measured = (cl_bench_mode){ duration > all ? duration - all : 0, samples / counted };
    cs_plot_free(curves, 2);
    return 0;
}

static int measure(const request *r, int model, int mode, cl_bench_mode *measured)
{
    double begun = ce_clock_seconds();
    int code = write_config(r, model, mode);
    if (code == 0)
        code = start(r, mode);
    return code ? code : read_metrics(r, ce_clock_seconds() - begun, measured);
}

/* ---- the results ---- */

static void print_row(const request *r, int model, int mode, const cl_bench_mode *measured)
{
    int ranks = modes[mode].one_process ? 1 : (int)r->workers + modes[mode].server;
    double batch = (double)(MICRO * r->workers);
    printf("%-8s  %-9s  %9d  %7.2f  %11.1f  %9.2f\n", models[model].name, modes[mode].name, ranks, measured->start,
           measured->rate, 1e3 * batch / measured->rate);
    fflush(stdout);
}

/* Training on D samples takes start + D / rate seconds. For a large D, the mode with the higher rate takes less time.
 * If that mode also has the shorter start, it takes less time for every D. If the rates are equal, the mode with the
 * shorter start takes less time for every D. */
void cl_bench_modes_compare(char *text, size_t size, cl_bench_mode dp, cl_bench_mode ddp)
{
    bool ddp_wins = ddp.rate > dp.rate || (ddp.rate == dp.rate && ddp.start < dp.start);
    cl_bench_mode winner = ddp_wins ? ddp : dp, other = ddp_wins ? dp : ddp;
    const char *name = modes[ddp_wins ? DDP : DP].name, *slower = modes[ddp_wins ? DP : DDP].name;
    double later = winner.start - other.start;
    if (later > 0 && winner.rate > other.rate) {
        double first = floor(later * winner.rate * other.rate / (winner.rate - other.rate)) + 1;
        snprintf(text, size, "one pass is faster with %s than with %s from %.0f sample%s on", name, slower, first,
                 first > 1 ? "s" : "");
    } else if (later == 0 && winner.rate == other.rate) {
        snprintf(text, size, "one pass takes as long with %s as with %s", name, slower);
    } else {
        snprintf(text, size, "one pass is faster with %s than with %s for any number of samples", name, slower);
    }
}

static int draw(const request *r, cl_bench_mode results[MODELS][MODES])
{
    static cs_plot_point points[MODELS][MODES][POINTS];
    static cs_plot_curve curves[MODELS][MODES];
    static char titles[MODELS][TEXT_CAPACITY];
    cs_plot plots[MODELS];
    for (int model = 0; model < MODELS; model++) {
        for (int mode = 0; mode < MODES; mode++) {
            const cl_bench_mode *one = &results[model][mode];
            for (int i = 0; i < POINTS; i++)
                points[model][mode][i] =
                    (cs_plot_point){ MIN_EXPONENT + i, log10(one->start + pow(10, MIN_EXPONENT + i) / one->rate) };
            curves[model][mode] = (cs_plot_curve){ modes[mode].name, points[model][mode], POINTS };
        }
        snprintf(titles[model], TEXT_CAPACITY, "%s model: log10 of the seconds of one pass, by log10 of its samples",
                 models[model].name);
        plots[model] = (cs_plot){ titles[model], curves[model], MODES };
    }
    FILE *file = fopen(r->plot, "w");
    if (file)
        cs_plot_svg(file, plots, MODELS);
    return file && fclose(file) == 0 ? 0 : cl_codes_fail(CL_CODE_LOG, "%s cannot be written", r->plot);
}

static int measure_all(const request *r)
{
    cl_bench_mode results[MODELS][MODES];
    int code = write_text(r);
    printf("%lld replicas, %d samples each in a step, %lld steps\n%-8s  %-9s  %9s  %7s  %11s  %9s\n",
           (long long)r->workers, MICRO, (long long)r->steps, "model", "mode", "processes", "start s", "samples/s",
           "ms a step");
    for (int model = 0; model < MODELS; model++)
        for (int mode = 0; mode < MODES && code == 0; mode++) {
            code = measure(r, model, mode, &results[model][mode]);
            if (code == 0)
                print_row(r, model, mode, &results[model][mode]);
        }
    if (code)
        return code;
    for (int model = 0; model < MODELS; model++) {
        char text[TEXT_CAPACITY];
        cl_bench_modes_compare(text, sizeof text, results[model][DP], results[model][DDP]);
        printf("%s: %s\n", models[model].name, text);
    }
    return r->plot ? draw(r, results) : 0;
}

/* ---- the command ---- */

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *walk)
{
    (void)stat;
    (void)kind;
    (void)walk;
    return remove(path);
}

int cl_bench_modes(char **arguments)
{
    static const cs_option table[] = {
        { CS_OPTION(WHOLE, "workers", request, workers, "N", "replicas, from 2 to 64 (2)"), .min = 2, .max = 64 },
        { CS_OPTION(WHOLE, "steps", request, steps, "N",
                    "steps of each training, at least 6, because the first 5 are not counted (30)"),
          .min = WARM_UP + 1, .max = 1e6 },
        { CS_OPTION(TEXT, "plot", request, plot, "FILE.svg", "draw the seconds of one pass by its number of samples") },
        { .names = "help h", .kind = CS_OPTION_HELP, .text = "these options" },
    };
    static const cs_options_form form = { .usage =
                                              "usage: cspeed bench modes [options]\n\n"
                                              "Trains two small models with each mode, and says which mode pays.\n",
                                          .name = "bench modes",
                                          .what = "flag",
                                          .hint = "see cspeed bench modes --help",
                                          CS_OPTIONS_TABLE(table) };
    const char *above = getenv("TMPDIR");
    request r = { .workers = 2, .steps = 30 };
    int code = cs_options_read(&form, &r, &arguments);
    if (code == 0)
        code = cl_command_check_svg(r.plot);
    if (code)
        return code;
    snprintf(r.folder, sizeof r.folder, "%s/cspeed-modes-XXXXXX", above ? above : "/tmp");
    if (!mkdtemp(r.folder))
        return cl_codes_fail(CL_CODE_LOG, "bench modes: no folder in %s can be made", above ? above : "/tmp");
    code = measure_all(&r);
    if (code == 0)
        nftw(r.folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return code;
}
