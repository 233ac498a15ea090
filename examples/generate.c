/* generate.c - text from a model: what follows a prompt, streamed; or many prompts over all ranks, answered in their
 * order. */
#include "cspeed.h"
#include "base/json.h"
#include "text/encoder.h"
#include "text/unicode.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { WRONG_USAGE = 64, WRONG_CONTENT = 65, MISSING = 66, STOPS = 16 };

/* ---- sentences ---- */

static bool is_rank_zero(void)
{
    return cs_launched_rank() == 0;
}

_Noreturn static void leave(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
_Noreturn static void leave(int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    if (is_rank_zero()) {
        fputs("generate: ", stderr);
        vfprintf(stderr, format, arguments);
        fputc('\n', stderr);
    }
    va_end(arguments);
    exit(code);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- the command line ---- */

typedef struct {
    const char *source, *tag, *prompt, *prompts, *output, *tokenizer, *set[STOPS], *stop[STOPS];
    int         set_count, stop_count;
    int64_t     max_tokens;
    cs_sampling sampling;
} options;

_Noreturn static void help(void)
{
    if (is_rank_zero())
        puts("usage: generate SOURCE [options]\n\n"
             "  SOURCE   a folder of checkpoints, one of them, or a Hugging Face folder\n"
             "  --tag T   which checkpoint; the latest otherwise\n"
             "  --prompt TEXT   what is to be continued; standard input otherwise\n"
             "  --prompts FILE   JSON lines {\"prompt\": ...}: answered over all ranks, in their order, with\n"
             "                   \"text\", \"tokens\" and \"finish\" (end, stop or length) added; -: standard input\n"
             "  --output FILE   where the answers to --prompts go; standard output otherwise\n"
             "  --max_tokens N   at most so many (200)\n"
             "  --temperature X   0: always the likeliest token (0.8)\n"
             "  --top_k N   only of the N likeliest; 0: of all (0)\n"
             "  --top_p X   only of the fewest whose probabilities sum to X (1)\n"
             "  --seed N   of chance (1234)\n"
             "  --stop TEXT   ends before this text; may be repeated\n"
             "  --tokenizer PATH   a folder or a tokenizer.json; otherwise the model's own, or bytes where it has 256\n"
             "                     tokens\n"
             "  --set PATH=VALUE   a key of the configuration");
    exit(0);
}

static int64_t whole(const char *flag, const char *value)
{
    char     *end;
    long long number = strtoll(value, &end, 10);
    if (!*value || *end || number < 0)
        leave(WRONG_USAGE, "%s: \"%s\" is not a whole number", flag, value);
    return number;
}

static double fraction(const char *flag, const char *value, double most)
{
    char  *end;
    double number = strtod(value, &end);
    if (!*value || *end || !(number >= 0) || number > most)
        leave(WRONG_USAGE, "%s: \"%s\" is not a number from 0 to %g", flag, value, most);
    return number;
}

static void append(const char **list, int *count, const char *flag, const char *value)
{
    if (*count == STOPS)
        leave(WRONG_USAGE, "%s: at most %d of them", flag, STOPS);
    if (!*value)
        leave(WRONG_USAGE, "%s: a text is needed", flag);
    list[(*count)++] = value;
}

static bool take(options *given, const char *flag, const char *value)
{
    const struct {
        const char *flag, **text;
    } texts[] = { { "tag", &given->tag },       { "prompt", &given->prompt },       { "prompts", &given->prompts },
                  { "output", &given->output }, { "tokenizer", &given->tokenizer } };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strcmp(flag, texts[i].flag) == 0) {
            *texts[i].text = value;
            return true;
        }
    if (strcmp(flag, "max_tokens") == 0)
        given->max_tokens = whole(flag, value);
    else if (strcmp(flag, "temperature") == 0)
        given->sampling.temperature = fraction(flag, value, 1e6);
    else if (strcmp(flag, "top_k") == 0)
        given->sampling.top_k = whole(flag, value);
    else if (strcmp(flag, "top_p") == 0)
        given->sampling.top_p = fraction(flag, value, 1);
    else if (strcmp(flag, "seed") == 0)
        given->sampling.seed = whole(flag, value);
    else if (strcmp(flag, "stop") == 0)
        append(given->stop, &given->stop_count, flag, value);
    else if (strcmp(flag, "set") == 0)
        append(given->set, &given->set_count, flag, value);
    else
        return false;
    return true;
}

/* "--top-k 5" or "--top_k=5". */
static void read_flag(options *given, char **argument, int *i)
{
    char  flag[32] = "";
    char *text     = argument[*i] + 2, *equals = strchr(text, '=');
    size_t length  = equals ? (size_t)(equals - text) : strlen(text);
    if (strcmp(argument[*i], "--help") == 0)
        help();
    if (length < sizeof flag)
        memcpy(flag, text, length);
    for (char *at = flag; *at; at++)
        *at = *at == '-' ? '_' : *at;
    const char *value = equals ? equals + 1 : argument[*i + 1];
    if (!value || !take(given, flag, value))
        leave(WRONG_USAGE, value ? "unknown argument %s; try --help" : "%s needs a value, or is unknown; try --help",
              argument[*i]);
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
            leave(WRONG_USAGE, "%s and %s: one model at a time", given->source, argument[i]);
        else
            given->source = argument[i];
    }
    if (!given->source)
        leave(WRONG_USAGE, "a folder of checkpoints or a Hugging Face folder is needed; try --help");
    if (given->prompt && given->prompts)
        leave(WRONG_USAGE, "--prompt and --prompts: one of the two");
    if (given->output && !given->prompts)
        leave(WRONG_USAGE, "--output is for --prompts; the text of one prompt goes to standard output");
}

