/* chat.c - conversations written out as a model's chat template has them, and which bytes of that are answers. */
#include "text/chat.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

typedef enum { SYSTEM, USER, ASSISTANT, ROLES } role;

/* What stands before and behind a message; {bos} and {eos} are the tokenizer's. Behind an answer `close` is learnt, and
 * `after` is not. */
typedef struct {
    const char *open, *close, *after;
} frame;

struct cs_chat_shape {
    const char *name, *mark, *other_mark; /* words of the template that tell it; NULL: none do */
    const char *begin;                    /* of a conversation */
    frame       frames[ROLES];
    bool        system_in_user; /* the system's message stands within the user's first, framed by its own frame */
    bool        trims;          /* white space around a message goes */
};

static const cs_chat_shape shapes[] = {
    { "chatml",
      "<|im_start|>",
      NULL,
      "",
      { { "<|im_start|>system\n", "<|im_end|>", "\n" },
        { "<|im_start|>user\n", "<|im_end|>", "\n" },
        { "<|im_start|>assistant\n", "<|im_end|>", "\n" } },
      false,
      false },
    { "llama3",
      "<|start_header_id|>",
      NULL,
      "{bos}",
      { { "<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>", "" },
        { "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>", "" },
        { "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>", "" } },
      false,
      true },
    { "llama2",
      "[INST]",
      "<<SYS>>",
      "",
      { { "<<SYS>>\n", "\n<</SYS>>\n\n", "" }, { "{bos}[INST] ", " [/INST]", "" }, { " ", " {eos}", "" } },
      true,
      true },
    { "mistral",
      "[INST]",
      NULL,
      "{bos}",
      { { "", "\n\n", "" }, { "[INST]", "[/INST]", "" }, { "", "{eos}", "" } },
      true,
      false },
    { "plain",
      NULL,
      NULL,
      "",
      { { "System: ", "\n\n", "" }, { "User: ", "\n\n", "" }, { "Assistant: ", "\n\n", "{eos}" } },
      false,
      true },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

static const char known[] = "known are chatml, llama3, llama2, mistral and plain";

/* ---- which shape ---- */

static cs_status recognise(const cs_chat_shape **shape, const char *template)
{
    if (!template)
        return cs_fail(CS_BAD_CONFIG, "the tokenizer has no chat_template to follow, in tokenizer_config.json or "
                       "chat_template.jinja; name one, %s", known);
    for (int i = 0; i < SHAPES && !*shape; i++)
        if (shapes[i].mark && strstr(template, shapes[i].mark) &&
            (!shapes[i].other_mark || strstr(template, shapes[i].other_mark)))
            *shape = &shapes[i];
    if (*shape)
        return CS_OK;
    return cs_fail(CS_UNSUPPORTED, "not supported: the tokenizer's chat_template, because Jinja is not run here; %s",
                   known);
}

/* Each word in angle or square brackets that the shape writes has to be one token, or it would be learnt as letters. */
static cs_status check_words(const cs_chat_shape *shape, const cs_tokenizer *tokenizer)
{
    static const char *const words[] = { "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>",
                                         "<|eot_id|>" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (int who = 0; who < ROLES; who++) {
            const frame *f = &shape->frames[who];
            if ((strstr(f->open, words[i]) || strstr(f->close, words[i])) && cs_tokenizer_find(tokenizer, words[i]) < 0)
                return cs_fail(CS_BAD_CONFIG,
                               "the template %s writes %s, which this tokenizer has no token for; "
                               "\"plain\" needs none",
                               shape->name, words[i]);
        }
    if (shape->system_in_user && !cs_tokenizer_end_text(tokenizer))
        return cs_fail(CS_BAD_CONFIG,
                       "the template %s ends answers with eos_token, which tokenizer_config.json does not "
                       "name",
                       shape->name);
    return CS_OK;
}

cs_status cs_chat_find(const cs_chat_shape **shape, const char *name, const cs_tokenizer *tokenizer)
{
    *shape = NULL;
    if (strcmp(name, "auto") == 0)
        CS_TRY(recognise(shape, cs_tokenizer_template(tokenizer)));
    for (int i = 0; i < SHAPES && !*shape; i++)
        if (strcmp(shapes[i].name, name) == 0)
            *shape = &shapes[i];
    if (!*shape)
        return cs_fail(CS_BAD_CONFIG, "not a template: '%s'; %s, and auto", name, known);
    return check_words(*shape, tokenizer);
}

/* ---- writing ---- */

static void put_frame(cs_text *text, const char *words, const cs_tokenizer *tokenizer)
{
    while (*words) {
        const char *brace = strchrnul(words, '{'), *token = NULL;
        cs_unicode_append(text, words, (size_t)(brace - words));
        words = brace;
        if (!*words)
            break;
        token = words[1] == 'b' ? cs_tokenizer_begin_text(tokenizer) : cs_tokenizer_end_text(tokenizer);
        cs_unicode_append(text, token ? token : "", token ? strlen(token) : 0);
        words += strlen("{bos}");
    }
}

static void put_content(cs_text *text, const char *content, bool trims)
{
    static const char blank[] = " \t\n\r\v\f";
    size_t            size    = strlen(content);
    for (; trims && strchr(blank, *content) && size > 0; content++)
        size--;
    while (trims && size > 0 && strchr(blank, content[size - 1]))
        size--;
    cs_unicode_append(text, content, size);
}

static role find_role(const char *name)
{
    static const struct {
        const char *name;
        role        role;
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

static void add_answer(cs_chat_lines *lines, int64_t from)
{
    if (lines->count == lines->room) {
        lines->room    = 2 * lines->room + 8;
        lines->answers = realloc(lines->answers, (size_t)lines->room * sizeof *lines->answers);
        CS_ASSERT(lines->answers);
    }
    lines->answers[lines->count++] = (cs_chat_span){ from, (int64_t)lines->text.size };
}

/* A space that a shape writes before an answer is the answer's: its first word is one token with it. */
static size_t before_space(const cs_text *text, size_t began)
{
    size_t size = text->size;
    while (size > began && text->bytes[size - 1] == ' ')
        size--;
    return size;
}

static void put_message(const cs_chat_shape *shape, const cs_tokenizer *tokenizer, role who, const char *content,
                        const char *system, cs_chat_lines *lines)
{
    const frame *f = &shape->frames[who], *outer = &shape->frames[SYSTEM];
    size_t       began = lines->text.size, from;
    put_frame(&lines->text, f->open, tokenizer);
    if (system) {
        put_frame(&lines->text, outer->open, tokenizer);
        put_content(&lines->text, system, shape->trims);
        put_frame(&lines->text, outer->close, tokenizer);
    }
    from = before_space(&lines->text, began);
    put_content(&lines->text, content, shape->trims);
    put_frame(&lines->text, f->close, tokenizer);
    if (who == ASSISTANT)
        add_answer(lines, (int64_t)from);
    put_frame(&lines->text, f->after, tokenizer);
}

/* A system's message that stands within the user's waits for that in *system. */
static cs_status add_message(const cs_chat_shape *shape, const cs_tokenizer *tokenizer, const json_t *message,
                             const char **system, cs_chat_lines *lines)
{
    const json_t *name = role_of(message), *content = json_object_get(message, "content");
    if (!content)
        content = json_object_get(message, "value");
    role who = find_role(json_string_value(name));
    if (who == ROLES)
        return cs_fail(CS_BAD_FILE,
                       "not supported: a message of role %.40s, because only system, user (human) and "
                       "assistant (gpt) are known",
                       json_is_string(name) ? json_string_value(name) : "(none)");
    if (!json_is_string(content))
        return cs_fail(CS_BAD_FILE, "a message of the %s whose content is not text", json_string_value(name));
    if (who == SYSTEM && shape->system_in_user) {
        *system = json_string_value(content);
        return CS_OK;
    }
    put_message(shape, tokenizer, who, json_string_value(content), who == USER ? *system : NULL, lines);
    if (who == USER)
        *system = NULL;
    return CS_OK;
}

static const json_t *messages_of(const json_t *document)
{
    const json_t *messages = json_object_get(document, "messages");
    return messages ? messages : json_object_get(document, "conversations");
}

static cs_status write_all(const cs_chat_shape *shape, const cs_tokenizer *tokenizer, const json_t *document,
                           cs_chat_lines *lines)
{
    size_t        index;
    json_t       *message;
    const char   *system   = NULL;
    const json_t *messages = messages_of(document);
    if (json_array_size(messages) == 0)
        return cs_fail(CS_BAD_FILE, "no list \"messages\" (or \"conversations\") of a conversation's messages");
    lines->text.size = 0;
    lines->count     = 0;
    put_frame(&lines->text, shape->begin, tokenizer);
    json_array_foreach(messages, index, message) CS_TRY(add_message(shape, tokenizer, message, &system, lines));
    if (system)
        return cs_fail(CS_BAD_FILE, "a system message and no user's behind it, into which this template writes it");
    return CS_OK;
}

cs_status cs_chat_write(const cs_chat_shape *shape, const cs_tokenizer *tokenizer, const json_t *document,
                        cs_chat_lines *lines)
{
    CS_TRY(write_all(shape, tokenizer, document, lines));
    if (lines->count == 0)
        return cs_fail(CS_BAD_FILE, "a conversation without an answer: there is nothing to learn from it");
    return CS_OK;
}

cs_status cs_chat_prompt(const cs_chat_shape *shape, const cs_tokenizer *tokenizer, const json_t *document,
                         cs_chat_lines *lines)
{
    CS_TRY(write_all(shape, tokenizer, document, lines));
    const json_t *messages = messages_of(document), *last = json_array_get(messages, json_array_size(messages) - 1);
    cs_text      *text     = &lines->text;
    size_t        size     = text->size;
    if (find_role(json_string_value(role_of(last))) == ASSISTANT)
        return cs_fail(CS_BAD_FILE, "the conversation ends with an answer: its last message is to be the user's");
    put_frame(text, shape->frames[ASSISTANT].open, tokenizer);
    text->size = before_space(text, size);
    return CS_OK;
}

void cs_chat_stop(const cs_chat_shape *shape, const cs_tokenizer *tokenizer, cs_text *text)
{
    const char *close = shape->frames[ASSISTANT].close;
    put_frame(text, close + strspn(close, " "), tokenizer);
    cs_unicode_append(text, "", 1);
}

void cs_chat_free(cs_chat_lines *lines)
{
    cs_unicode_free(&lines->text);
    free(lines->answers);
    *lines = (cs_chat_lines){ 0 };
}
