/* train.c - train what the configuration names: the program that `cspeed train --config ds_config.json` starts.
 *
 * Written with the public header alone: copy it to begin a program of your own. The training itself is `train` below;
 * the rest reads the command line, draws progress, keeps metrics and samples from what was learnt. */
#include "cspeed.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLE_WINDOW = 128, SAMPLE_TOKENS = 240, FIT_STEPS = 6 };

/* ---- sentences ---- */

static bool is_rank_zero(void)
{
    return cs_launched_rank() == 0;
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

static void complain(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void complain(const char *format, ...)
{
    if (!is_rank_zero())
        return;
    va_list arguments;
    va_start(arguments, format);
    fputs("train: ", stderr);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
}

static char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *text(const char *format, ...)
{
    char   *made;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&made, format, arguments);
    va_end(arguments);
    if (length >= 0)
        return made;
    complain("out of memory");
    exit(1);
}

/* ---- the command line ---- */

enum { WRONG_USAGE = 64 };

typedef struct {
    bool    fresh, steps_given, plan;
    int64_t world_size; /* of the plan */
} command_line;

typedef enum { AS_JSON, AS_STRING, AS_DATA } value_kind;

typedef struct {
    const char *flag;
    value_kind  kind;
    const char *path, *help; /* path: the key that the flag sets; NULL: the value names it */
} override;

static const override overrides[] = {
    { "--model", AS_STRING, "cspeed.model", "DIR   a folder with a Hugging Face config.json" },
    { "--data", AS_DATA, NULL, "PATH   a folder made by pack, or a token shard" },
    { "--steps", AS_JSON, "cspeed.steps", "N   optimizer steps in all" },
    { "--seq_len", AS_JSON, "cspeed.data.seq_len", "N   tokens of a window" },
    { "--output", AS_STRING, "cspeed.output", "DIR   checkpoints and metrics" },
    { "--load", AS_STRING, "cspeed.load", "DIR   start from a checkpoint of another run" },
    { "--tag", AS_STRING, "cspeed.tag", "T   which checkpoint of --load" },
    { "--seed", AS_JSON, "cspeed.seed", "N   of first values, data order, dropout" },
    { "--eval_interval", AS_JSON, "cspeed.eval_interval", "N   steps between validations" },
    { "--save_interval", AS_JSON, "cspeed.save_interval", "N   steps between checkpoints" },
    { "--metrics", AS_STRING, "cspeed.metrics", "FILE   JSON lines, in the output folder" },
    { "--set", AS_JSON, NULL, "PATH=VALUE   any key" },
};
enum { OVERRIDES = sizeof overrides / sizeof *overrides };

_Noreturn static void help(void)
{
    if (!is_rank_zero())
        exit(0);
    puts("usage: train --config FILE [options]\n\n"
         "  --config FILE (or --deepspeed_config FILE)   a DeepSpeed configuration; what it has no word for is in its\n"
         "                                               \"cspeed\" section\n"
         "  --deepspeed   accepted");
    for (int i = 0; i < OVERRIDES; i++)
        printf("  %s %s\n", overrides[i].flag, overrides[i].help);
    puts("  --fresh   start over; what the output folder holds is moved aside\n"
         "  --plan [--world_size N]   the memory of each rank, and nothing else; N: that of the environment, or 1\n"
         "  --lenient   unknown keys of the configuration only warn\n"
         "  --config_help   every key, and what is not supported, and why");
    exit(0);
}

/* A name may look like a number or like JSON ("--tag 20"): in quotes it stays a name. */
static void set_string(cs_config *config, const char *path, const char *value)
{
    char *assignment = text("%s=\"%*s", path, (int)(6 * strlen(value) + 2), ""); /* \u0001 is the longest escape */
    char *end        = assignment + strlen(path) + 2;
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            *end++ = '\\';
        if ((unsigned char)*value < ' ')
            end += sprintf(end, "\\u%04x", (unsigned)*value);
        else
            *end++ = *value;
    }
    memcpy(end, "\"", 2);
    CS_MUST(cs_config_set(config, assignment));
    free(assignment);
}

