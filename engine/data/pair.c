/* pair.c - reads one line of preference data: a prompt with a chosen and a rejected answer. */
#include "data/pair.h"
#include "data/shape.h"

#include <string.h>

/* The first TEXTS keys are those of answers that are texts, all of them those of conversations. */
static const char *const keys[] = { "chosen", "rejected", "prompt", "tools", "documents", "chat_template_kwargs" };
enum { KEYS = sizeof keys / sizeof *keys, TEXTS = 3 };

_Static_assert((int)KEYS + CE_SHAPE_OTHERS + 1 <= (int)CE_PAIR_NAMES, "all names have their place");

void ce_pair_names(const char *names[CE_PAIR_NAMES])
{
    int count = 0;
    for (int i = 0; i < KEYS; i++)
        names[count++] = keys[i];
    for (int i = 0; ce_shape_others[i]; i++)
        names[count++] = ce_shape_others[i];
    names[count++] = "system";
    names[count] = NULL;
}

typedef struct {
    json_t *prompt, *chosen, *rejected;
} parts;

/* ---- texts ---- */

/* Appends the prompt and the answer to `to`, and then the text `end` unless the answer already ends with it. */
static void write_text(ce_text *to, const char *prompt, size_t prompt_size, const char *answer, size_t size,
                       const char *end)
{
    size_t end_size = end ? strlen(end) : 0;
    ce_unicode_append(to, prompt, prompt_size);
    ce_unicode_append(to, answer, size);
    if (end_size > size || (end_size > 0 && memcmp(answer + size - end_size, end, end_size) != 0))
        ce_unicode_append(to, end, end_size);
}

/* Returns the length of the prompt with which both texts begin. The prompt is the whole characters that the texts have
 * in common at the beginning, without a space at the end. As in TRL, if one text is the beginning of the other, the
 * prompt is the shorter text without its last character; then a space at the end stays. */
static size_t common_prompt(const char *a, size_t a_size, const char *b, size_t b_size)
{
    size_t min = a_size < b_size ? a_size : b_size, length = 0;
    while (length < min && a[length] == b[length])
        length++;
    bool differ = length < min;
    if (!differ && length > 0)
        length--;
    while (length > 0 && ((unsigned char)a[length] & 0xc0) == 0x80)
        length--;
    return differ && length > 0 && a[length - 1] == ' ' ? length - 1 : length;
}

static cs_status read_texts(ce_pair *pair, const parts *of, const char *end)
{
    const char *chosen = json_string_value(of->chosen), *rejected = json_string_value(of->rejected);
    size_t chosen_size = json_string_length(of->chosen), rejected_size = json_string_length(of->rejected);
    const char *prompt = json_string_value(of->prompt);
    size_t size = json_string_length(of->prompt), skipped = 0;
    if (!prompt) {
        prompt = chosen;
        size = skipped = common_prompt(chosen, chosen_size, rejected, rejected_size);
    }
    ce_unicode_append(&pair->prompt, prompt, size);
    write_text(&pair->chosen, prompt, size, chosen + skipped, chosen_size - skipped, end);
    write_text(&pair->rejected, prompt, size, rejected + skipped, rejected_size - skipped, end);
    pair->repeated = of->prompt && size > 0 && chosen_size >= size && rejected_size >= size &&
                     memcmp(chosen, prompt, size) == 0 && memcmp(rejected, prompt, size) == 0;
    return CS_OK;
}

/* ---- conversations ---- */

/* Returns how many messages the two lists have in common, counted from the beginning. If all messages of the shorter
 * list are in common, its last message is not counted. */
static size_t common_messages(const json_t *a, const json_t *b)
{
    size_t count = 0, a_count = json_array_size(a), b_count = json_array_size(b);
    size_t min = a_count < b_count ? a_count : b_count;
    while (count < min && json_equal(json_array_get(a, count), json_array_get(b, count)))
        count++;
    return count == min && count > 0 ? count - 1 : count;
}

/* Returns true if the messages of `list` begin with all those of `prompt`, of which there are some. */
static bool begins_with(const json_t *list, const json_t *prompt)
{
    size_t index;
    json_t *message;
    json_array_foreach (prompt, index, message)
        if (!json_equal(message, json_array_get(list, index)))
            return false;
    return json_array_size(prompt) > 0;
}

/* Returns a new list of the messages of `prompt`, then those of `answer`. If `prompt` is NULL, `answer` includes the
 * prompt. */
static json_t *joined(json_t *prompt, json_t *answer)
{
    json_t *all = json_array();
    if (prompt)
        json_array_extend(all, prompt);
    json_array_extend(all, answer);
    return all;
}

/* What is written of a row. */
typedef struct {
    ce_chat *chat;
    const json_t *document;
    json_t *unread; /* what the template does not read */
} writer;

static cs_status write_conversation(ce_text *to, const writer *self, json_t *messages, bool asks)
{
    cs_status status = ce_chat_messages(self->chat, self->document, messages, asks, self->unread, to);
    json_decref(messages);
    return status;
}

