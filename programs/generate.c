/* generate.c - text generation: streams the continuation of one prompt, or answers many prompts on all ranks.
 *
 * The answers of many prompts are written in the order of the prompts. */
#include "base/must.h"
#include "use.h"
#include "generate/generate.h"
#include "base/asked.h"
#include "base/input.h"
#include "json/json.h"
#include "base/plural.h"
#include "text/encoder.h"

#include <inttypes.h>

enum { BATCH = 8 }; /* the greatest number of prompts that one lane answers at the same time */

static int64_t at_most(int64_t value, int64_t max)
{
    return value < max ? value : max;
}

/* ---- the command line ---- */

typedef struct {
    const char *source, *tag, *prompt, *prompts, *output, *tokenizer;
    cs_option_list set, stop;
    bool chat, lenient;
    int64_t max_tokens;
    cs_sampling sampling;
} options;

static const cs_option table[] = {
    { CS_OPTION(RAW, "tag", options, tag, "T",
                "read the checkpoint with the tag T. Default: the one that the file latest names") },
    { CS_OPTION(RAW, "prompt", options, prompt, "TEXT", "the text to continue. Default: standard input") },
    { CS_OPTION(SWITCH, "chat", options, chat, NULL,
                "take the prompt as the message of a user, write it with the chat template of the model, and print "
                "the answer of the model. Standard input may also be a conversation, {\"messages\": [...]}. The "
                "template is that of --set cspeed.data.template=NAME; default: that of the training, otherwise that "
                "of the tokenizer") },
    { CS_OPTION(
        RAW, "prompts", options, prompts, "FILE",
        "answer many prompts: each line of the file is an object {\"prompt\": ...}, or in a .txt file the prompt "
        "itself; - is standard input. All ranks share the work. The answers have the order of the prompts; each is "
        "its object with the members \"text\", \"tokens\" and \"finish\" (end, stop or length) added") },
    { CS_OPTION(RAW, "output", options, output, "FILE",
                "write the answers to --prompts into this file. Default: standard output") },
    { CS_OPTION(
        WHOLE, "max_tokens", options, max_tokens, "N",
        "greatest number of tokens to generate. Default: 200. When the text reaches the greatest length that the "
        "model reads, the last half of it is kept and the text continues; an answer of --chat ends there") },
    { CS_OPTION(NUMBER, "temperature", options, sampling.temperature, "X",
                "divide the logits by X before a token is drawn; 0: always take the most probable token. Default: 0.8"),
      .max = 1e6 },
    { CS_OPTION(WHOLE, "top_k", options, sampling.top_k, "N",
                "draw only from the N most probable tokens; 0: from all. Default: 0") },
    { CS_OPTION(NUMBER, "top_p", options, sampling.top_p, "X",
                "draw only from the smallest set of tokens whose probabilities sum to at least X. Default: 1, all "
                "tokens"),
      .max = 1 },
    { CS_OPTION(WHOLE, "seed", options, sampling.seed, "N",
                "seed of the random numbers with which tokens are drawn. Default: 1234") },
    { CS_OPTION(LIST, "stop", options, stop, "TEXT", "end the generated text before this text; may be repeated") },
    { CS_OPTION(
        RAW, "tokenizer", options, tokenizer, "PATH",
        "tokenizer to use: a folder, a tokenizer.json or a tokenizer.model. Default: that of the model; a model with "
        "256 tokens needs none, its tokens are bytes") },
    COMMON_OPTIONS,
};

static const char usage[] = "usage: cspeed [LAUNCH FLAGS] generate SOURCE [OPTIONS]\n\n"
                            "  SOURCE\n"
                            "        the output folder of a training, one checkpoint in it, a Hugging Face\n"
                            "        folder, or ORG/NAME[@REVISION] of a model on the Hugging Face Hub\n";

static void read_options(options *given, char **argv)
{
    given->source = read_command_line(table, sizeof table / sizeof *table, usage, given, argv);
    if (given->prompt && given->prompts)
        leave(WRONG_USAGE, "--prompt and --prompts cannot be given together");
    if (given->output && !given->prompts)
        leave(WRONG_USAGE, "--output needs --prompts; the text of a single prompt is printed on standard output");
}