/* A folder of pack's, or one shard. What the configuration validates on is of another text, and goes. */
static void set_data(cs_config *config, const char *path)
{
    struct stat info;
    bool        folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    char       *train = text("%s%s", path, folder ? "/train-*.bin" : ""), *valid = text("%s/valid.bin", path);
    set_string(config, "cspeed.data.train", train);
    if (access(valid, F_OK) == 0)
        set_string(config, "cspeed.data.valid", valid);
    else
        CS_MUST(cs_config_set(config, "cspeed.data.valid=null"));
    free(train);
    free(valid);
}

/* What follows the flag's name in the argument; dashes and underscores are one. NULL: it is another flag. */
static const char *after(const char *flag, const char *given)
{
    for (; *flag; flag++, given++)
        if (*flag != *given && !(*flag == '_' && *given == '-'))
            return NULL;
    return given;
}

static bool is_flag(const char *flag, const char *given)
{
    const char *rest = after(flag, given);
    return rest && !*rest;
}

/* "--flag value" or "--flag=value". NULL: argument i is another flag. */
static const char *value_of(const char *flag, int count, char **argument, int *i)
{
    const char *rest = after(flag, argument[*i]);
    if (!rest || (*rest && *rest != '='))
        return NULL;
    if (*rest)
        return rest + 1;
    if (*i + 1 < count)
        return argument[++*i];
    complain("%s needs a value", flag);
    exit(WRONG_USAGE);
}

static const char *config_of(int count, char **argument, int *i)
{
    const char *value = value_of("--config", count, argument, i);
    return value ? value : value_of("--deepspeed_config", count, argument, i);
}

static const char *find_config(int count, char **argument)
{
    const char *path = NULL;
    for (int i = 1; i < count; i++) {
        if (is_flag("--help", argument[i]) || is_flag("-h", argument[i]))
            help();
        if (is_flag("--config_help", argument[i])) {
            if (is_rank_zero())
                cs_config_help();
            exit(0);
        }
        const char *value = config_of(count, argument, &i);
        path              = value ? value : path;
    }
    if (path)
        return path;
    complain("--config FILE is missing; try --help");
    exit(WRONG_USAGE);
}

/* path NULL: the value is an assignment, PATH=VALUE. */
static void set_json(cs_config *config, const char *path, const char *value, command_line *options)
{
    char *assignment = text("%s%s%s", path ? path : "", path ? "=" : "", value);
    CS_MUST(cs_config_set(config, assignment));
    options->steps_given |= after("cspeed.steps=", assignment) != NULL;
    free(assignment);
}

static bool take_override(cs_config *config, command_line *options, int count, char **argument, int *i)
{
    for (int at = 0; at < OVERRIDES; at++) {
        const char *value = value_of(overrides[at].flag, count, argument, i);
        if (!value)
            continue;
        if (overrides[at].kind == AS_DATA)
            set_data(config, value);
        else if (overrides[at].kind == AS_STRING)
            set_string(config, overrides[at].path, value);
        else
            set_json(config, overrides[at].path, value, options);
        return true;
    }
    return false;
}

/* ---- the plan ---- */

static bool same_memory(const cs_memory *a, const cs_memory *b)
{
    return a->values == b->values && a->gradients == b->gradients && a->masters == b->masters && a->slots == b->slots;
}

static void print_bytes(const char *name, size_t bytes)
{
    printf("  %-26s %16zu  %10.1f MB\n", name, bytes, 1e-6 * (double)bytes);
}

static void print_memory(const cs_memory *memory)
{
    size_t kept   = memory->values + memory->gradients + memory->masters + memory->slots;
    size_t moving = memory->value_rows + memory->gradient_rows + memory->activations;
    print_bytes("parameters", memory->values);
    print_bytes("gradients", memory->gradients);
    print_bytes("master parameters", memory->masters);
    print_bytes("optimizer states", memory->slots);
    print_bytes("between steps", kept);
    print_bytes("gathered parameters", memory->value_rows);
    print_bytes("gradients not yet reduced", memory->gradient_rows);
    print_bytes("activations", memory->activations);
    print_bytes("in all", kept + moving);
    puts("  workspace of the kernels           settles in the first step");
}