/* ---- the model ---- */

typedef struct {
    const options *given;
    cs_engine     *engine;
    cs_tokenizer  *tokenizer;
    cs_encoder    *encoder;
} model;

static bool has_tokenizer(const char *folder)
{
    static const char *const names[] = { "tokenizer.json", "vocab.json" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = NULL;
        bool  found = asprintf(&path, "%s/%s", folder, names[i]) > 0 && access(path, F_OK) == 0;
        free(path);
        if (found)
            return true;
    }
    return false;
}

static void open_tokenizer(model *m, const char *folder)
{
    const char *path = m->given->tokenizer;
    if (!path && folder && has_tokenizer(folder))
        path = folder;
    if (!path && cs_vocabulary(m->engine) != 256)
        leave(WRONG_USAGE, "%s has no tokenizer.json, and its %" PRId64 " tokens are not bytes; --tokenizer PATH "
              "names one", m->given->source, cs_vocabulary(m->engine));
    CS_MUST(cs_tokenizer_open(&m->tokenizer, path));
    m->encoder = cs_encoder_open(m->tokenizer);
}

static void open_model(model *m)
{
    cs_config *config;
    CS_MUST(cs_reopen(&config, m->given->source, m->given->tag));
    CS_MUST(cs_config_set(config, "train_micro_batch_size_per_gpu=1"));
    for (int i = 0; i < m->given->set_count; i++)
        CS_MUST(cs_config_set(config, m->given->set[i]));
    CS_MUST(cs_initialize(&m->engine, config, NULL));
    const char *checkpoints = cs_config_get_string(config, "cspeed.load");
    if (checkpoints)
        CS_MUST(cs_load_checkpoint(m->engine, checkpoints, cs_config_get_string(config, "cspeed.tag"),
                                   &(cs_load_options){ .module_only = true }, NULL));
    open_tokenizer(m, cs_config_get_string(config, "cspeed.model"));
}

static void close_model(model *m)
{
    cs_encoder_close(m->encoder);
    cs_tokenizer_close(m->tokenizer);
    cs_destroy(m->engine);
}

/* ---- one text ---- */

typedef struct {
    cs_text     text;
    size_t      shown; /* bytes of it */
    int64_t     tokens;
    const char *finish; /* NULL: not yet */
} answer;

