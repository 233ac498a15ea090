/* train.c - train what the configuration names: the program that `cspeed train --config ds_config.json` starts.
 *
 * Written with the public headers alone: copy it to begin a program of your own. The training itself is `train` below; the
 * rest reads the command line, draws progress, keeps metrics and samples from what was learnt. */
#include "cspeed.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLE_WINDOW = 128, SAMPLE_TOKENS = 240, FIT_STEPS = 6 };

/* ---- the command line ---- */

typedef struct {
    const char *config;
    bool        fresh, steps_given;
} command_line;

typedef struct {
    const char *flag, *path, *help; /* path: the key that the flag sets */
} override;

static const override overrides[] = {
    { "--model", "cspeed.model", "DIR   a folder with a Hugging Face config.json" },
    { "--data", NULL, "PATH   a folder made by pack, or a token shard" },
    { "--steps", "cspeed.steps", "N   optimizer steps in all" },
    { "--seq_len", "cspeed.data.seq_len", "N   tokens of a window" },
    { "--output", "cspeed.output", "DIR   checkpoints and metrics" },
    { "--load", "cspeed.load", "DIR   start from a checkpoint of another run" },
    { "--tag", "cspeed.tag", "T   which checkpoint of --load" },
    { "--seed", "cspeed.seed", "N   of first values, data order, dropout" },
    { "--eval_interval", "cspeed.eval_interval", "N   steps between validations" },
    { "--save_interval", "cspeed.save_interval", "N   steps between checkpoints" },
    { "--metrics", "cspeed.metrics", "FILE   JSON lines, in the output folder" },
    { "--set", "", "PATH=VALUE   any key" },
};
enum { OVERRIDES = sizeof overrides / sizeof *overrides };