/* ---- the model ---- */

typedef struct {
    options *given;
    cs_engine *engine;
    ce_tokenizer *tokenizer;
    ce_encoder *encoder;
    /* true at ZeRO stage 3: each rank holds a part of the parameters, so all ranks process every text together;
     * otherwise all ranks of a lane do (cs_lane) */
    bool together;

    ce_chat *chat;    /* the chat template of --chat; NULL: texts are continued without a template */
    ce_text turn_end; /* the text that the template writes after an answer */
    int32_t end;      /* the token with which the template ends an answer; -1: there is none */
    int64_t batch;    /* number of prompts that one lane answers at the same time */
} model;

/* Returns false if the tokens are bytes. */
static bool open_tokenizer(model *m, const cs_config *config)
{
    const char *path = m->given->tokenizer ? m->given->tokenizer : files_tokenizer(config);
    if (!path && cs_vocabulary(m->engine) != 256)
        leave(WRONG_USAGE,
              "%s has no tokenizer.json or tokenizer.model, and a model with %" PRId64 " tokens needs one; give "
              "--tokenizer PATH",
              m->given->source, cs_vocabulary(m->engine));
    CS_MUST(ce_tokenizer_open(&m->tokenizer, path));
    m->encoder = ce_encoder_open(m->tokenizer);
    return path != NULL;
}

/* Opens the template. If the end of an answer is marked by a text of several tokens, this text becomes a stop string.
 * Without --chat, only the token that ends an answer is needed: an export writes it into generation_config.json. */
static void open_chat(model *m, const cs_config *config)
{
    const char *template = cs_config_get_string(config, "cspeed.data.template");
    bool own = !template && !ce_tokenizer_template(m->tokenizer, "default");
    CE_FREED char *file = own ? files_template(config) : NULL;
    cs_status status = ce_chat_open(&m->chat, template ? template : file ? file : "auto", m->tokenizer);
    if (status != CS_OK && !m->given->chat)
        return;
    if (status != CS_OK)
        leave(cs_exit_code(status), "--chat: %s (--set cspeed.data.template=NAME)", cs_error());
    ce_chat_stop(m->chat, &m->turn_end);
    m->end = ce_tokenizer_find(m->tokenizer, m->turn_end.bytes);
    if (!m->given->chat) {
        ce_chat_close(m->chat);
        m->chat = NULL;
    } else if (m->end < 0 && add_item(&m->given->stop, "--stop", m->turn_end.bytes) != 0) {
        leave(WRONG_USAGE, "%s", cs_error());
    }
}

static void open_model(model *m)
{
    cs_config *config;
    CS_MUST(cs_reopen(&config, m->given->source, m->given->tag));
    CS_MUST(cs_config_set(config, "train_micro_batch_size_per_gpu=1"));
    set_items(config, &m->given->set, m->given->lenient);
    CS_MUST(cs_initialize(&m->engine, config, NULL));
    load_trained(m->engine, config);
    /* cs_contexts_step computes one row for each text. The micro-batch has seq_len rows, so it has room for at most
     * seq_len texts. */
    m->batch = at_most(BATCH, cs_config_get_int(config, "cspeed.data.seq_len"));
    m->together = cs_config_get_int(config, "zero_optimization.stage") == 3;
    bool has_words = open_tokenizer(m, config);
    m->end = -1;
    if (m->given->chat || (has_words && cs_config_get_string(config, "cspeed.data.template")))
        open_chat(m, config);
}

static void close_model(model *m)
{
    ce_unicode_free(&m->turn_end);
    ce_chat_close(m->chat);
    ce_encoder_close(m->encoder);
    ce_tokenizer_close(m->tokenizer);
    cs_destroy(m->engine);
}

/* ---- texts ---- */

typedef struct {
    ce_text text;
    size_t shown; /* number of bytes already printed */
    int64_t tokens;
    const char *finish; /* the reason why the answer ended; NULL if it has not ended */
    cs_generation *generation;
    int64_t which;      /* the number of the prompt */
    int64_t place, max; /* place: number of sampled tokens; max: the greatest number of tokens to sample */
    bool slid;          /* true: the model has not read the text's beginning for the last tokens */
    bool streams;       /* true: the text is printed while it is generated */
} answer;