/* Where the first stop begins in what came after `from`; the end where there is none. */
static size_t find_stop(const options *given, const cs_text *text, size_t from)
{
    size_t first = text->size;
    for (int i = 0; i < given->stop_count; i++) {
        size_t      length = strlen(given->stop[i]), begin = from >= length ? from - length + 1 : 0;
        const char *found  = memmem(text->bytes + begin, text->size - begin, given->stop[i], length);
        if (found && (size_t)(found - text->bytes) < first)
            first = (size_t)(found - text->bytes);
    }
    return first;
}

/* Bytes at the end that may become a stop. */
static size_t held_back(const options *given, const cs_text *text)
{
    size_t most = 0;
    for (int i = 0; i < given->stop_count; i++)
        for (size_t size = strlen(given->stop[i]) - 1; size > most; size--)
            if (size <= text->size && memcmp(text->bytes + text->size - size, given->stop[i], size) == 0)
                most = size;
    return most;
}

static void take_token(const model *m, answer *a, int32_t token)
{
    size_t      size, before = a->text.size;
    const char *piece = cs_tokenizer_piece(m->tokenizer, token, &size);
    if (token == cs_tokenizer_end(m->tokenizer)) {
        a->finish = "end";
        return;
    }
    a->tokens++;
    if (size == 0 || cs_tokenizer_is_special(m->tokenizer, token))
        return;
    cs_unicode_append(&a->text, piece, size);
    size_t stop = find_stop(m->given, &a->text, before);
    if (stop < a->text.size) {
        a->text.size = stop;
        a->finish    = "stop";
    }
}

static void show(const options *given, answer *a)
{
    size_t until = a->text.size - (a->finish ? 0 : held_back(given, &a->text));
    if (until <= a->shown)
        return;
    fwrite(a->text.bytes + a->shown, 1, until - a->shown, stdout);
    fflush(stdout);
    a->shown = until;
}

/* A text begins with what separates documents. */
static int32_t first_token(const model *m)
{
    int32_t end = cs_tokenizer_end(m->tokenizer);
    return end >= 0 ? end : '\n';
}

static void complete(const model *m, const char *prompt, int64_t which, bool streams, answer *a)
{
    const cs_encoded *encoded   = cs_encoder_document(m->encoder, prompt, strlen(prompt));
    int32_t           first     = first_token(m);
    const int32_t    *tokens    = encoded->count ? encoded->ids : &first;
    int64_t           count     = encoded->count ? encoded->count : 1, most = m->given->max_tokens;
    int64_t           positions = cs_positions(m->engine);
    cs_context       *context;
    cs_tensor         logits;
    if (positions && count > positions)
        leave(WRONG_CONTENT, "prompt %" PRId64 " has %" PRId64 " tokens, and the model reads at most %" PRId64,
              which + 1, count, positions);
    if (positions && most > positions - count + 1)
        most = positions - count + 1;
    CS_MUST(cs_context_open(&context, m->engine, count + most - (most > 0))); /* the last one is not read */
    for (int64_t place = 0; place < most && !a->finish; place++) {
        CS_MUST(cs_context_read(context, tokens, count, &logits));
        first  = cs_sample(logits, &m->given->sampling, which, place);
        tokens = &first;
        count  = 1;
        take_token(m, a, first);
        if (streams)
            show(m->given, a);
    }
    cs_context_close(context);
    if (!a->finish)
        a->finish = "length";
    if (streams)
        show(m->given, a);
}

/* ---- one prompt: streamed ---- */

static char *read_all(FILE *file)
{
    cs_text text = { 0 };
    char    part[4096];
    for (size_t size; (size = fread(part, 1, sizeof part, file)) > 0;)
        cs_unicode_append(&text, part, size);
    if (text.size > 0 && text.bytes[text.size - 1] == '\n')
        text.size--;
    cs_unicode_append(&text, "", 1);
    return text.bytes;
}

static void answer_one(const model *m)
{
    answer a       = { 0 };
    double started = now();
    char  *typed   = m->given->prompt ? NULL : read_all(stdin);
    complete(m, typed ? typed : m->given->prompt, 0, true, &a);
    if (isatty(STDOUT_FILENO))
        putchar('\n');
    double seconds = now() - started;
    fprintf(stderr, "%" PRId64 " tokens, %.1f a second (%s)\n", a.tokens, (double)a.tokens / seconds, a.finish);
    cs_unicode_free(&a.text);
    free(typed);
}

