/* chat.c - writes conversations as a chat template does, and marks which bytes are answers to learn. */
#include "chat/template.h"
#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- conversations ---- */

static cs_status refuse_extra(const char *key)
{
    return ce_fail(
        CS_UNSUPPORTED,
        "not supported: a conversation with \"%s\", because the built-in templates write only the text of messages; "
        "\"auto\" uses the tokenizer's template",
        key);
}

/* Refuses what a built-in template would leave out without a message. */
static cs_status check_extras(const json_t *object)
{
    static const char *const keys[] = { "tools", "documents", "tool_calls", "reasoning_content" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(object, keys[i]);
        if (json_array_size(value) > 0 || json_object_size(value) > 0 || json_string_length(value) > 0)
            return refuse_extra(keys[i]);
    }
    return CS_OK;
}

static cs_status check_message(const json_t *message, const json_t *list)
{
    char roles[400];
    const char *role = json_string_value(json_object_get(message, "role"));
    if (strcmp(role, "system") != 0 && strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0)
        return ce_fail(CS_BAD_FILE,
                       "not supported: a message of role %.40s, because only system, user (human) and assistant "
                       "(gpt) are supported; %s",
                       role, ce_messages_roles(list, roles, sizeof roles));
    return check_extras(message);
}

/* Opens the messages `list` of a document, and adds what the template does not read to `unread`. On failure too, the
 * caller closes the messages. */
static cs_status open_messages(ce_chat *chat, const json_t *document, const json_t *list, json_t *unread,
                               ce_messages *messages)
{
    size_t index;
    json_t *message;
    CE_TRY(ce_messages_open(messages, document, list, chat->plain.parts, chat->tools.parts));
    if (chat->name)
        CE_TRY(messages->more ? refuse_extra("chat_template_kwargs") : check_extras(messages->variables));
    json_array_foreach (messages->list, index, message)
        CE_TRY(chat->name ? check_message(message, messages->list) : CS_OK);
    ce_template_unread(chat, messages, unread);
    return CS_OK;
}

/* ---- answers ---- */

static void add_span(ce_chat_spans *spans, size_t from, size_t to)
{
    CE_MUST_HOLD(spans->list, spans->capacity, spans->count + 1);
    spans->list[spans->count++] = (ce_chat_span){ (int64_t)from, (int64_t)to };
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

/* A text in which answers are looked for, and how far it is known. */
typedef struct {
    ce_chat *chat;
    const ce_messages *messages;
    ce_jinja_output whole;
    size_t min; /* the end of the answer before */
} search;

/* Finds where message `index` begins in the text. Sets *known to false if the text differs from the prompt for the
 * message before the prompt's own words begin. */
static cs_status find_begin(const search *self, size_t index, size_t *from, bool *known)
{
    CE_CLOSED(ce_jinja_output_free) ce_jinja_output asked = { 0 };
    CE_CLOSED(ce_jinja_output_free) ce_jinja_output before = { 0 };
    CE_TRY(ce_template_render(self->chat, self->messages, index, true, &asked));
    *from = common_prefix(&asked.text, &self->whole.text);
    *known = *from >= self->min;
    if (*from < asked.text.size && index > 0) {
        CE_TRY(ce_template_render(self->chat, self->messages, index, false, &before));
        size_t history = common_prefix(&before.text, &asked.text);
        *known = *known && history > 0 && *from >= history;
    }
    return CS_OK;
}

/* Finds the answer that is message `index`. The answer begins where the prompt for it ends, and ends where the text of
 * the first `index` + 1 messages ends. White space at the end does not belong to the answer. Sets *known to false if
 * the template writes these messages differently in the text. */
static cs_status find_answer(search *self, size_t index, ce_chat_span *answer, bool *known)
{
    CE_CLOSED(ce_jinja_output_free) ce_jinja_output answered = { 0 };
    size_t from;
    CE_TRY(find_begin(self, index, &from, known));
    CE_TRY(ce_template_render(self->chat, self->messages, index + 1, false, &answered));
    size_t to = common_prefix(&answered.text, &self->whole.text);
    *known = *known && to == answered.text.size;
    while (to > from && strchr(" \t\n", self->whole.text.bytes[to - 1]))
        to--;
    *known = *known && to > from;
    *answer = (ce_chat_span){ (int64_t)before_space(&self->whole.text, from, self->min), (int64_t)to };
    self->min = to;
    return CS_OK;
}

/* Appends the text to `lines` as one sample. */
static size_t add_sample(const search *self, ce_chat_lines *lines)
{
    size_t at = lines->text.size;
    ce_unicode_append(&lines->text, self->whole.text.bytes, self->whole.text.size);
    add_span(&lines->samples, at, lines->text.size);
    return at;
}

static int64_t count_answers(const ce_messages *messages, bool learnt)
{
    int64_t count = 0;
    for (size_t i = 0; i < messages->count; i++)
        count += learnt ? messages->learnt[i] : ce_chat_is_answer(json_array_get(messages->list, i));
    return count;
}

/* ---- one sample ---- */

/* Adds the answers that {% generation %} blocks mark. */
static cs_status add_marked(const search *self, ce_chat_lines *lines)
{
    const ce_messages *messages = self->messages;
    int64_t all = count_answers(messages, false);
    size_t at = add_sample(self, lines), next = 0;
    if (count_answers(messages, true) == all) {
        for (size_t i = 0; i < self->whole.count; i++)
            add_span(&lines->answers, at + self->whole.generated[i].from, at + self->whole.generated[i].to);
        return CS_OK;
    }
    if ((int64_t)self->whole.count != all)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: to train on only some of the answers with this template, because it marks %zu "
                       "generated parts in %lld answers",
                       self->whole.count, (long long)all);
    for (size_t i = 0; i < messages->count; i++) {
        if (!ce_chat_is_answer(json_array_get(messages->list, i)))
            continue;
        if (messages->learnt[i])
            add_span(&lines->answers, at + self->whole.generated[next].from, at + self->whole.generated[next].to);
        next++;
    }
    return CS_OK;
}

