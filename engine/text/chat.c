/* chat.c - writes conversations as a model's chat template does, and marks which bytes are answers to learn. */
#include "text/chat.h"
#include "base/mac.h"
#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { SYSTEM, USER, ASSISTANT, ROLES } role;

/* Text before and after a message; {bos} and {eos} are replaced by the tokenizer's tokens. After an answer, `close` is
 * learnt and `after` is not. */
typedef struct {
    const char *open, *close, *after;
} frame;

struct ce_chat_shape {
    const char *name;
    const char *begin; /* text at the beginning of a conversation */
    frame frames[ROLES];
    const char *system;  /* system message of a conversation that has none; NULL: none */
    const char *lead;    /* text before the content of a system message that is the first message */
    bool system_in_user; /* the system message, with its own frame, is put inside the first user message */
    bool trims;          /* white space around each message is removed */
};

#define CHATML(shape_name, start, default_system)                                                                      \
    {                                                                                                                  \
        .name = shape_name, .begin = start, .system = default_system, .frames = {                                      \
            { "<|im_start|>system\n", "<|im_end|>", "\n" },                                                            \
            { "<|im_start|>user\n", "<|im_end|>", "\n" },                                                              \
            { "<|im_start|>assistant\n", "<|im_end|>", "\n" }                                                          \
        }                                                                                                              \
    }
#define LLAMA3(shape_name, default_system, first)                                                                      \
    {                                                                                                                  \
        .name = shape_name, .begin = "{bos}", .system = default_system, .lead = first, .trims = true, .frames = {      \
            { "<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>", "" },                                    \
            { "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>", "" },                                      \
            { "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>", "" }                                  \
        }                                                                                                              \
    }

