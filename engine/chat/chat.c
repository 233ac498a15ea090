/* chat.c - writes conversations as a chat template does, and marks which bytes are answers to learn. */
#include "chat/chat.h"
#include "jinja/jinja.h"
#include "base/must.h"
#include "checkpoint/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ce_chat {
    const char *name; /* name of a built-in template; NULL if the template comes from the tokenizer or from a file */
    ce_jinja *template;
    const ce_tokenizer *tokenizer;
    time_t now;
};

static const struct {
    const char *name, *source;
} built_in[] = {
#define BUILT_IN(name, source) { name, source },
#include "chat/templates.h"
#undef BUILT_IN
};
enum { BUILT_INS = sizeof built_in / sizeof *built_in };

enum { MAX_BYTES = 16 << 20 }; /* maximum size of a template's file */

/* ---- opening ---- */

/* Lists the names of the built-in templates: "chatml", "chatml-bos", ... and "plain", which is last. */
static const char *list_names(char *text, size_t capacity)
{
    size_t at = 0;
    for (int i = 0; i < BUILT_INS && at < capacity; i++)
        at += (size_t)snprintf(text + at, capacity - at, "%s\"%s\"",
                               i == 0              ? ""
                               : i + 1 < BUILT_INS ? ", "
                                                   : " and ",
                               built_in[i].name);
    return text;
}

/* Checks that each control word that a built-in template writes is one token of the tokenizer. If it were several
 * tokens, the model would learn the control word as ordinary text. */