/* Writes the conversation as one sample. Sets *known to false, and writes nothing, if the template writes the beginning
 * of the conversation differently than the whole. */
static cs_status write_whole(search *self, ce_chat_lines *lines, bool *known)
{
    cs_status status = ce_template_render(self->chat, self->messages, self->messages->count, false, &self->whole);
    *known = true;
    if (status != CS_OK || self->whole.count > 0)
        return status == CS_OK ? add_marked(self, lines) : status;
    for (size_t i = 0; i < self->messages->count && status == CS_OK && *known; i++) {
        ce_chat_span answer;
        if (!self->messages->learnt[i])
            continue;
        status = find_answer(self, i, &answer, known);
        if (status == CS_OK && *known)
            add_span(&lines->answers, (size_t)answer.from, (size_t)answer.to);
    }
    if (status == CS_OK && *known)
        add_sample(self, lines);
    else
        lines->answers.count = 0;
    return status;
}

/* ---- one sample for each answer ---- */

/* Writes the messages up to the answer that is message `index`, as the template writes them when the answer is the last
 * one. Only this answer is learnt. */
static cs_status write_turn(search *self, size_t index, ce_chat_lines *lines)
{
    bool known = true;
    ce_chat_span answer;
    self->min = 0;
    CE_TRY(ce_template_render(self->chat, self->messages, index + 1, false, &self->whole));
    CE_TRY(find_answer(self, index, &answer, &known));
    if (!known)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: to train on message %zu with this template, because the template writes the "
                       "earlier messages differently when this one follows, so the position of the answer is "
                       "unknown; a template with {%% generation %%} marks it",
                       index + 1);
    size_t at = add_sample(self, lines);
    for (size_t i = 0; i < self->whole.count; i++)
        if ((int64_t)self->whole.generated[i].to > answer.from)
            add_span(&lines->answers, at + self->whole.generated[i].from, at + self->whole.generated[i].to);
    if (self->whole.count == 0)
        add_span(&lines->answers, at + (size_t)answer.from, at + (size_t)answer.to);
    return CS_OK;
}