/* Ranks that hold the same are shown once. */
_Noreturn static void show_plan(cs_config *config, int64_t world_size)
{
    char      *head = text("%s, ZeRO-%" PRId64 ", micro-batch %" PRId64, cs_config_get_string(config, "precision"),
                           cs_config_get_int(config, "zero_optimization.stage"),
                           cs_config_get_int(config, "train_micro_batch_size_per_gpu"));
    cs_memory *memory = calloc((size_t)world_size, sizeof *memory);
    int64_t    parameters;
    if (!memory)
        exit(1);
    CS_MUST(cs_estimate(config, memory, &parameters));
    say("memory of a rank: %" PRId64 " parameters, %s, world size %" PRId64, parameters, head, world_size);
    for (int64_t from = 0, to; from < world_size && is_rank_zero(); from = to) {
        for (to = from + 1; to < world_size && same_memory(&memory[from], &memory[to]);)
            to++;
        if (to - from > 1)
            printf("ranks %" PRId64 " to %" PRId64 ", each:\n", from, to - 1);
        else
            printf("rank %" PRId64 ":\n", from);
        print_memory(&memory[from]);
    }
    free(memory);
    free(head);
    exit(0);
}

/* Before the configuration is resolved, as its batches follow from the world. */
static void set_world(cs_config *config, command_line *options, const char *given)
{
    const char *size = given ? given : getenv("WORLD_SIZE");
    char       *end  = NULL;
    options->world_size = size ? strtoll(size, &end, 10) : 1;
    if (size && (*end || options->world_size < 1 || options->world_size > 1000000)) {
        complain("--world_size: \"%s\" is not a number of ranks", size);
        exit(WRONG_USAGE);
    }
    cs_config_for_world(config, (int)options->world_size);
}

/* ---- the command line, read ---- */

static cs_config *read_options(int count, char **argument, command_line *options)
{
    cs_config  *config;
    const char *world_size = NULL;
    CS_MUST(cs_config_open(&config, find_config(count, argument)));
    for (int i = 1; i < count; i++) {
        if (config_of(count, argument, &i) || is_flag("--deepspeed", argument[i]))
            continue;
        const char *size = value_of("--world_size", count, argument, &i);
        if (size) {
            world_size = size;
        } else if (is_flag("--plan", argument[i])) {
            options->plan = true;
        } else if (is_flag("--lenient", argument[i])) {
            cs_config_lenient(config);
        } else if (is_flag("--fresh", argument[i])) {
            options->fresh = true;
        } else if (!take_override(config, options, count, argument, &i)) {
            complain("unknown argument %s; try --help", argument[i]);
            exit(WRONG_USAGE);
        }
    }
    if (options->plan)
        set_world(config, options, world_size);
    CS_MUST(cs_config_finish(config));
    if (options->plan)
        show_plan(config, options->world_size);
    if (world_size) {
        complain("--world_size is for --plan; the launcher says how many ranks a training has");
        exit(WRONG_USAGE);
    }
    const char *tag = cs_config_get_string(config, "cspeed.tag");
    if (!tag || cs_config_get_string(config, "cspeed.load"))
        return config;
    complain("--tag %s says which checkpoint of --load, and there is no --load; give --load DIR too, or neither", tag);
    exit(WRONG_USAGE);
}

/* ---- the output folder ---- */

/* Every folder above the last slash. Returns errno of the last that could not be made, or 0. */
static int make_folders(char *path)
{
    int why = 0;
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            why = errno;
        *slash = '/';
    }
    return why;
}

/* --fresh loses nothing: what the folder holds gets the first free name beside it. */
static bool move_aside(const char *output)
{
    if (access(output, F_OK) != 0)
        return true;
    char *aside = text("%s.1", output);
    for (int i = 2; access(aside, F_OK) == 0; i++) {
        free(aside);
        aside = text("%s.%d", output, i);
    }
    bool moved = rename(output, aside) == 0;
    if (moved)
        say("starting over; the earlier run is in %s", aside);
    else
        complain("cannot move %s to %s: %s", output, aside, strerror(errno));
    free(aside);
    return moved;
}

static bool make_output(const char *output)
{
    struct stat info;
    char       *inside = text("%s/", output);
    int         why    = make_folders(inside);
    free(inside);
    if (stat(output, &info) != 0)
        complain("cannot make the output folder %s: %s; --output DIR names another", output,
                 strerror(why ? why : errno));
    else if (!S_ISDIR(info.st_mode))
        complain("the output folder %s is a file; --output DIR names another", output);
    else if (access(output, W_OK | X_OK) != 0)
        complain("cannot write to the output folder %s: %s; --output DIR names another", output, strerror(errno));
    else
        return true;
    return false;
}