static cs_status check_words(const char *name, const char *source, const ce_tokenizer *tokenizer)
{
    static const char *const words[] = { "<|im_start|>", "<|im_end|>",      "<|start_header_id|>", "<|end_header_id|>",
                                         "<|eot_id|>",   "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(source, words[i]) && ce_tokenizer_find(tokenizer, words[i]) < 0)
            return ce_fail(CS_BAD_CONFIG,
                           "the template %s writes %s, which this tokenizer has no token for; \"plain\" needs none",
                           name, words[i]);
    if (strstr(source, "+ eos_token") && !ce_tokenizer_end_text(tokenizer))
        return ce_fail(CS_BAD_CONFIG,
                       "the template %s ends answers with eos_token, which tokenizer_config.json does not name", name);
    return CS_OK;
}

static cs_status compile_own(ce_chat *chat)
{
    char names[512];
    const char *source = ce_tokenizer_template(chat->tokenizer);
    if (!source)
        return ce_fail(CS_BAD_CONFIG,
                       "cspeed.data.template \"auto\": the tokenizer has no chat_template to follow, in "
                       "tokenizer_config.json or chat_template.jinja; name one of %s",
                       list_names(names, sizeof names));
    if (ce_jinja_compile(&chat->template, source, strlen(source)) == CS_OK)
        return CS_OK;
    char *reason = strdup(cs_error());
    CS_ASSERT(reason);
    ce_fail(CS_BAD_CONFIG, "cspeed.data.template \"auto\": the tokenizer's chat_template, %s; or name one of %s",
            reason, list_names(names, sizeof names));
    free(reason);
    return CS_BAD_CONFIG;
}

static cs_status compile_file(ce_chat *chat, const char *path)
{
    char *source, *reason;
    size_t length;
    cs_status status = ce_files_read(&source, &length, path, MAX_BYTES);
    if (status == CS_NOT_FOUND)
        return ce_fail(status, "%s: no such file; cspeed.data.template names it", path);
    CS_TRY(status);
    status = ce_jinja_compile(&chat->template, source, length);
    free(source);
    if (status == CS_OK)
        return CS_OK;
    CS_ASSERT(reason = strdup(cs_error()));
    ce_fail(CS_BAD_CONFIG, "%s: %s", path, reason);
    free(reason);
    return CS_BAD_CONFIG;
}

static cs_status compile(ce_chat *chat, const char *name)
{
    char names[512];
    if (ce_chat_is_file(name))
        return compile_file(chat, name);
    if (strcmp(name, "auto") == 0)
        return compile_own(chat);
    for (int i = 0; i < BUILT_INS; i++)
        if (strcmp(built_in[i].name, name) == 0) {
            chat->name = built_in[i].name;
            CS_TRY(check_words(name, built_in[i].source, chat->tokenizer));
            return ce_jinja_compile(&chat->template, built_in[i].source, strlen(built_in[i].source));
        }
    return ce_fail(CS_BAD_CONFIG, "not a template: '%s'; known are %s, \"auto\" and files NAME.jinja", name,
                   list_names(names, sizeof names));
}

bool ce_chat_is_file(const char *name)
{
    const char *ending = strrchr(name, '.');
    return ending && strcmp(ending, ".jinja") == 0;
}

cs_status ce_chat_open(ce_chat **chat, const char *name, const ce_tokenizer *tokenizer)
{
    ce_chat *made = calloc(1, sizeof *made);
    const char *epoch = getenv("SOURCE_DATE_EPOCH");
    CS_ASSERT(made);
    made->tokenizer = tokenizer;
    made->now = epoch ? (time_t)strtoll(epoch, NULL, 10) : time(NULL);
    cs_status status = compile(made, name);
    *chat = status == CS_OK ? made : NULL;
    if (status != CS_OK)
        ce_chat_close(made);
    return status;
}

void ce_chat_close(ce_chat *chat)
{
    if (chat)
        ce_jinja_free(chat->template);
    free(chat);
}

/* ---- conversations as variables ---- */

/* Returns the role of a message by OpenAI's names. If a message has no "role", its "from" gives the role: "human" means
 * "user", "gpt" means "assistant", and another text is the role itself. */
static const char *role_of(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const char *from = json_string_value(json_object_get(message, "from"));
    if (role || !from)
        return role;
    return strcmp(from, "human") == 0 ? "user" : strcmp(from, "gpt") == 0 ? "assistant" : from;
}

bool ce_chat_is_answer(const json_t *message)
{
    const char *role = role_of(message);
    return role && strcmp(role, "assistant") == 0;
}

static json_t *plain_message(json_t *message)
{
    const char *role = role_of(message);
    json_t *content = json_object_get(message, "value");
    if (!json_is_object(message) || json_object_get(message, "role"))
        return json_incref(message);
    json_t *made = json_copy(message);
    json_object_del(made, "from");
    json_object_del(made, "value");
    if (role)
        json_object_set_new(made, "role", json_string(role));
    if (content)
        json_object_set(made, "content", content);
    return made;
}

static json_t *plain_messages(const json_t *list)
{
    json_t *made = json_array(), *message;
    size_t index;
    json_array_foreach (list, index, message)
        json_array_append_new(made, plain_message(message));
    return made;
}

static json_t *messages_of(const json_t *document)
{
    const json_t *list = json_object_get(document, "messages");
    return plain_messages(list ? list : json_object_get(document, "conversations"));
}

/* Refuses the members "tools" and "tool_calls" for a built-in template, which would leave them out without a
 * message. */
static cs_status check_extras(const json_t *object)
{
    static const char *const keys[] = { "tools", "tool_calls" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_array_size(json_object_get(object, keys[i])) > 0)
            return ce_fail(CS_UNSUPPORTED,
                           "not supported: a conversation with \"%s\", because the built-in templates write "
                           "what is said alone; \"auto\" follows the tokenizer's template",
                           keys[i]);
    return CS_OK;
}

static cs_status check_message(const json_t *message)
{
    const char *role = role_of(message);
    if (!role || (strcmp(role, "system") != 0 && strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0))
        return ce_fail(CS_BAD_FILE,
                       "not supported: a message of role %.40s, because only system, user (human) and "
                       "assistant (gpt) are known",
                       role ? role : "(none)");
    CS_TRY(check_extras(message));
    if (!json_is_string(json_object_get(message, "content")))
        return ce_fail(CS_BAD_FILE, "a message of the %s whose content is not text", role);
    return CS_OK;
}

static cs_status check(const ce_chat *chat, const json_t *document, const json_t *messages)
{
    size_t index;
    json_t *message;
    if (json_array_size(messages) == 0)
        return ce_fail(CS_BAD_FILE, "no list \"messages\" (or \"conversations\") of a conversation's messages");
    if (!chat->name)
        return CS_OK;
    CS_TRY(check_extras(document));
    json_array_foreach (messages, index, message)
        CS_TRY(check_message(message));
    return CS_OK;
}

/* ---- rendering ---- */

/* Renders the first `count` messages. */
static cs_status render(const ce_chat *chat, const json_t *document, const json_t *messages, size_t count, bool prompt,
                        ce_jinja_output *output)
{
    json_t *list = json_array(), *tools = json_object_get(document, "tools");
    json_t *documents = json_object_get(document, "documents");
    const char *begin = ce_tokenizer_begin_text(chat->tokenizer), *end = ce_tokenizer_end_text(chat->tokenizer);
    for (size_t i = 0; i < count; i++)
        json_array_append(list, json_array_get(messages, i));
    json_t *variables = json_pack("{s:o, s:O?, s:O?, s:b, s:s*, s:s*}", "messages", list, "tools", tools, "documents",
                                  documents, "add_generation_prompt", prompt, "bos_token", begin, "eos_token", end);
    CS_ASSERT(variables);
    cs_status status = ce_jinja_render(chat->template, variables, chat->now, output);
    json_decref(variables);
    return status;
}

/* ---- answers ---- */

static void add_answer(ce_chat_lines *lines, size_t from, size_t to)
{
    if (lines->count == lines->capacity) {
        lines->capacity = 2 * lines->capacity + 8;
        lines->answers = realloc(lines->answers, (size_t)lines->capacity * sizeof *lines->answers);
        CS_ASSERT(lines->answers);
    }
    lines->answers[lines->count++] = (ce_chat_span){ (int64_t)from, (int64_t)to };
}

/* Moves the beginning of an answer back over the spaces before it. They belong to the answer, because the last of these
 * spaces and the answer's first word are one token. */
static size_t before_space(const ce_text *text, size_t from, size_t min)
{
    while (from > min && text->bytes[from - 1] == ' ')
        from--;
    return from;
}

static size_t common_prefix(const ce_text *a, const ce_text *b)
{
    size_t length = 0;
    while (length < a->size && length < b->size && a->bytes[length] == b->bytes[length])
        length++;
    return length;
}

/* Finds the answer that is message `index`. The answer begins where the prompt for it ends, and ends where the text of
 * the first `index` + 1 messages ends. White space at the end does not belong to the answer. */
static cs_status find_answer(const ce_chat *chat, const json_t *document, const json_t *messages, size_t index,
                             ce_chat_lines *lines)
{
    ce_jinja_output asked = { 0 }, answered = { 0 };
    size_t from = 0, to = 0;
    int64_t min = lines->count > 0 ? lines->answers[lines->count - 1].to : 0;
    cs_status status = render(chat, document, messages, index, true, &asked);
    if (status == CS_OK)
        status = render(chat, document, messages, index + 1, false, &answered);
    if (status == CS_OK) {
        from = common_prefix(&asked.text, &lines->text);
        to = common_prefix(&answered.text, &lines->text);
        bool whole = to == answered.text.size;
        while (to > from && strchr(" \t\n", lines->text.bytes[to - 1]))
            to--;
        if (!whole || to <= from || (int64_t)from < min)
            status = ce_fail(CS_UNSUPPORTED,
                             "not supported: learning from this conversation by its template, because the template "
                             "writes message %zu differently when others follow, so where the answer stands is not "
                             "known; a template with {%% generation %%} says it",
                             index + 1);
        else
            add_answer(lines, before_space(&lines->text, from, (size_t)min), to);
    }
    ce_jinja_output_free(&asked);
    ce_jinja_output_free(&answered);
    return status;
}

static cs_status find_answers(const ce_chat *chat, const json_t *document, const json_t *messages, ce_chat_lines *lines)
{
    size_t index;
    json_t *message;
    json_array_foreach (messages, index, message)
        if (ce_chat_is_answer(message))
            CS_TRY(find_answer(chat, document, messages, index, lines));
    return CS_OK;
}

static cs_status write_all(const ce_chat *chat, const json_t *document, const json_t *messages, ce_chat_lines *lines)
{
    ce_jinja_output output = { 0 };
    CS_TRY(check(chat, document, messages));
    cs_status status = render(chat, document, messages, json_array_size(messages), false, &output);
    if (status == CS_OK) {
        ce_unicode_append(&lines->text, output.text.bytes, output.text.size);
        for (size_t i = 0; i < output.count; i++)
            add_answer(lines, output.generated[i].from, output.generated[i].to);
        if (output.count == 0)
            status = find_answers(chat, document, messages, lines);
    }
    ce_jinja_output_free(&output);
    return status;
}

cs_status ce_chat_write(const ce_chat *chat, const json_t *document, ce_chat_lines *lines)
{
    json_t *messages = messages_of(document);
    lines->text.size = 0;
    lines->count = 0;
    cs_status status = write_all(chat, document, messages, lines);
    json_decref(messages);
    if (status == CS_OK && lines->count == 0)
        return ce_fail(CS_BAD_FILE, "a conversation without an answer: there is nothing to learn from it");
    return status;
}

cs_status ce_chat_messages(const ce_chat *chat, const json_t *document, const json_t *messages, bool asks, ce_text *to)
{
    ce_jinja_output output = { 0 };
    json_t *list = plain_messages(messages);
    cs_status status = check(chat, document, list);
    if (status == CS_OK)
        status = render(chat, document, list, json_array_size(list), asks, &output);
    if (status == CS_OK)
        ce_unicode_append(to, output.text.bytes, output.text.size);
    json_decref(list);
    ce_jinja_output_free(&output);
    return status;
}

static cs_status write_prompt(const ce_chat *chat, const json_t *document, const json_t *messages, ce_jinja_output *to)
{
    size_t count = json_array_size(messages);
    CS_TRY(check(chat, document, messages));
    if (ce_chat_is_answer(json_array_get(messages, count - 1)))
        return ce_fail(CS_BAD_FILE, "the conversation ends with an answer: its last message is to be the user's");
    return render(chat, document, messages, count, true, to);
}

cs_status ce_chat_prompt(const ce_chat *chat, const json_t *document, ce_chat_lines *lines)
{
    ce_jinja_output output = { 0 };
    json_t *messages = messages_of(document);
    cs_status status = write_prompt(chat, document, messages, &output);
    json_decref(messages);
    lines->count = 0;
    lines->text.size = 0;
    ce_unicode_append(&lines->text, output.text.bytes, before_space(&output.text, output.text.size, 0));
    ce_jinja_output_free(&output);
    return status;
}

/* ---- the end of an answer ---- */

/* Returns the length of the special token at the beginning of `text`, or 0 if there is none. */
static size_t special_token(const ce_chat *chat, const char *text, size_t size)
{
    char word[64];
    for (size_t length = 1; length <= size && length < sizeof word; length++) {
        snprintf(word, sizeof word, "%.*s", (int)length, text);
        int32_t id = strchr(">])}", text[length - 1]) ? ce_tokenizer_find(chat->tokenizer, word) : -1;
        if (id >= 0 && ce_tokenizer_is_special(chat->tokenizer, id))
            return length;
    }
    return 0;
}

void ce_chat_stop(const ce_chat *chat, ce_text *text)
{
    static const char marker[] = "ANSWER";
    json_t *document = json_pack("{s:[{s:s, s:s}, {s:s, s:s}]}", "messages", "role", "user", "content", "question",
                                 "role", "assistant", "content", marker);
    ce_chat_lines lines = { 0 };
    text->size = 0;
    if (ce_chat_write(chat, document, &lines) == CS_OK) {
        const ce_chat_span *answer = &lines.answers[lines.count - 1];
        const char *end = lines.text.bytes + answer->to;
        const char *found =
            memmem(lines.text.bytes + answer->from, (size_t)(answer->to - answer->from), marker, strlen(marker));
        found = found ? found + strlen(marker) : end;
        while (found < end && *found == ' ')
            found++;
        size_t special = special_token(chat, found, (size_t)(end - found));
        ce_unicode_append(text, found, special ? special : (size_t)(end - found));
    }
    ce_unicode_append(text, "", 1);
    ce_chat_lines_free(&lines);
    json_decref(document);
}

void ce_chat_lines_free(ce_chat_lines *lines)
{
    ce_unicode_free(&lines->text);
    free(lines->answers);
    *lines = (ce_chat_lines){ 0 };
}