/* tests/peers/chat_same.py has the same shapes in Python and checks that both write the same texts. */
static const ce_chat_shape shapes[] = {
    CHATML("chatml", "", NULL),
    CHATML("chatml-bos", "{bos}", NULL),
    CHATML("qwen2", "", "You are a helpful assistant."),
    CHATML("qwen2.5", "", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."),
    CHATML("smollm2", "", "You are a helpful AI assistant named SmolLM, trained by Hugging Face"),
    LLAMA3("llama3", NULL, NULL),
    LLAMA3("llama3.1", "", "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"),
    { .name = "llama2",
      .begin = "",
      .frames = { { "<<SYS>>\n", "\n<</SYS>>\n\n", "" }, { "{bos}[INST] ", " [/INST]", "" }, { " ", " {eos}", "" } },
      .system_in_user = true,
      .trims = true },
    { .name = "mistral",
      .begin = "{bos}",
      .frames = { { "", "\n\n", "" }, { "[INST]", "[/INST]", "" }, { "", "{eos}", "" } },
      .system_in_user = true },
    { .name = "mistral-v7",
      .begin = "{bos}",
      .frames = { { "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "" }, { "[INST]", "[/INST]", "" }, { "", "{eos}", "" } } },
    { .name = "zephyr",
      .begin = "",
      .frames = { { "<|system|>\n", "{eos}", "\n" },
                  { "<|user|>\n", "{eos}", "\n" },
                  { "<|assistant|>\n", "{eos}", "\n" } } },
    { .name = "plain",
      .begin = "",
      .frames = { { "System: ", "\n\n", "" }, { "User: ", "\n\n", "" }, { "Assistant: ", "\n\n", "{eos}" } },
      .trims = true },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* ---- finding the shape ---- */

static const ce_chat_shape *shape_named(const char *name)
{
    for (int i = 0; i < SHAPES; i++)
        if (strcmp(shapes[i].name, name) == 0)
            return &shapes[i];
    return NULL;
}

/* Lists the names: "chatml", "chatml-bos", ... and "plain", which is last. */
static const char *list_names(char *text, size_t room)
{
    size_t at = 0;
    for (int i = 0; i < SHAPES && at < room; i++)
        at += (size_t)snprintf(text + at, room - at, "%s\"%s\"",
                               i == 0           ? ""
                               : i + 1 < SHAPES ? ", "
                                                : " and ",
                               shapes[i].name);
    return text;
}

static bool writes(const ce_chat_shape *shape, const char *word)
{
    bool found = strstr(shape->begin, word) != NULL;
    for (int who = 0; who < ROLES && !found; who++) {
        const frame *f = &shape->frames[who];
        found = strstr(f->open, word) || strstr(f->close, word) || strstr(f->after, word);
    }
    return found;
}

/* Checks that the tokenizer names the begin and end tokens that the shape writes; its template is known to write the
 * same text as the shape only if it does. */
static cs_status check_tokens(const ce_chat_shape *shape, const ce_tokenizer *tokenizer)
{
    const char *missing = writes(shape, "{bos}") && !ce_tokenizer_begin_text(tokenizer) ? "bos_token"
                          : writes(shape, "{eos}") && !ce_tokenizer_end_text(tokenizer) ? "eos_token"
                                                                                        : NULL;
    if (!missing)
        return CS_OK;
    return ce_fail(CS_BAD_CONFIG,
                   "the tokenizer's chat_template is that of the template \"%s\", which writes %s, and "
                   "tokenizer_config.json does not name one; add it there",
                   shape->name, missing);
}

/* Templates that are recognised by their SHA-256 digest. tests/peers/chat_same.py generates the table: it runs each
 * template with Jinja2 on many kinds of conversations and keeps those whose text always equals a shape's. */
static const struct {
    const char *digest, *shape;
} known_templates[] = {
#include "text/templates_known.h"
};

/* Name of the shape that writes the same text as `template`; NULL: none is known. Sets `digest` to the SHA-256 of the
 * template's text as it is in tokenizer_config.json or chat_template.jinja, without one newline at its end, which Jinja
 * removes too. */
static const char *known_shape(const char *template, char digest[CS_MAC_DIGEST])
{
    size_t size = strlen(template);
    ce_mac_digest(digest, template, size - (size > 0 && template[size - 1] == '\n'));
    for (size_t i = 0; i < sizeof known_templates / sizeof *known_templates; i++)
        if (strcmp(known_templates[i].digest, digest) == 0)
            return known_templates[i].shape;
    return NULL;
}

static cs_status recognise(const ce_chat_shape **shape, const ce_tokenizer *tokenizer)
{
    char names[512], digest[CS_MAC_DIGEST];
    const char *template = ce_tokenizer_template(tokenizer), *name;
    if (!template)
        return ce_fail(CS_BAD_CONFIG,
                       "cspeed.data.template \"auto\": the tokenizer has no chat_template to follow, in "
                       "tokenizer_config.json or chat_template.jinja; name one of %s",
                       list_names(names, sizeof names));
    name = known_shape(template, digest);
    *shape = name ? shape_named(name) : NULL;
    if (*shape)
        return check_tokens(*shape, tokenizer);
    return ce_fail(CS_BAD_CONFIG,
                   "not supported: cspeed.data.template \"auto\" with this tokenizer's chat_template (SHA-256 %s), "
                   "because templates are programs that are not run here, and this one is not among those that are "
                   "known to write what a template of cspeed writes; name one that fits your conversations, such as "
                   "cspeed.data.template: \"chatml\", of %s",
                   digest, list_names(names, sizeof names));
}

/* Checks that each word in angle or square brackets that the shape writes is one token; otherwise the model would learn
 * it letter by letter. */
static cs_status check_words(const ce_chat_shape *shape, const ce_tokenizer *tokenizer)
{
    static const char *const words[] = { "<|im_start|>", "<|im_end|>",      "<|start_header_id|>", "<|end_header_id|>",
                                         "<|eot_id|>",   "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (writes(shape, words[i]) && ce_tokenizer_find(tokenizer, words[i]) < 0)
            return ce_fail(CS_BAD_CONFIG,
                           "the template %s writes %s, which this tokenizer has no token for; \"plain\" needs none",
                           shape->name, words[i]);
    if (strstr(shape->frames[ASSISTANT].close, "{eos}") && !ce_tokenizer_end_text(tokenizer))
        return ce_fail(CS_BAD_CONFIG,
                       "the template %s ends answers with eos_token, which tokenizer_config.json does not "
                       "name",
                       shape->name);
    return CS_OK;
}

cs_status ce_chat_find(const ce_chat_shape **shape, const char *name, const ce_tokenizer *tokenizer)
{
    char names[512];
    *shape = NULL;
    if (strcmp(name, "auto") == 0)
        CS_TRY(recognise(shape, tokenizer));
    else
        *shape = shape_named(name);
    if (!*shape)
        return ce_fail(CS_BAD_CONFIG, "not a template: '%s'; known are %s, and \"auto\"", name,
                       list_names(names, sizeof names));
    return check_words(*shape, tokenizer);
}

/* ---- writing ---- */

static void put_frame(ce_text *text, const char *words, const ce_tokenizer *tokenizer)
{
    while (*words) {
        const char *brace = strchrnul(words, '{'), *token = NULL;
        ce_unicode_append(text, words, (size_t)(brace - words));
        words = brace;
        if (!*words)
            break;
        token = words[1] == 'b' ? ce_tokenizer_begin_text(tokenizer) : ce_tokenizer_end_text(tokenizer);
        ce_unicode_append(text, token ? token : "", token ? strlen(token) : 0);
        words += strlen("{bos}");
    }
}

static void put_content(ce_text *text, const char *content, bool trims)
{
    size_t size = strlen(content);
    if (trims)
        content = ce_unicode_strip(content, size, &size);
    ce_unicode_append(text, content, size);
}

static role find_role(const char *name)
{
    static const struct {
        const char *name;
        role role;
    } names[] = {
        { "system", SYSTEM }, { "user", USER }, { "human", USER }, { "assistant", ASSISTANT }, { "gpt", ASSISTANT }
    };
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i].name, name) == 0)
            return names[i].role;
    return ROLES;
}

static const json_t *role_of(const json_t *message)
{
    const json_t *name = json_object_get(message, "role");
    return name ? name : json_object_get(message, "from");
}

static void add_answer(ce_chat_lines *lines, int64_t from)
{
    if (lines->count == lines->room) {
        lines->room = 2 * lines->room + 8;
        lines->answers = realloc(lines->answers, (size_t)lines->room * sizeof *lines->answers);
        CS_ASSERT(lines->answers);
    }
    lines->answers[lines->count++] = (ce_chat_span){ from, (int64_t)lines->text.size };
}

/* A space that a shape writes before an answer is part of the answer, because it and the first word are one token. */
static size_t before_space(const ce_text *text, size_t began)
{
    size_t size = text->size;
    while (size > began && text->bytes[size - 1] == ' ')
        size--;
    return size;
}

typedef struct {
    const ce_chat_shape *shape;
    const ce_tokenizer *tokenizer;
    ce_chat_lines *lines;
    const char *system; /* system message to put into the next user message; NULL: none */
} writing;

/* Writes one message; `lead` is written before its content ("" for none). */
static void put_message(writing *w, role who, const char *lead, const char *content)
{
    const frame *f = &w->shape->frames[who], *outer = &w->shape->frames[SYSTEM];
    ce_text *text = &w->lines->text;
    size_t began = text->size, from;
    put_frame(text, f->open, w->tokenizer);
    if (who == USER && w->system) {
        put_frame(text, outer->open, w->tokenizer);
        put_content(text, w->system, w->shape->trims);
        put_frame(text, outer->close, w->tokenizer);
        w->system = NULL;
    }
    from = before_space(text, began);
    put_frame(text, lead, w->tokenizer);
    put_content(text, content, w->shape->trims);
    put_frame(text, f->close, w->tokenizer);
    if (who == ASSISTANT)
        add_answer(w->lines, (int64_t)from);
    put_frame(text, f->after, w->tokenizer);
}

/* Refuses members of a message other than its content that templates would write, because they would be lost silently.
 */
static cs_status check_extras(const json_t *object)
{
    static const char *const keys[] = { "tools", "tool_calls" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_array_size(json_object_get(object, keys[i])) > 0)
            return ce_fail(CS_UNSUPPORTED,
                           "not supported: a conversation with \"%s\", because the templates here write "
                           "what is said alone",
                           keys[i]);
    return CS_OK;
}

static cs_status add_message(writing *w, const json_t *message, bool first)
{
    const json_t *name = role_of(message), *content = json_object_get(message, "content");
    const char *lead = first && w->shape->lead ? w->shape->lead : "";
    if (!content)
        content = json_object_get(message, "value");
    role who = find_role(json_string_value(name));
    if (who == ROLES)
        return ce_fail(CS_BAD_FILE,
                       "not supported: a message of role %.40s, because only system, user (human) and "
                       "assistant (gpt) are known",
                       json_is_string(name) ? json_string_value(name) : "(none)");
    CS_TRY(check_extras(message));
    if (!json_is_string(content))
        return ce_fail(CS_BAD_FILE, "a message of the %s whose content is not text", json_string_value(name));
    if (first && who != SYSTEM && w->shape->system)
        put_message(w, SYSTEM, lead, w->shape->system);
    if (who == SYSTEM && w->system)
        return ce_fail(CS_BAD_FILE,
                       "two system messages and no user's between them; this template writes one, into the "
                       "user's");
    if (who == SYSTEM && w->shape->system_in_user)
        w->system = json_string_value(content);
    else
        put_message(w, who, who == SYSTEM ? lead : "", json_string_value(content));
    return CS_OK;
}

static const json_t *messages_of(const json_t *document)
{
    const json_t *messages = json_object_get(document, "messages");
    return messages ? messages : json_object_get(document, "conversations");
}

static cs_status write_all(const ce_chat_shape *shape, const ce_tokenizer *tokenizer, const json_t *document,
                           ce_chat_lines *lines)
{
    size_t index;
    json_t *message;
    writing w = { shape, tokenizer, lines, NULL };
    const json_t *messages = messages_of(document);
    if (json_array_size(messages) == 0)
        return ce_fail(CS_BAD_FILE, "no list \"messages\" (or \"conversations\") of a conversation's messages");
    lines->text.size = 0;
    lines->count = 0;
    put_frame(&lines->text, shape->begin, tokenizer);
    CS_TRY(check_extras(document));
    json_array_foreach (messages, index, message)
        CS_TRY(add_message(&w, message, index == 0));
    if (w.system)
        return ce_fail(CS_BAD_FILE, "a system message and no user's behind it, into which this template writes it");
    return CS_OK;
}

cs_status ce_chat_write(const ce_chat_shape *shape, const ce_tokenizer *tokenizer, const json_t *document,
                        ce_chat_lines *lines)
{
    CS_TRY(write_all(shape, tokenizer, document, lines));
    if (lines->count == 0)
        return ce_fail(CS_BAD_FILE, "a conversation without an answer: there is nothing to learn from it");
    return CS_OK;
}

cs_status ce_chat_prompt(const ce_chat_shape *shape, const ce_tokenizer *tokenizer, const json_t *document,
                         ce_chat_lines *lines)
{
    CS_TRY(write_all(shape, tokenizer, document, lines));
    const json_t *messages = messages_of(document), *last = json_array_get(messages, json_array_size(messages) - 1);
    ce_text *text = &lines->text;
    size_t size = text->size;
    if (find_role(json_string_value(role_of(last))) == ASSISTANT)
        return ce_fail(CS_BAD_FILE, "the conversation ends with an answer: its last message is to be the user's");
    put_frame(text, shape->frames[ASSISTANT].open, tokenizer);
    text->size = before_space(text, size);
    return CS_OK;
}

void ce_chat_stop(const ce_chat_shape *shape, const ce_tokenizer *tokenizer, ce_text *text)
{
    const char *close = shape->frames[ASSISTANT].close;
    put_frame(text, close + strspn(close, " "), tokenizer);
    ce_unicode_append(text, "", 1);
}

void ce_chat_free(ce_chat_lines *lines)
{
    ce_unicode_free(&lines->text);
    free(lines->answers);
    *lines = (ce_chat_lines){ 0 };
}