/* Now, as the first checkpoint would be hours too late to learn that there is no place for it. */
static void prepare_output(cs_engine *engine, const char *output, bool fresh)
{
    bool ready = true;
    if (is_rank_zero())
        ready = (!fresh || move_aside(output)) && make_output(output);
    if (!cs_agree(engine, ready))
        exit(1);
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

/* Under the launcher standard output is a pipe, and COLUMNS says how wide the terminal behind it is. */
static int terminal_width(void)
{
    struct winsize window  = { 0 };
    const char    *columns = getenv("COLUMNS");
    if (columns && atoi(columns) > 1)
        return atoi(columns);
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 1 ? window.ws_col : 80;
}

static void draw(progress_line *progress, const cs_metrics *m, int64_t steps, double seconds_a_step)
{
    bool last = m->step == steps;
    if (!is_rank_zero() || (now() - progress->last < (progress->terminal ? 0.1 : 2) && !last && m->step != 1))
        return;
    progress->last = now();
    int64_t left   = (int64_t)((double)(steps - m->step) * seconds_a_step);
    char   *line   = text("step %" PRId64 "/%" PRId64 "  loss %.4f  lr %.2e  norm %.3f  %.0f tok/s  %.0f%% of peak  "
                          "ETA %" PRId64 ":%02" PRId64, m->step, steps, m->loss, m->learning_rate, m->grad_norm,
                          m->tokens_per_second, 100 * m->peak_share, left / 60, left % 60);
    if (progress->terminal) /* a line that wraps could not be drawn over */
        printf("\r%.*s\033[K", terminal_width() - 1, line);
    else
        puts(line);
    progress->open = progress->terminal;
    fflush(stdout);
    free(line);
}

/* ---- metrics.jsonl ---- */

/* Continued, not repeated: lines of steps beyond the checkpoint resumed from go. */
static void keep_lines(const char *path, int64_t step)
{
    struct stat info;
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) /* a pipe or a device holds no lines, and stays */
        return;
    char  *part = text("%s.part", path), *line = NULL;
    size_t room = 0;
    FILE  *in = fopen(path, "r"), *out = in ? fopen(part, "w") : NULL;
    bool   good = out != NULL;
    while (good && getline(&line, &room, in) > 0) {
        long long at = 0;
        if (sscanf(line, "{\"step\": %lld", &at) == 1 && at <= step && line[strlen(line) - 1] == '\n')
            good = fputs(line, out) >= 0;
    }
    good = good && !ferror(in);
    if (in)
        fclose(in);
    if (out)
        good = fclose(out) == 0 && good;
    if (!good || rename(part, path) != 0) {
        complain("cannot rewrite %s by way of %s: %s; lines of steps after %" PRId64 " stay in it", path, part,
                 strerror(errno), step);
        unlink(part);
    }
    free(line);
    free(part);
}

static FILE *open_metrics(const char *output, const char *name, int64_t step)
{
    if (!is_rank_zero() || !name)
        return NULL;
    char *path = name[0] == '/' ? text("%s", name) : text("%s/%s", output, name);
    make_folders(path); /* a failure shows when the file is opened */
    keep_lines(path, step);
    FILE *file = fopen(path, "a");
    if (!file)
        complain("cannot write %s: %s; going on without metrics", path, strerror(errno));
    free(path);
    return file;
}

static void put_number(FILE *file, const char *name, double value)
{
    if (isfinite(value))
        fprintf(file, ", \"%s\": %.9g", name, value);
    else
        fprintf(file, ", \"%s\": null", name);
}