static cs_status write_turns(search *self, ce_chat_lines *lines, bool last)
{
    size_t index = self->messages->count;
    while (last && index > 0 && !self->messages->learnt[index - 1])
        index--;
    for (size_t i = last && index > 0 ? index - 1 : 0; i < index; i++)
        CE_TRY(self->messages->learnt[i] ? write_turn(self, i, lines) : CS_OK);
    ce_template_count(self->chat, lines->samples.count);
    return CS_OK;
}

static cs_status write_samples(search *self, ce_chat_turns turns, ce_chat_lines *lines)
{
    char roles[400];
    bool known = turns == CE_TURNS_AUTO;
    if (count_answers(self->messages, false) == 0)
        return ce_fail(CS_NOT_FOUND, "a conversation without an answer, so no token of it counts in the loss; %s",
                       ce_messages_roles(self->messages->list, roles, sizeof roles));
    if (count_answers(self->messages, true) == 0)
        return ce_fail(
            CS_NOT_FOUND,
            "no answer of this conversation counts in the loss: each is excluded, for example by \"train\": false");
    if (known)
        CE_TRY(write_whole(self, lines, &known));
    if (!known)
        CE_TRY(write_turns(self, lines, turns == CE_TURNS_LAST));
    return lines->answers.count > 0
               ? CS_OK
               : ce_fail(CS_BAD_FILE, "the chat template leaves out all answers of the conversation");
}

cs_status ce_chat_write(ce_chat *chat, const json_t *document, ce_chat_turns turns, ce_chat_lines *lines)
{
    ce_messages messages;
    search self = { .chat = chat, .messages = &messages };
    lines->text.size = 0;
    lines->answers.count = lines->samples.count = 0;
    json_auto_t *unread = json_object();
    cs_status status = open_messages(chat, document, json_object_get(document, "messages"), unread, &messages);
    if (status == CS_OK)
        status = write_samples(&self, turns, lines);
    if (status == CS_OK)
        ce_chat_note(chat, unread);
    ce_jinja_output_free(&self.whole);
    ce_messages_close(&messages);
    return status;
}

/* ---- texts without answers ---- */

cs_status ce_chat_messages(ce_chat *chat, const json_t *document, const json_t *list, bool asks, json_t *unread,
                           ce_text *to)
{
    CE_CLOSED(ce_jinja_output_free) ce_jinja_output output = { 0 };
    CE_CLOSED(ce_messages_close) ce_messages messages = { 0 };
    CE_TRY(open_messages(chat, document, list, unread, &messages));
    CE_TRY(ce_template_render(chat, &messages, messages.count, asks, &output));
    ce_unicode_append(to, output.text.bytes, output.text.size);
    return CS_OK;
}

cs_status ce_chat_prompt(ce_chat *chat, const json_t *document, ce_text *to)
{
    const json_t *list = json_object_get(document, "messages");
    to->size = 0;
    if (ce_chat_is_answer(json_array_get(list, json_array_size(list) - 1)))
        return ce_fail(CS_BAD_FILE, "the conversation ends with an answer, and its last message must be the user's");
    json_auto_t *unread = json_object();
    cs_status status = ce_chat_messages(chat, document, list, true, unread, to);
    if (status == CS_OK) {
        to->size = before_space(to, to->size, 0);
        ce_chat_note(chat, unread);
    }
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

void ce_chat_stop(ce_chat *chat, ce_text *text)
{
    static const char marker[] = "ANSWER";
    json_auto_t *document = json_pack("{s:[{s:s, s:s}, {s:s, s:s}]}", "messages", "role", "user", "content", "question",
                                      "role", "assistant", "content", marker);
    ce_chat_lines lines = { 0 };
    text->size = 0;
    if (ce_chat_write(chat, document, CE_TURNS_AUTO, &lines) == CS_OK) {
        const ce_chat_span *answer = &lines.answers.list[lines.answers.count - 1];
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
}

void ce_chat_lines_free(ce_chat_lines *lines)
{
    ce_unicode_free(&lines->text);
    free(lines->answers.list);
    free(lines->samples.list);
    *lines = (ce_chat_lines){ 0 };
}