static void take_token(const model *m, answer *a, int32_t token)
{
    size_t size, before = a->text.size;
    const char *piece = ce_tokenizer_piece(m->tokenizer, token, &size);
    if (token == ce_tokenizer_end(m->tokenizer) || token == m->end || cs_ends_text(m->engine, token)) {
        a->finish = "end";
        return;
    }
    a->tokens++;
    /* removes the space between the text of the chat template and the answer */
    while (m->chat && a->text.size == 0 && size > 0 && *piece == ' ') {
        piece++;
        size--;
    }
    if (size == 0 || ce_tokenizer_is_special(m->tokenizer, token))
        return;
    ce_unicode_append(&a->text, piece, size);
    size_t stop = stop_find(&m->given->stop, &a->text, before);
    if (stop < a->text.size) {
        a->text.size = stop;
        a->finish = "stop";
    }
}

static void show(const options *given, answer *a)
{
    size_t until = a->text.size - (a->finish ? 0 : stop_held_back(&given->stop, &a->text));
    if (until <= a->shown)
        return;
    fwrite(a->text.bytes + a->shown, 1, until - a->shown, stdout);
    fflush(stdout);
    a->shown = until;
}

/* Returns the token that replaces an empty prompt: the token that separates documents, or a line feed. */
static int32_t first_token(const model *m)
{
    int32_t end = ce_tokenizer_end(m->tokenizer);
    return end >= 0 ? end : '\n';
}

/* Tokenizes a prompt. Outside a chat, the tokenizer's tokens for the beginning and the end of a text are added. In a
 * chat, no tokens are added, because the chat template already contains such tokens. */
static const ce_encoded *encode(const model *m, const char *prompt)
{
    return m->chat ? ce_encoder_text(m->encoder, prompt, strlen(prompt))
                   : ce_encoder_document(m->encoder, prompt, strlen(prompt));
}

/* Every rank checks all prompts before any prompt is processed. */
static void check_prompt(const model *m, const char *prompt, int64_t which)
{
    const ce_encoded *encoded = encode(m, prompt);
    int64_t count = encoded->count, max = cs_context_positions(m->engine), vocabulary = cs_vocabulary(m->engine);
    for (int64_t i = 0; i < count; i++)
        if (encoded->ids[i] >= vocabulary)
            leave(WRONG_CONTENT,
                  "prompt %" PRId64 " has token %" PRId32 ": the tokenizer has %" PRId64 " tokens with its added "
                  "ones, but vocab_size of the model is %" PRId64,
                  which + 1, encoded->ids[i], ce_tokenizer_size(m->tokenizer), vocabulary);
    if (max && count > max)
        leave(WRONG_CONTENT, "prompt %" PRId64 " has %" PRId64 " tokens, but the model reads at most %" PRId64,
              which + 1, count, max);
}

/* Ends a text that has its maximum number of tokens, and prints what a streamed text has gained. */
static void go_on(const model *m, answer *a)
{
    if (a->place == a->max && !a->finish)
        a->finish = "length";
    if (a->streams)
        show(m->given, a);
}

/* The answer of a chat ends when the model's positions are full, because a conversation without its beginning has
 * another meaning. Other texts continue (cs_generation). */
static void begin(const model *m, const char *prompt, answer *a)
{
    const ce_encoded *encoded = encode(m, prompt);
    int32_t first = first_token(m);
    int64_t count = encoded->count ? encoded->count : 1, positions = cs_context_positions(m->engine);
    a->max = m->given->max_tokens;
    if (positions && m->chat)
        a->max = at_most(a->max, positions - count + 1);
    const cs_generation_options how = { .sampling = m->given->sampling, .text = a->which, .max = a->max };
    CS_MUST(cs_generation_open(&a->generation, m->engine, encoded->count ? encoded->ids : &first, count, &how));
    go_on(m, a);
}