static void put_line(FILE *file, const cs_metrics *m, double valid_loss)
{
    fprintf(file, "{\"step\": %" PRId64, m->step);
    put_number(file, "epoch", m->epoch);
    put_number(file, "loss", m->loss);
    put_number(file, "lr", m->learning_rate);
    put_number(file, "grad_norm", m->grad_norm);
    put_number(file, "loss_scale", m->loss_scale);
    fprintf(file, ", \"skipped\": %" PRId64 ", \"samples\": %" PRId64 ", \"tokens\": %" PRId64, m->skipped, m->samples,
            m->tokens);
    put_number(file, "tokens_per_s", m->tokens_per_second);
    put_number(file, "step_ms", 1e3 * m->step_seconds);
    put_number(file, "peak_share", m->peak_share);
    if (!isnan(valid_loss))
        put_number(file, "valid_loss", valid_loss);
    fputs("}\n", file);
}

static void write_metrics(FILE **file, const cs_metrics *m, double valid_loss)
{
    if (!*file)
        return;
    put_line(*file, m, valid_loss);
    if (fflush(*file) == 0)
        return;
    complain("cannot write the metrics of step %" PRId64 ": %s; going on without metrics", m->step, strerror(errno));
    fclose(*file);
    *file = NULL;
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
    cs_engine    *engine;
    cs_config    *config;
    cs_data      *train, *valid; /* valid NULL: no validation */
    FILE         *metrics;
    progress_line progress;
    char         *output;
    const char   *source; /* the folder of the checkpoint that this run began with; NULL: none */
    int64_t       steps;
    int64_t       first;  /* the step this run began at */
    bool          fitted; /* steps follow from this machine's speed */
    int64_t       saved;  /* the step last said to be saved; -1: none */
    double        best, started, warm;
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

/* Said when it is whole, which in the background is some steps later. */
static void say_saved(training *run)
{
    cs_metrics m = cs_last_step(run->engine);
    if (m.saved_step == run->saved)
        return;
    run->saved = m.saved_step;
    end_line(&run->progress);
    if (cs_config_get_bool(run->config, "cspeed.async_save"))
        say("saved %s/global_step%" PRId64 ", for which training stood still for %.1f ms", run->output, m.saved_step,
            1e3 * m.save_stall);
    else
        say("saved %s/global_step%" PRId64, run->output, m.saved_step);
}

static void save(training *run)
{
    cs_metrics m      = cs_last_step(run->engine);
    char      *best   = isnan(run->best) ? text("null") : text("%.17g", run->best);
    char      *fitted = run->fitted ? text(", \"fitted_steps\": %" PRId64, run->steps) : text("%s", "");
    char      *client = text("{\"step\": %" PRId64 ", \"epoch\": %.9g, \"samples\": %" PRId64 ", \"tokens\": %" PRId64
                             ", \"best_valid_loss\": %s%s}", m.step, m.epoch, m.samples, m.tokens, best, fitted);
    CS_MUST(cs_save_checkpoint(run->engine, run->output, NULL, client));
    say_saved(run);
    free(best);
    free(fitted);
    free(client);
}

static void take_fitted(training *run, int64_t steps)
{
    run->steps  = steps;
    run->fitted = true;
    cs_set_total_steps(run->engine, steps);
}

/* After a few steps the speed is known, the first aside, which warms up; rank 0's clock decides for all. */
static void fit_steps(training *run, const command_line *options)
{
    double     wanted = cs_config_get_number(run->config, "cspeed.fit_seconds");
    cs_metrics m      = cs_last_step(run->engine);
    if (m.step == run->first + 1)
        run->warm = now();
    if (m.step != run->first + FIT_STEPS || run->fitted || wanted <= 0 || options->steps_given)
        return;
    double  seconds = (now() - run->warm) / (FIT_STEPS - 1);
    double  fitting = fmin((double)run->steps, (double)run->first + fmax(wanted / seconds, FIT_STEPS));
    int64_t steps   = cs_agree(run->engine, (int64_t)fitting);
    if (steps >= run->steps)
        return;
    end_line(&run->progress);
    say("%.2f s a step on this machine: %" PRId64 " steps instead of %" PRId64 ", about %.0f s (cspeed.fit_seconds; "
        "--steps N decides otherwise)", seconds, steps, run->steps, wanted);
    take_fitted(run, steps);
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
        write_metrics(&run->metrics, &m, valid);
        say_saved(run);
        if (due(m.step, cs_config_get_int(run->config, "cspeed.save_interval"), run->steps))
            save(run);
    }
    CS_MUST(cs_finish_checkpoint(run->engine));
    say_saved(run);
    end_line(&run->progress);
    cs_log_summary(run->engine);
}