static bool is_rank_zero(void)
{
    const char *rank = getenv("RANK");
    return !rank || atoi(rank) == 0;
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
    if (!is_rank_zero())
        return;
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

_Noreturn static void usage(int code)
{
    FILE *out = code ? stderr : stdout;
    if (is_rank_zero()) {
        fprintf(out, "usage: train --config FILE [options]\n\n"
                     "  --config FILE (or --deepspeed_config FILE)   a DeepSpeed configuration; what it has no word for is in its "
                     "\"cspeed\" section\n"
                     "  --deepspeed   accepted\n");
        for (int i = 0; i < OVERRIDES; i++)
            fprintf(out, "  %s %s\n", overrides[i].flag, overrides[i].help);
        fprintf(out, "  --fresh   start over; what the output folder holds is moved aside\n"
                     "  --lenient   unknown keys of the configuration only warn\n"
                     "  --config_help   every key, and what is not supported, and why\n");
    }
    exit(code);
}

/* A folder of pack's, or one shard. */
static void set_data(cs_config *config, const char *path)
{
    char        assignment[8192];
    struct stat info;
    bool        folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    snprintf(assignment, sizeof assignment, "cspeed.data.train=%s%s", path, folder ? "/train-*.bin" : "");
    CS_MUST(cs_config_set(config, assignment));
    if (!folder)
        return;
    snprintf(assignment, sizeof assignment, "cspeed.data.valid=%s/valid.bin", path);
    CS_MUST(cs_config_set(config, assignment));
}

/* "--flag value" or "--flag=value"; dashes and underscores are one. NULL: argument i is another flag. */
static const char *value_of(const char *flag, int count, char **argument, int *i)
{
    const char *given = argument[*i];
    size_t      at    = 0;
    while (flag[at] && (flag[at] == given[at] || (flag[at] == '_' && given[at] == '-')))
        at++;
    if (flag[at])
        return NULL;
    if (given[at] == '=')
        return given + at + 1;
    if (given[at])
        return NULL;
    if (*i + 1 >= count) {
        if (is_rank_zero())
            fprintf(stderr, "train: %s needs a value\n", flag);
        exit(64);
    }
    return argument[++*i];
}

static bool is_flag(const char *flag, const char *given)
{
    for (; *flag && (*flag == *given || (*flag == '_' && *given == '-')); flag++)
        given++;
    return !*flag && !*given;
}

static bool take_override(cs_config *config, command_line *options, int count, char **argument, int *i)
{
    for (int at = 0; at < OVERRIDES; at++) {
        const char *value = value_of(overrides[at].flag, count, argument, i);
        if (!value)
            continue;
        char assignment[8192];
        if (!overrides[at].path) {
            set_data(config, value);
            return true;
        }
        snprintf(assignment, sizeof assignment, "%s%s%s", overrides[at].path, overrides[at].path[0] ? "=" : "", value);
        CS_MUST(cs_config_set(config, assignment));
        options->steps_given |= strncmp(assignment, "cspeed.steps=", 13) == 0;
        return true;
    }
    return false;
}

static const char *find_config(int count, char **argument)
{
    const char *path = NULL;
    for (int i = 1; i < count; i++) {
        if (is_flag("--help", argument[i]) || is_flag("-h", argument[i]))
            usage(0);
        if (is_flag("--config_help", argument[i])) {
            if (is_rank_zero())
                cs_config_help();
            exit(0);
        }
        const char *value = value_of("--config", count, argument, &i);
        if (!value)
            value = value_of("--deepspeed_config", count, argument, &i);
        path = value ? value : path;
    }
    if (!path) {
        if (is_rank_zero())
            fprintf(stderr, "train: --config FILE is missing; try --help\n");
        exit(64);
    }
    return path;
}

static cs_config *read_options(int count, char **argument, command_line *options)
{
    cs_config *config;
    options->config = find_config(count, argument);
    CS_MUST(cs_config_open(&config, options->config));
    for (int i = 1; i < count; i++) {
        if (value_of("--config", count, argument, &i) || value_of("--deepspeed_config", count, argument, &i))
            continue;
        if (is_flag("--deepspeed", argument[i]))
            continue;
        if (is_flag("--lenient", argument[i])) {
            cs_config_lenient(config);
            continue;
        }
        if (is_flag("--fresh", argument[i])) {
            options->fresh = true;
            continue;
        }
        if (!take_override(config, options, count, argument, &i)) {
            if (is_rank_zero())
                fprintf(stderr, "train: unknown argument %s; try --help\n", argument[i]);
            exit(64);
        }
    }
    return config;
}

/* --fresh loses nothing: what the folder holds gets the first free name beside it. */
static void move_aside(const char *output)
{
    char aside[4096];
    if (!is_rank_zero() || access(output, F_OK) != 0)
        return;
    for (int i = 1; i < 10000; i++) {
        snprintf(aside, sizeof aside, "%s.%d", output, i);
        if (access(aside, F_OK) == 0)
            continue;
        if (rename(output, aside) != 0) {
            fprintf(stderr, "train: cannot move %s to %s: %s\n", output, aside, strerror(errno));
            exit(1);
        }
        say("starting over; the earlier run is in %s", aside);
        return;
    }
}

/* ---- progress ---- */

typedef struct {
    bool   terminal, open; /* open: a line is drawn and not ended */
    double last;
} progress_line;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void end_line(progress_line *progress)
{
    if (progress->open)
        putchar('\n');
    progress->open = false;
}

static void draw(progress_line *progress, const cs_metrics *m, int64_t steps, double seconds_a_step)
{
    bool last = m->step == steps;
    if (!is_rank_zero() || (now() - progress->last < (progress->terminal ? 0.1 : 2) && !last && m->step != 1))
        return;
    progress->last = now();
    char line[256], eta[32] = "";
    double left = (double)(steps - m->step) * seconds_a_step;
    snprintf(eta, sizeof eta, "%d:%02d", (int)(left / 60), (int)left % 60);
    snprintf(line, sizeof line, "step %" PRId64 "/%" PRId64 "  loss %.4f  lr %.2e  norm %.3f  %.0f tok/s  %.0f%% of peak  ETA %s",
             m->step, steps, m->loss, m->learning_rate, m->grad_norm, m->tokens_per_second, 100 * m->peak_share, eta);
    if (progress->terminal)
        printf("\r%s\033[K", line);
    else
        puts(line);
    progress->open = progress->terminal;
    fflush(stdout);
}

/* ---- metrics.jsonl ---- */

static char *join(const char *folder, const char *name)
{
    char *path = NULL;
    if (name[0] == '/')
        path = strdup(name);
    else if (asprintf(&path, "%s/%s", folder, name) < 0)
        path = NULL;
    if (!path)
        exit(1);
    return path;
}

/* Every folder above the file; a failure shows when the file is opened. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
}

/* Continued, not repeated: lines of steps beyond the checkpoint resumed from go. */
static void keep_lines(const char *path, const char *kept, int64_t step)
{
    FILE *in = fopen(path, "r"), *out = in ? fopen(kept, "w") : NULL;
    char *line = NULL;
    size_t room = 0;
    while (out && getline(&line, &room, in) > 0) {
        long long at = 0;
        if (sscanf(line, "{\"step\": %lld", &at) == 1 && at <= step && line[strlen(line) - 1] == '\n')
            fputs(line, out);
    }
    free(line);
    if (in)
        fclose(in);
    if (out && (fclose(out) != 0 || rename(kept, path) != 0))
        fprintf(stderr, "train: cannot rewrite %s: %s\n", path, strerror(errno));
}

static FILE *open_metrics(const char *output, const char *name, int64_t step)
{
    if (!is_rank_zero() || !name)
        return NULL;
    char *path = join(output, name), *kept = join(output, ".metrics.part");
    make_folders(path);
    keep_lines(path, kept, step);
    FILE *file = fopen(path, "a");
    if (!file)
        fprintf(stderr, "train: cannot write %s: %s; going on without metrics\n", path, strerror(errno));
    free(path);
    free(kept);
    return file;
}

static void put_number(FILE *file, const char *name, double value)
{
    if (isfinite(value))
        fprintf(file, ", \"%s\": %.9g", name, value);
    else
        fprintf(file, ", \"%s\": null", name);
}

static void write_metrics(FILE *file, const cs_metrics *m, double valid_loss)
{
    if (!file)
        return;
    fprintf(file, "{\"step\": %" PRId64, m->step);
    put_number(file, "epoch", m->epoch);
    put_number(file, "loss", m->loss);
    put_number(file, "lr", m->learning_rate);
    put_number(file, "grad_norm", m->grad_norm);
    put_number(file, "loss_scale", m->loss_scale);
    fprintf(file, ", \"skipped\": %" PRId64 ", \"samples\": %" PRId64 ", \"tokens\": %" PRId64, m->skipped, m->samples, m->tokens);
    put_number(file, "tokens_per_s", m->tokens_per_second);
    put_number(file, "step_ms", 1e3 * m->step_seconds);
    if (!isnan(valid_loss))
        put_number(file, "valid_loss", valid_loss);
    fputs("}\n", file);
    fflush(file);
}

/* ---- a sample of what was learnt ---- */

/* Softmax at temperature 0.8, drawn by a generator of its own: every rank draws the same. */
static int32_t draw_token(cs_tensor logits, int64_t row)
{
    int64_t vocabulary = cs_columns(logits);
    double  most = -INFINITY, total = 0;
    for (int64_t i = 0; i < vocabulary; i++)
        most = fmax(most, cs_element(logits, row * vocabulary + i));
    for (int64_t i = 0; i < vocabulary; i++)
        total += exp((cs_element(logits, row * vocabulary + i) - most) / 0.8);
    double left = drand48() * total;
    for (int64_t i = 0; i < vocabulary; i++) {
        left -= exp((cs_element(logits, row * vocabulary + i) - most) / 0.8);
        if (left <= 0)
            return (int32_t)i;
    }
    return (int32_t)(vocabulary - 1);
}

/* Bytes are text; for another vocabulary there is no tokenizer to print with. */
static void sample(cs_engine *engine, cs_config *config)
{
    int32_t tokens[SAMPLE_WINDOW + SAMPLE_TOKENS] = { '\n' };
    int64_t window = cs_config_get_int(config, "cspeed.data.seq_len");
    int64_t count  = 1;
    if (cs_vocabulary(engine) != 256)
        return;
    if (window > SAMPLE_WINDOW)
        window = SAMPLE_WINDOW;
    srand48(cs_config_get_int(config, "cspeed.seed"));
    say("\na sample:\n");
    for (; count < SAMPLE_TOKENS; count++) {
        int64_t   from  = count > window ? count - window : 0;
        cs_batch  batch = { .inputs = cs_matrix(tokens + from, CS_I32, 1, window) };
        cs_tensor logits;
        CS_MUST(cs_predict(engine, &batch, &logits));
        tokens[count] = draw_token(logits, count - 1 - from);
        if (is_rank_zero()) {
            putchar(isprint(tokens[count]) || tokens[count] == '\n' ? tokens[count] : '?');
            fflush(stdout);
        }
    }
    say("\n");
}

/* ---- the training ---- */

typedef struct {
    cs_engine *engine;
    cs_config *config;
    cs_data   *train, *valid; /* valid NULL: no validation */
    FILE      *metrics;
    progress_line progress;
    const char *output;
    int64_t    steps;
    bool       fitted; /* steps follow from this machine's speed */
    double     best, started, warm;
    int64_t    first;  /* the step this run began at */
} training;

static double validate(training *run)
{
    double loss = (double)NAN;
    if (!run->valid)
        return loss;
    CS_MUST(cs_evaluate(run->engine, run->valid, cs_config_get_int(run->config, "cspeed.eval_batches"), &loss));
    end_line(&run->progress);
    say("step %" PRId64 "  valid loss %.4f", cs_last_step(run->engine).step, loss);
    run->best = loss < run->best || isnan(run->best) ? loss : run->best;
    return loss;
}

static void save(training *run)
{
    cs_metrics m = cs_last_step(run->engine);
    char       client[512], best[40] = "null", fitted[64] = "";
    if (!isnan(run->best))
        snprintf(best, sizeof best, "%.17g", run->best);
    if (run->fitted)
        snprintf(fitted, sizeof fitted, ", \"fitted_steps\": %" PRId64, run->steps);
    snprintf(client, sizeof client,
             "{\"step\": %" PRId64 ", \"epoch\": %.9g, \"samples\": %" PRId64 ", \"tokens\": %" PRId64
             ", \"best_valid_loss\": %s%s}", m.step, m.epoch, m.samples, m.tokens, best, fitted);
    CS_MUST(cs_save_checkpoint(run->engine, run->output, NULL, client));
    end_line(&run->progress);
    say("saved %s/global_step%" PRId64, run->output, m.step);
}

/* After a few steps the speed is known, the first aside, which warms up; rank 0's clock decides for all. */
static void fit_steps(training *run, const command_line *options)
{
    double     wanted = cs_config_get_number(run->config, "cspeed.fit_seconds");
    cs_metrics m      = cs_last_step(run->engine);
    if (m.step == 1)
        run->warm = now();
    if (m.step != FIT_STEPS || run->first != 0 || wanted <= 0 || options->steps_given)
        return;
    double  seconds = (now() - run->warm) / (FIT_STEPS - 1);
    int64_t fitting = cs_agree(run->engine, (int64_t)(wanted / seconds));
    if (fitting < FIT_STEPS)
        fitting = FIT_STEPS;
    if (fitting >= run->steps)
        return;
    end_line(&run->progress);
    say("%.2f s a step on this machine: %" PRId64 " steps instead of %" PRId64 ", about %.0f s (cspeed.fit_seconds; --steps N decides "
        "otherwise)", seconds, fitting, run->steps, wanted);
    run->steps  = fitting;
    run->fitted = true;
    cs_set_total_steps(run->engine, run->steps);
}

static bool due(int64_t step, int64_t interval, int64_t steps)
{
    return step == steps || (interval > 0 && step % interval == 0);
}

static void train(training *run, const command_line *options)
{
    while (cs_last_step(run->engine).step < run->steps) {
        cs_batch batch = cs_data_next(run->train);
        cs_forward(run->engine, &batch);
        cs_backward(run->engine);
        if (!cs_step(run->engine))
            continue;
        cs_metrics m       = cs_last_step(run->engine);
        double     seconds = (now() - run->started) / (double)(m.step - run->first);
        draw(&run->progress, &m, run->steps, seconds);
        fit_steps(run, options);
        bool   check = due(m.step, cs_config_get_int(run->config, "cspeed.eval_interval"), run->steps);
        double valid = check ? validate(run) : (double)NAN;
        write_metrics(run->metrics, &m, valid);
        if (due(m.step, cs_config_get_int(run->config, "cspeed.save_interval"), run->steps))
            save(run);
    }
    end_line(&run->progress);
}

/* Takes up what an earlier run left: its own output folder's newest checkpoint, or the one --load names. */
static void resume(training *run, const command_line *options)
{
    const char *load = cs_config_get_string(run->config, "cspeed.load"), *tag = cs_config_get_string(run->config, "cspeed.tag");
    char       *client = NULL;
    cs_status   status = CS_NOT_FOUND;
    if (!options->fresh)
        status = cs_load_checkpoint(run->engine, run->output, NULL, NULL, &client);
    if (status == CS_NOT_FOUND && load)
        status = cs_load_checkpoint(run->engine, load, tag, NULL, &client);
    else if (status == CS_NOT_FOUND)
        return;
    CS_MUST(status);
    const char *fitted = client ? strstr(client, "\"fitted_steps\": ") : NULL;
    if (fitted && !options->steps_given) {
        run->steps  = atoll(fitted + 16);
        run->fitted = true;
        cs_set_total_steps(run->engine, run->steps);
    }
    const char *best = client ? strstr(client, "\"best_valid_loss\": ") : NULL;
    if (best && isdigit(best[19]))
        run->best = atof(best + 19);
    run->first = cs_last_step(run->engine).step;
    say("continuing at step %" PRId64 " of %" PRId64 ", from %s (--fresh starts over)", run->first, run->steps,
        load && run->first == 0 ? load : run->output);
    free(client);
}

/* "epochs" instead of "steps": passes over the data. */
static void count_steps(training *run)
{
    int64_t epochs = cs_config_get_int(run->config, "cspeed.epochs"), batch = cs_config_get_int(run->config, "train_batch_size");
    if (epochs == 0)
        return;
    run->steps = (epochs * cs_data_windows(run->train) + batch - 1) / batch;
    cs_set_total_steps(run->engine, run->steps);
}

static void introduce(const training *run)
{
    cs_memory memory = cs_memory_of(run->engine);
    double    kept   = (double)(memory.values + memory.gradients + memory.masters + memory.slots);
    double    moving = (double)(memory.value_rows + memory.gradient_rows + memory.activations);
    say("%.2f M parameters, %s, ZeRO-%" PRId64 ", %d rank%s; %s", 1e-6 * (double)cs_parameter_count(run->engine),
        cs_config_get_string(run->config, "precision"), cs_config_get_int(run->config, "zero_optimization.stage"),
        cs_world_size(run->engine), cs_world_size(run->engine) > 1 ? "s" : "", cs_device_description(run->engine));
    say("a rank holds %.1f MB between steps, and %.1f MB more within one; batch %" PRId64 " = %" PRId64 " x %" PRId64
        " accumulated x %d", 1e-6 * kept, 1e-6 * moving, cs_config_get_int(run->config, "train_batch_size"),
        cs_config_get_int(run->config, "train_micro_batch_size_per_gpu"),
        cs_config_get_int(run->config, "gradient_accumulation_steps"), cs_world_size(run->engine));
}

int main(int argc, char **argv)
{
    command_line options = { 0 };
    training     run     = { .best = (double)NAN };
    const char  *window  = getenv("CSPEED_TERMINAL");
    run.config         = read_options(argc, argv, &options);
    CS_MUST(cs_config_finish(run.config));
    run.output            = cs_config_get_string(run.config, "cspeed.output");
    run.steps             = cs_config_get_int(run.config, "cspeed.steps");
    run.progress.terminal = window ? window[0] == '1' : isatty(STDOUT_FILENO);
    if (options.fresh)
        move_aside(run.output);
    CS_MUST(cs_initialize(&run.engine, run.config, NULL));
    CS_MUST(cs_data_open(&run.train, run.engine, "train"));
    if (cs_config_get_string(run.config, "cspeed.data.valid"))
        CS_MUST(cs_data_open(&run.valid, run.engine, "valid"));
    introduce(&run);
    count_steps(&run);
    resume(&run, &options);
    if (run.first >= run.steps)
        say("%s is finished: %" PRId64 " of %" PRId64 " steps are done; --steps N goes on, --fresh starts over", run.output,
            run.first, run.steps);
    run.metrics = open_metrics(run.output, cs_config_get_string(run.config, "cspeed.metrics"), run.first);
    run.started = now();
    train(&run, &options);
    sample(run.engine, run.config);
    if (run.metrics)
        fclose(run.metrics);
    cs_data_close(run.valid);
    cs_data_close(run.train);
    cs_destroy(run.engine);
    return 0;
}