/* Completes `count` texts together: in each step, the weights are read once for all texts that have not ended. */
static void complete(const model *m, const char *const *prompts, answer *answers, int count)
{
    for (int i = 0; i < count; i++)
        begin(m, prompts[i], &answers[i]);
    for (;;) {
        answer *live[BATCH];
        cs_generation *generations[BATCH];
        int32_t tokens[BATCH];
        int lives = 0;
        for (int i = 0; i < count; i++)
            if (!answers[i].finish) {
                generations[lives] = answers[i].generation;
                live[lives++] = &answers[i];
            }
        if (lives == 0)
            break;
        CS_MUST(cs_generations_next(generations, lives, tokens));
        for (int i = 0; i < lives; i++) {
            live[i]->place++;
            take_token(m, live[i], tokens[i]);
            go_on(m, live[i]);
        }
    }
    for (int i = 0; i < count; i++) {
        answers[i].slid = cs_generation_slid(answers[i].generation);
        cs_generation_close(answers[i].generation);
    }
}

/* ---- one prompt: streamed ---- */

/* Returns the text of standard input without its last newline. */
static char *read_all(void)
{
    size_t length = 0;
    char *text = ce_input_all(stdin, SIZE_MAX / 2, &length);
    if (text && length > 0 && text[length - 1] == '\n')
        text[length - 1] = '\0';
    return text ? text : ce_must_copy("");
}

/* Returns the text of a conversation up to its next answer, malloc'ed. If `typed` is true and `said` begins with '{',
 * then `said` is a conversation as JSON; otherwise it is the first message of a user. */
static char *write_chat(const model *m, const char *said, bool typed)
{
    ce_text text = { 0 };
    bool conversation = typed && *said == '{';
    json_auto_t *row = conversation ? ce_json_strict(said, strlen(said)) : json_pack("{s:s}", "prompt", said);
    if (!row)
        leave(WRONG_CONTENT, "--chat: standard input: %s", conversation ? cs_error() : "text that is not UTF-8");
    cs_status status = prompts_text(m->chat, row, &text);
    if (status != CS_OK)
        leave(cs_exit_code(status), "--chat: %s", cs_error());
    if (is_rank_zero())
        ce_chat_report(m->chat);
    return text.bytes;
}

/* Prints a message if the number of the model's positions has limited the text. */
static void report_positions(const model *m, const answer *a)
{
    int64_t positions = cs_context_positions(m->engine);
    if (a->slid)
        fprintf(stderr,
                "the model reads at most %" PRId64 " tokens: after that, each token was computed from the last %" PRId64
                " to %" PRId64 " tokens of the text\n",
                positions, (positions + 1) / 2, positions);
    else if (strcmp(a->finish, "length") == 0 && a->max < m->given->max_tokens)
        fprintf(stderr, "the answer was cut at %" PRId64 " tokens, the most that the model reads\n", positions);
}

static void answer_one(const model *m)
{
    answer a = { .streams = is_rank_zero() };
    double started = ce_clock_seconds();
    CE_FREED char *typed = m->given->prompt ? NULL : read_all();
    const char *prompt = typed ? typed : m->given->prompt;
    if (typed && !*typed)
        leave(WRONG_CONTENT, "standard input is empty, as it always is with launch flags: --prompt TEXT gives the "
                             "text to continue, and --prompt \"\" begins a new text");
    CE_FREED char *chat = m->chat ? write_chat(m, prompt, typed != NULL) : NULL;
    prompt = chat ? chat : prompt;
    check_prompt(m, prompt, 0);
    if (m->together || cs_lane(m->engine) == 0)
        complete(m, &prompt, &a, 1);
    if (is_rank_zero()) {
        double seconds = ce_clock_seconds() - started;
        fputs("\n", stdout);
        fflush(stdout);
        fprintf(stderr, "%" PRId64 " token%s, %.1f tokens/s (%s)\n", a.tokens, ce_plural(a.tokens),
                (double)a.tokens / seconds, a.finish);
        report_positions(m, &a);
    }
    ce_unicode_free(&a.text);
}

/* ---- many prompts ---- */