/* The number behind "key": in an object that `save` wrote; `fallback` where there is none. */
static double number_after(const char *json, const char *key, double fallback)
{
    char       *quoted = text("\"%s\":", key), *end;
    const char *at     = json ? strstr(json, quoted) : NULL;
    const char *number = at ? at + strlen(quoted) : "";
    double      value  = strtod(number, &end);
    free(quoted);
    return end > number ? value : fallback;
}

/* Takes up what an earlier run left: its own output folder's newest checkpoint, or the one --load names. */
static void resume(training *run, const command_line *options)
{
    const char *load   = cs_config_get_string(run->config, "cspeed.load");
    const char *tag    = cs_config_get_string(run->config, "cspeed.tag");
    char       *client = NULL;
    cs_status   status = CS_NOT_FOUND;
    if (!options->fresh)
        status = cs_load_checkpoint(run->engine, run->output, NULL, NULL, &client);
    run->source = run->output;
    if (status == CS_OK && load)
        say("--load %s is passed over: %s holds a checkpoint; --fresh starts from %s", load, run->output, load);
    if (status == CS_NOT_FOUND) {
        run->source = load;
        status      = load ? cs_load_checkpoint(run->engine, load, tag, NULL, &client) : CS_OK;
    }
    CS_MUST(status);
    if (!run->source)
        return;
    int64_t fitted = (int64_t)number_after(client, "fitted_steps", 0);
    if (fitted > 0 && run->source == run->output && !options->steps_given) /* another run's budget is not this one's */
        take_fitted(run, fitted);
    run->best  = number_after(client, "best_valid_loss", run->best);
    run->first = cs_last_step(run->engine).step;
    say("continuing at step %" PRId64 " of %" PRId64 ", from %s (--fresh starts over)", run->first, run->steps,
        run->source);
    free(client);
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

/* Lines of the engine's own, which a line that is drawn over and over would swallow. */
static bool engine_talks(const cs_config *config)
{
    return cs_config_get_int(config, "steps_per_print") > 0 || cs_config_get_bool(config, "wall_clock_breakdown") ||
           cs_config_get_bool(config, "memory_breakdown") || cs_config_get_bool(config, "comms_logger.verbose");
}

static void open_training(training *run, const command_line *options)
{
    const char *window    = getenv("CSPEED_TERMINAL"); /* the launcher's, whose pipe hides the terminal */
    run->progress.terminal = (window ? window[0] == '1' : isatty(STDOUT_FILENO)) && !engine_talks(run->config);
    run->output            = text("%s", cs_config_get_string(run->config, "cspeed.output"));
    for (size_t end = strlen(run->output); end > 1 && run->output[end - 1] == '/'; end--)
        run->output[end - 1] = 0;
    CS_MUST(cs_initialize(&run->engine, run->config, NULL));
    CS_MUST(cs_data_open(&run->train, run->engine, "train"));
    if (cs_config_get_string(run->config, "cspeed.data.valid"))
        CS_MUST(cs_data_open(&run->valid, run->engine, "valid"));
    run->steps = cs_config_get_int(run->config, "cspeed.steps"); /* with cspeed.epochs, known now that the data is */
    introduce(run);
    prepare_output(run->engine, run->output, options->fresh);
    resume(run, options);
    run->metrics = open_metrics(run->output, cs_config_get_string(run->config, "cspeed.metrics"), run->first);
    run->started = now();
}

static void close_training(training *run)
{
    if (run->metrics)
        fclose(run->metrics);
    cs_data_close(run->valid);
    cs_data_close(run->train);
    cs_destroy(run->engine);
    free(run->output);
}

int main(int argc, char **argv)
{
    command_line options = { 0 };
    training     run     = { .best = (double)NAN, .saved = -1 };
    run.config           = read_options(argc, argv, &options);
    open_training(&run, &options);
    if (run.first >= run.steps)
        say("%s is finished: %" PRId64 " of %" PRId64 " steps are done; --steps N goes on, --fresh starts over",
            run.source ? run.source : run.output, run.first, run.steps);
    train(&run, &options);
    sample(run.engine, run.config);
    close_training(&run);
    return 0;
}
