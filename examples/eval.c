/* eval.c - how well a model foretells a data set: mean loss, perplexity, and how often the likeliest token is the next.
 *
 * The same bits for any number of ranks. */
#include "cspeed.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { WRONG_USAGE = 64, SETS = 16 };

/* ---- sentences ---- */

static bool is_rank_zero(void)
{
    return cs_launched_rank() == 0;
}

_Noreturn static void leave(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn static void leave(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (is_rank_zero()) {
        fputs("eval: ", stderr);
        vfprintf(stderr, format, arguments);
        fputc('\n', stderr);
    }
    va_end(arguments);
    exit(WRONG_USAGE);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- the command line ---- */

typedef struct {
    const char *source, *tag, *data, *batches, *set[SETS];
    int         set_count;
    bool        json;
} options;

_Noreturn static void help(void)
{
    if (is_rank_zero())
        puts("usage: eval SOURCE [options]\n\n"
             "  SOURCE   a folder of checkpoints, one of them, or a Hugging Face folder\n"
             "  --tag T   which checkpoint; the latest otherwise\n"
             "  --data PATH   a folder made by pack (its valid.bin, else its train shards), or token shards;\n"
             "                otherwise what the training validated on\n"
             "  --batches N   only the first N micro-batches; 0: all (0)\n"
             "  --micro_batch N   windows at a time; otherwise as in training\n"
             "  --seq_len N   tokens of a window; otherwise as in training\n"
             "  --json   one object on standard output\n"
             "  --set PATH=VALUE   a key of the configuration");
    exit(0);
}

static void set(options *given, const char *path, const char *value)
{
    char *assignment;
    if (given->set_count == SETS)
        leave("at most %d keys may be set", SETS);
    if (asprintf(&assignment, "%s%s%s", path, *path ? "=" : "", value) < 0)
        leave("out of memory");
    given->set[given->set_count++] = assignment;
}

static bool take(options *given, const char *flag, const char *value)
{
    if (strcmp(flag, "--tag") == 0)
        given->tag = value;
    else if (strcmp(flag, "--data") == 0)
        given->data = value;
    else if (strcmp(flag, "--batches") == 0)
        given->batches = value;
    else if (strcmp(flag, "--micro_batch") == 0)
        set(given, "train_micro_batch_size_per_gpu", value);
    else if (strcmp(flag, "--seq_len") == 0)
        set(given, "cspeed.data.seq_len", value);
    else if (strcmp(flag, "--set") == 0)
        set(given, "", value);
    else
        return false;
    return true;
}

/* "--flag value" or "--flag=value"; dashes and underscores are one. */
static void read_flag(options *given, char **argument, int *i)
{
    char  flag[32] = "";
    char *equals   = strchr(argument[*i], '=');
    snprintf(flag, sizeof flag, "%.*s", (int)(equals ? equals - argument[*i] : 31), argument[*i]);
    for (size_t at = 2; at < strlen(flag); at++)
        flag[at] = flag[at] == '-' ? '_' : flag[at];
    if (strcmp(flag, "--help") == 0)
        help();
    given->json |= strcmp(flag, "--json") == 0;
    if (strcmp(flag, "--json") == 0)
        return;
    const char *value = equals ? equals + 1 : argument[*i + 1];
    if (!value || !take(given, flag, value))
        leave(value ? "unknown argument %s; try --help" : "%s needs a value, or is unknown; try --help", argument[*i]);
    *i += !equals;
}

static void read_options(options *given, int count, char **argument)
{
    for (int i = 1; i < count; i++) {
        if (strcmp(argument[i], "-h") == 0)
            help();
        if (strncmp(argument[i], "--", 2) == 0)
            read_flag(given, argument, &i);
        else if (given->source)
            leave("%s and %s: one model at a time", given->source, argument[i]);
        else
            given->source = argument[i];
    }
    if (!given->source)
        leave("a folder of checkpoints or a Hugging Face folder is needed; try --help");
}

static int64_t batches_of(const options *given)
{
    char     *end     = NULL;
    long long batches = given->batches ? strtoll(given->batches, &end, 10) : 0;
    if (given->batches && (!*given->batches || *end || batches < 0))
        leave("--batches: \"%s\" is not a whole number", given->batches);
    return batches;
}

/* ---- the model and the data ---- */

/* A folder of pack's, or shards by name or pattern, as the split that is evaluated. */
static void set_data(cs_config *config, const char *path)
{
    struct stat info;
    char       *valid, *assignment;
    bool        folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (asprintf(&valid, "%s/valid.bin", path) < 0 ||
        asprintf(&assignment, "cspeed.data.valid=[\"%s%s\"]", path,
                 !folder ? "" : access(valid, F_OK) == 0 ? "/valid.bin" : "/train-*.bin") < 0)
        leave("out of memory");
    CS_MUST(cs_config_set(config, assignment));
    free(assignment);
    free(valid);
}

static cs_engine *open_model(const options *given)
{
    cs_engine *engine;
    cs_config *config;
    CS_MUST(cs_reopen(&config, given->source, given->tag));
    if (given->data)
        set_data(config, given->data);
    for (int i = 0; i < given->set_count; i++)
        CS_MUST(cs_config_set(config, given->set[i]));
    CS_MUST(cs_config_finish(config));
    if (!cs_config_get_string(config, "cspeed.data.valid"))
        leave("%s names no validation data; --data PATH does", given->source);
    CS_MUST(cs_initialize(&engine, config, NULL));
    const char *checkpoints = cs_config_get_string(config, "cspeed.load");
    if (checkpoints)
        CS_MUST(cs_load_checkpoint(engine, checkpoints, cs_config_get_string(config, "cspeed.tag"),
                                   &(cs_load_options){ .module_only = true }, NULL));
    return engine;
}

/* ---- what came of it ---- */

static void put_number(const char *name, double value)
{
    printf(isfinite(value) ? ", \"%s\": %.17g" : ", \"%s\": null", name, value);
}

static void print_json(const cs_scores *scores, int64_t windows)
{
    printf("{\"tokens\": %" PRId64 ", \"windows\": %" PRId64, scores->tokens, windows);
    put_number("loss", scores->loss);
    put_number("perplexity", exp(scores->loss));
    put_number("accuracy", scores->correct < 0 ? (double)NAN : (double)scores->correct / (double)scores->tokens);
    puts("}");
}

static void print_text(const cs_scores *scores, double seconds)
{
    printf("loss %.6f  perplexity %.4f", scores->loss, exp(scores->loss));
    if (scores->correct >= 0)
        printf("  accuracy %.2f%% (%" PRId64 " of %" PRId64 " tokens)",
               100 * (double)scores->correct / (double)scores->tokens, scores->correct, scores->tokens);
    printf("  %.0f tokens/s\n", (double)scores->tokens / seconds);
}

int main(int argc, char **argv)
{
    options   given = { 0 };
    cs_scores scores;
    cs_data  *data;
    read_options(&given, argc, argv);
    int64_t    batches = batches_of(&given);
    cs_engine *engine  = open_model(&given);
    CS_MUST(cs_data_open(&data, engine, "valid"));
    double started = now();
    CS_MUST(cs_score(engine, data, batches, &scores));
    if (is_rank_zero() && given.json)
        print_json(&scores, cs_data_windows(data));
    else if (is_rank_zero())
        print_text(&scores, now() - started);
    cs_data_close(data);
    cs_destroy(engine);
    for (int i = 0; i < given.set_count; i++)
        free((char *)(uintptr_t)given.set[i]);
    return 0;
}