/* Returns the output line of an answer, malloc'ed. */
static char *line_of(json_t *object, const answer *a)
{
    CE_CLOSED(ce_unicode_free) ce_text whole_text = { 0 };
    ce_unicode_repair(&whole_text, a->text.bytes ? a->text.bytes : "", a->text.size);
    json_object_set_new(object, "text", json_stringn(whole_text.bytes ? whole_text.bytes : "", whole_text.size));
    json_object_set_new(object, "tokens", json_integer(a->tokens));
    json_object_set_new(object, "finish", json_string(a->finish));
    CE_FREED char *dumped = json_dumps(object, JSON_COMPACT);
    CE_ASSERT(dumped);
    return ce_must_print("%s\n", dumped);
}

static const char *prompt_of(const prompts_list *asked, int64_t which)
{
    return json_string_value(json_array_get(asked->texts, (size_t)which));
}

/* Returns the output lines of the prompts [from, to), malloc'ed. */
static char *answer_lines(const model *m, const prompts_list *asked, int64_t from, int64_t to)
{
    answer answers[BATCH] = { 0 };
    const char *texts[BATCH];
    ce_text lines = { 0 };
    int count = (int)(to - from);
    for (int i = 0; i < count; i++) {
        answers[i].which = from + i;
        texts[i] = prompt_of(asked, from + i);
    }
    complete(m, texts, answers, count);
    for (int i = 0; i < count; i++) {
        CE_FREED char *line = line_of(json_array_get(asked->rows, (size_t)(from + i)), &answers[i]);
        ce_unicode_append(&lines, line, strlen(line));
        ce_unicode_free(&answers[i].text);
    }
    ce_unicode_append(&lines, "", 1);
    return lines.bytes;
}

/* In every round each lane answers a batch of prompts, and then all answers of the round are written. So the answers
 * are written in order, and a failure loses only the answers of the current round. */
static void write_answers(const model *m, const prompts_list *asked, FILE *output)
{
    int64_t count = (int64_t)json_array_size(asked->rows);
    int64_t lanes = m->together ? 1 : cs_lanes(m->engine), lane = m->together ? 0 : cs_lane(m->engine);
    bool writes = cs_lane(m->engine) == lane && cs_leads_lane(m->engine);
    int64_t share = (count + lanes - 1) / lanes, batch = at_most(share, m->batch);
    for (int64_t round = 0; round < count; round += lanes * batch) {
        int64_t from = at_most(round + lane * batch, count), to = at_most(from + batch, count);
        CE_FREED char *lines = answer_lines(m, asked, from, to);
        CE_FREED char *all = cs_gather(m->engine, writes ? lines : "");
        if (all && (fputs(all, output) < 0 || fflush(output) != 0))
            leave(1, "cannot write %s", m->given->output ? m->given->output : "the answers");
    }
}

static void answer_all(const model *m)
{
    prompts_list asked;
    FILE *output = stdout;
    cs_status status = prompts_read(&asked, m->chat, m->given->prompts);
    if (status != CS_OK)
        leave(cs_exit_code(status), "%s", cs_error());
    if (m->chat && is_rank_zero())
        ce_chat_report(m->chat);
    for (size_t i = 0; i < json_array_size(asked.rows); i++)
        check_prompt(m, prompt_of(&asked, (int64_t)i), (int64_t)i);
    if (m->given->output && is_rank_zero())
        output = fopen(m->given->output, "w");
    if (!output)
        leave(1, "cannot write %s", m->given->output);
    write_answers(m, &asked, output);
    if (output != stdout && fclose(output) != 0)
        leave(1, "cannot write %s", m->given->output);
    prompts_free(&asked);
}

int main(int argc, char **argv)
{
    /* static: the assignments that options make (use.h) are held by the list until the process ends */
    static options given = { .max_tokens = 200, .sampling = { .temperature = 0.8, .top_p = 1, .seed = 1234 } };
    model m = { .given = &given };
    (void)argc;
    ce_asked_ignore_saves();
    read_options(&given, argv);
    open_model(&m);
    if (given.prompts)
        answer_all(&m);
    else
        answer_one(&m);
    close_model(&m);
    return 0;
}