/* ---- many prompts ---- */

/* A line's object joins the list; `number` counts from 1. */
static void append_prompt(const options *given, json_t *list, const char *line, size_t length, int64_t number)
{
    json_t     *object = cs_json_strict(line, length);
    const char *why    = object ? "{\"prompt\": \"...\"} is needed" : cs_error();
    if (json_is_string(json_object_get(object, "prompt"))) {
        json_array_append_new(list, object);
        return;
    }
    json_decref(object);
    json_decref(list);
    leave(WRONG_CONTENT, "%s:%" PRId64 ": %s", given->prompts, number, why);
}

/* A list of objects. */
static json_t *read_prompts(const options *given)
{
    json_t *list = json_array();
    FILE   *file = strcmp(given->prompts, "-") == 0 ? stdin : fopen(given->prompts, "r");
    char   *line = NULL;
    size_t  room = 0;
    int64_t number = 0;
    if (!file)
        leave(MISSING, "cannot read %s", given->prompts);
    for (ssize_t length; (length = getline(&line, &room, file)) > 0;) {
        number++;
        if ((size_t)length > strspn(line, " \t\r\n"))
            append_prompt(given, list, line, (size_t)length, number);
    }
    free(line);
    if (file != stdin)
        fclose(file);
    return list;
}

/* The answer's line, malloc'ed. */
static char *line_of(json_t *object, const answer *a)
{
    cs_text whole_text = { 0 };
    cs_unicode_repair(&whole_text, a->text.bytes ? a->text.bytes : "", a->text.size);
    json_object_set_new(object, "text", json_stringn(whole_text.bytes ? whole_text.bytes : "", whole_text.size));
    json_object_set_new(object, "tokens", json_integer(a->tokens));
    json_object_set_new(object, "finish", json_string(a->finish));
    cs_unicode_free(&whole_text);
    char *dumped = json_dumps(object, JSON_COMPACT), *line = NULL;
    if (!dumped || asprintf(&line, "%s\n", dumped) < 0)
        leave(1, "out of memory");
    free(dumped);
    return line;
}

static char *answer_line(const model *m, json_t *object, int64_t which)
{
    answer a = { 0 };
    complete(m, json_string_value(json_object_get(object, "prompt")), which, false, &a);
    char *line = line_of(object, &a);
    cs_unicode_free(&a.text);
    return line;
}

/* In rounds of one prompt a rank, so that answers appear in order and none is lost that was given. */
static void answer_all(const model *m)
{
    json_t *list   = read_prompts(m->given);
    int64_t count  = (int64_t)json_array_size(list), world = cs_world_size(m->engine), rank = cs_rank(m->engine);
    FILE   *output = stdout;
    if (m->given->output && rank == 0)
        output = fopen(m->given->output, "w");
    if (!output)
        leave(1, "cannot write %s", m->given->output);
    for (int64_t from = 0; from < count; from += world) {
        int64_t which = from + rank;
        char   *line  = which < count ? answer_line(m, json_array_get(list, (size_t)which), which) : NULL;
        char   *all   = cs_gather(m->engine, line ? line : "");
        if (all && (fputs(all, output) < 0 || fflush(output) != 0))
            leave(1, "cannot write %s", m->given->output ? m->given->output : "the answers");
        free(all);
        free(line);
    }
    if (output != stdout && fclose(output) != 0)
        leave(1, "cannot write %s", m->given->output);
    json_decref(list);
}

int main(int argc, char **argv)
{
    options given = { .max_tokens = 200, .sampling = { .temperature = 0.8, .top_p = 1, .seed = 1234 } };
    model   m     = { .given = &given };
    read_options(&given, argc, argv);
    open_model(&m);
    if (given.prompts)
        answer_all(&m);
    else if (is_rank_zero())
        answer_one(&m);
    close_model(&m);
    return 0;
}