/* Refuses marks that would have no effect: all of a chosen and of a rejected answer is learnt. The answer begins at
 * message `from` of the list. */
static cs_status check_marks(const json_t *list, size_t from, const char *which)
{
    for (size_t i = from; i < json_array_size(list); i++) {
        const char *mark = ce_chat_unlearnt(json_array_get(list, i));
        if (mark)
            return ce_fail(CS_UNSUPPORTED,
                           "not supported: message %zu of \"%s\" has \"%s\", which excludes it from the loss: all of "
                           "a chosen and of a rejected answer counts",
                           i + 1, which, mark);
    }
    return CS_OK;
}

static cs_status write_conversations(ce_pair *pair, const writer *self, const parts *of)
{
    json_t *prompt = json_is_array(of->prompt) ? of->prompt : NULL;
    size_t shared = prompt ? 0 : common_messages(of->chosen, of->rejected);
    CE_TRY(check_marks(of->chosen, shared, "chosen"));
    CE_TRY(check_marks(of->rejected, shared, "rejected"));
    if (shared + json_array_size(prompt) == 0)
        return ce_fail(CS_BAD_FILE, "a pair without a prompt: \"prompt\" has no messages, and \"chosen\" and "
                                    "\"rejected\" do not begin with the same message");
    json_t *asked = json_array();
    if (prompt)
        json_array_extend(asked, prompt);
    for (size_t i = 0; i < shared; i++)
        json_array_append(asked, json_array_get(of->chosen, i));
    CE_TRY(write_conversation(&pair->prompt, self, asked, true));
    CE_TRY(write_conversation(&pair->chosen, self, joined(prompt, of->chosen), false));
    CE_TRY(write_conversation(&pair->rejected, self, joined(prompt, of->rejected), false));
    pair->repeated = begins_with(of->chosen, prompt) && begins_with(of->rejected, prompt);
    return CS_OK;
}

static cs_status read_conversations(ce_pair *pair, ce_chat *chat, const json_t *document, const parts *of)
{
    writer self = { chat, document, json_object() };
    cs_status status = write_conversations(pair, &self, of);
    if (status == CS_OK)
        ce_chat_note(chat, self.unread);
    json_decref(self.unread);
    return status;
}

/* ---- a line ---- */

static cs_status check(const parts *of, const json_t *document, const ce_chat *chat, ce_columns_used *used)
{
    bool texts = json_is_string(of->chosen) && json_is_string(of->rejected);
    bool lists = json_array_size(of->chosen) > 0 && json_array_size(of->rejected) > 0;
    bool known = !of->prompt || json_is_string(of->prompt) || (lists && json_is_array(of->prompt));
    if (!of->chosen || !of->rejected) {
        const char *key = of->chosen ? "rejected" : "chosen";
        return ce_fail(CS_BAD_FILE, "%s \"%s\"%s: a line is {\"prompt\", \"chosen\", \"rejected\"}",
                       json_object_get(document, key) ? "the key" : "there is no key", key,
                       json_object_get(document, key) ? " is null" : "");
    }
    if ((!texts && !lists) || !known)
        return ce_fail(CS_BAD_FILE, "prompt, chosen and rejected must be three texts or three lists of messages");
    if (json_string_length(json_object_get(document, "system")) > 0)
        return ce_fail(CS_UNSUPPORTED, "not supported: \"system\" in a pair of answers: write it into the prompt, as "
                                       "its first message {\"role\": \"system\"}, or as a part of its text");
    if (lists && !chat)
        return ce_fail(CS_BAD_CONFIG, "a conversation, but the tokenizer has no chat_template; set "
                                      "cspeed.data.template to a template");
    if (texts && json_object_size(json_object_get(document, "chat_template_kwargs")) > 0)
        return ce_fail(
            CS_UNSUPPORTED,
            "not supported: chat_template_kwargs in a row without messages, because no template is used for it");
    for (int i = 0; i < (lists ? KEYS : TEXTS); i++)
        if (!lists || keys[i] != keys[2] || json_is_array(of->prompt))
            used->name[used->count++] = keys[i];
    return ce_shape_check(document, used);
}

/* Returns the value of a key. A key whose value is null counts as missing. */
static json_t *member(const json_t *document, const char *key)
{
    json_t *value = json_object_get(document, key);
    return json_is_null(value) ? NULL : value;
}

cs_status ce_pair_read(ce_pair *pair, ce_chat *chat, const char *end, const json_t *document)
{
    parts of = { member(document, "prompt"), member(document, "chosen"), member(document, "rejected") };
    pair->prompt.size = pair->chosen.size = pair->rejected.size = 0;
    pair->used.count = 0;
    CE_TRY(check(&of, document, chat, &pair->used));
    pair->rendered = json_is_array(of.chosen);
    return pair->rendered ? read_conversations(pair, chat, document, &of) : read_texts(pair, &of, end);
}

void ce_pair_free(ce_pair *pair)
{
    ce_unicode_free(&pair->prompt);
    ce_unicode_free(&pair->chosen);
    ce_unicode_free(&pair->rejected);
}
