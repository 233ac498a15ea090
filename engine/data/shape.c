/* shape.c - what a row of JSON is in training: a text, a prompt with its completion, a conversation, or tokens. */
#include "data/shape.h"
#include "base/names.h"
#include "base/must.h"
#include "chat/chat.h"

#include <stdio.h>
#include <string.h>

/* ---- keys and columns ---- */

static const struct {
    const char *name;
    bool extra; /* True if the key does not decide a row's shape, but belongs to one of the shapes. */
} keys[] = {
    { "messages", false },       { "conversations", false },
    { "prompt", false },         { "completion", false },
    { "instruction", false },    { "output", false },
    { "input_ids", false },      { "system", true },
    { "input", true },           { "labels", true },
    { "tools", true },           { "documents", true },
    { "attention_mask", true },  { "completion_mask", true },
    { "assistant_masks", true }, { "chat_template_kwargs", true },
};
enum { KEYS = sizeof keys / sizeof *keys };

/* Alpaca's key for earlier turns. A row with an instruction and a list of earlier turns is refused. */
#define HISTORY "history"

/* Keys with which a conversation may be refused. In tables only known columns are read, so these columns must be known;
 * otherwise such rows would not be noticed. */
#define NAME(name) name,
const char *const ce_shape_others[CE_SHAPE_OTHERS] = { "functions", "function_call", "mask",
                                                       CE_CHAT_WISHES(NAME) NULL };
#undef NAME

_Static_assert((int)KEYS <= (int)CE_SHAPE_COLUMNS, "each key may have a column");
_Static_assert((int)CE_SHAPE_COLUMNS + CE_SHAPE_OTHERS <= CE_COLUMNS_USED, "a row may use them all");

static int key_of(const char *name)
{
    int i = 0;
    while (i < KEYS && strcmp(keys[i].name, name) != 0)
        i++;
    return i;
}

cs_status ce_shape_column(ce_shape_columns *columns, const char *key, const char *name)
{
    int number = key_of(key);
    if (number == KEYS)
        return ce_fail(
            CS_BAD_CONFIG,
            "\"%s\" is not a key for which a column can be named; possible are messages, conversations, prompt, "
            "completion, instruction, input, output, system, tools, documents, chat_template_kwargs, input_ids, "
            "labels, attention_mask, completion_mask and assistant_masks; \"field\" names the column of a text",
            key);
    for (int i = 0; i < columns->count; i++)
        if (strcmp(columns->key[i], key) == 0)
            return ce_fail(CS_BAD_CONFIG, "\"%s\" has two columns", key);
    columns->key[columns->count] = keys[number].name;
    columns->name[columns->count++] = name;
    return CS_OK;
}

void ce_shape_names(const char *names[CE_SHAPE_NAMES], const ce_shape_columns *columns, const char *field)
{
    int count = 0;
    names[count++] = field;
    for (int i = 0; i < KEYS; i++)
        names[count++] = keys[i].name;
    for (int i = 0; i < columns->count; i++)
        names[count++] = columns->name[i];
    for (int i = 0; ce_shape_others[i]; i++)
        names[count++] = ce_shape_others[i];
    names[count++] = HISTORY;
    names[count] = NULL;
}

/* ---- rows ---- */

typedef struct {
    ce_shape *shape;
    const json_t *row;
    const ce_shape_columns *columns;
    const char *field;
    bool named; /* True if the row uses another name, which `columns` gives, for a key that decides the shape. */
} reader;

static json_t *member(const json_t *row, const char *name)
{
    json_t *value = json_object_get(row, name);
    return json_is_null(value) ? NULL : value;
}

/* Finds the value of a key. *column becomes the name of the row's column that has it. */
static json_t *find_in(const reader *self, const char *key, const char **column)
{
    bool extra = keys[key_of(key)].extra;
    for (int i = 0; i < self->columns->count; i++) {
        json_t *value = member(self->row, *column = self->columns->name[i]);
        if (strcmp(self->columns->key[i], key) == 0 && (self->named || (extra && value)))
            return value;
    }
    *column = key;
    return self->named && !extra ? NULL : member(self->row, key);
}

static json_t *find(const reader *self, const char *key)
{
    const char *column;
    return find_in(self, key, &column);
}

/* Does the same as find, for a key that is used: the column counts as read. */
static json_t *use(const reader *self, const char *key)
{
    const char *column;
    json_t *value = find_in(self, key, &column);
    if (value)
        self->shape->used.name[self->shape->used.count++] = column;
    return value;
}

/* Returns the first key that would decide the shape and is null, or NULL. */
static const char *null_key(const reader *self)
{
    if (json_is_null(json_object_get(self->row, self->field)))
        return self->field;
    for (int i = 0; i < KEYS; i++)
        if (!keys[i].extra && json_is_null(json_object_get(self->row, keys[i].name)))
            return keys[i].name;
    for (int i = 0; i < self->columns->count; i++)
        if (json_is_null(json_object_get(self->row, self->columns->name[i])))
            return self->columns->name[i];
    return NULL;
}

static cs_status refuse(const reader *self, bool chats)
{
    ce_names list = { 0 };
    const char *name, *null = null_key(self);
    json_t *value;
    if (null)
        return ce_fail(CS_BAD_FILE, "\"%s\" is null, and the row has no other text", null);
    if (!chats &&
        (find(self, "messages") || find(self, "conversations") || (find(self, "instruction") && find(self, "output"))))
        return ce_fail(CS_BAD_FILE,
                       "a conversation, but no chat template is set: --set cspeed.data.template=auto (pack: "
                       "--template auto) uses the tokenizer's");
    json_object_foreach ((json_t *)(uintptr_t)self->row, name, value)
        ce_names_add(&list, "\"%.60s\"", name);
    return ce_fail(
        CS_BAD_FILE,
        "there is no key \"%s\" (\"field\" names the key of a document's text), and no \"messages\" or "
        "\"conversations\", \"prompt\" and \"completion\", \"instruction\" and \"output\" (\"columns\" sets other "
        "names for these; conversations need \"template\"), nor \"input_ids\"; its keys: %s",
        self->field, list.count ? ce_names_text(&list) : "none");
}

/* ---- conversations ---- */

/* Makes the list of messages of a conversation, with the system message if the row has the key "system". Returns the
 * list, which the shape owns. */
static json_t *begin_chat(ce_shape *shape, const reader *self)
{
    json_t *messages = json_array(), *system = use(self, "system");
    shape->kind = CE_SHAPE_CHAT;
    shape->chat = json_pack("{s:o}", "messages", messages);
    CE_ASSERT(shape->chat);
    if (json_string_length(system) > 0)
        json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "system", "content", system));
    return messages;
}

/* Returns true if the row has the key with a value that is neither null nor empty. In tables a list may be a text. */
static bool has(const json_t *row, const char *key)
{
    const json_t *value = member(row, key);
    bool empty = json_is_array(value)    ? json_array_size(value) == 0
                 : json_is_object(value) ? json_object_size(value) == 0
                                         : json_is_string(value) && (json_string_length(value) == 0 ||
                                                                     strcmp(json_string_value(value), "[]") == 0);
    return value && !empty;
}

static bool is_yes(const json_t *value)
{
    return json_is_true(value) || (json_is_number(value) && json_number_value(value) == 1);
}

cs_status ce_shape_check(const json_t *row, ce_columns_used *used)
{
    static const char *const weights[] = { "weight", "loss_weight" };
    if (has(row, "functions") || member(row, "function_call"))
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: a conversation with \"%s\"; OpenAI has replaced \"functions\" by "
                       "\"tools\", and \"function_call\" by \"tool_calls\" and \"tool_choice\"",
                       has(row, "functions") ? "functions" : "function_call");
    const char *wish = member(row, "mask") ? "mask" : ce_chat_unlearnt(row);
    for (int i = 0; i < 2; i++)
        wish = member(row, weights[i]) && !is_yes(member(row, weights[i])) ? weights[i] : wish;
    if (wish)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: a row with a \"%s\" other than 1 or true: all rows have the same weight; "
                       "\"train\": false in a message excludes this answer from the loss",
                       wish);
    for (int i = 0; ce_shape_others[i]; i++)
        if (is_yes(member(row, ce_shape_others[i])))
            used->name[used->count++] = ce_shape_others[i];
    return CS_OK;
}

/* Checks the conversation that was read, and copies what belongs to it. */
static cs_status end_chat(ce_shape *shape, const reader *self)
{
    static const char *const extras[] = { "tools", "documents", "chat_template_kwargs" };
    json_t *system = find(self, "system");
    if (system && !json_is_string(system))
        return ce_fail(CS_BAD_FILE, "\"system\" is not text");
    CE_TRY(ce_shape_check(self->row, &shape->used));
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++) {
        json_t *value = use(self, extras[i]);
        if (value)
            json_object_set(shape->chat, extras[i], value);
    }
    return CS_OK;
}

/* Appends the messages of a prompt. Its answers are not learnt. */
static void append_prompt(json_t *messages, const json_t *prompt)
{
    size_t index;
    json_t *message;
    json_array_foreach (prompt, index, message) {
        json_t *copy = json_copy(message);
        if (ce_chat_is_answer(message))
            json_object_set_new(copy, "train", json_false());
        json_array_append_new(messages, copy);
    }
}

static cs_status read_pair(ce_shape *shape, const reader *self, bool chats)
{
    json_t *prompt = use(self, "prompt"), *completion = use(self, "completion");
    bool texts = json_is_string(prompt) && json_is_string(completion);
    if (!texts && !(json_is_array(prompt) && json_is_array(completion)))
        return ce_fail(CS_BAD_FILE, "a prompt and its completion must be two texts or two lists of messages");
    if (!texts && !chats)
        return ce_fail(CS_BAD_FILE, "a prompt and a completion that are messages need \"template\"");
    if (!chats) {
        shape->kind = CE_SHAPE_PAIR;
        shape->text = prompt;
        shape->completion = completion;
        return ce_shape_check(self->row, &shape->used);
    }
    json_t *messages = begin_chat(shape, self);
    if (texts) {
        json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "user", "content", prompt));
        json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "assistant", "content", completion));
    } else {
        append_prompt(messages, prompt);
        json_array_extend(messages, completion);
    }
    return end_chat(shape, self);
}

static cs_status read_instruction(ce_shape *shape, const reader *self)
{
    const json_t *instruction = use(self, "instruction"), *input = use(self, "input");
    json_t *output = use(self, "output");
    if (!json_is_string(instruction) || !json_is_string(output) || (input && !json_is_string(input)))
        return ce_fail(CS_BAD_FILE, "an instruction, its input and its output must be texts");
    if (has(self->row, HISTORY))
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: an instruction with a \"" HISTORY "\"; write several turns as \"messages\"");
    json_t *messages = begin_chat(shape, self);
    bool more = input && json_string_length(input) > 0;
    json_array_append_new(messages, json_pack("{s:s, s:s++}", "role", "user", "content", json_string_value(instruction),
                                              more ? "\n" : "", more ? json_string_value(input) : ""));
    json_array_append_new(messages, json_pack("{s:s, s:O}", "role", "assistant", "content", output));
    return end_chat(shape, self);
}

/* Reads the messages of a conversation, of two lists that the row may have. */
static cs_status read_messages(ce_shape *shape, const reader *self)
{
    static const char *const names[] = { "messages", "conversations" };
    json_t *chosen = NULL;
    for (int i = 0; i < 2; i++) {
        json_t *list = use(self, names[i]);
        if (list && !json_is_array(list))
            return ce_fail(CS_BAD_FILE, "\"%s\" is not a list of messages", names[i]);
        if (json_array_size(chosen) > 0 && json_array_size(list) > 0 && !json_equal(chosen, list))
            return ce_fail(CS_BAD_FILE, "the row has both \"messages\" and \"conversations\", and they differ: remove "
                                        "the wrong one");
        chosen = json_array_size(list) > 0 || !chosen ? list : chosen;
    }
    json_array_extend(begin_chat(shape, self), chosen);
    return end_chat(shape, self);
}

/* Reads a conversation. Sets *found to false if the row is no conversation. */
static cs_status read_chat(ce_shape *shape, const reader *self, bool *found)
{
    *found = true;
    if (find(self, "messages") || find(self, "conversations"))
        return read_messages(shape, self);
    if (find(self, "prompt") && find(self, "completion"))
        return read_pair(shape, self, true);
    if (find(self, "instruction") && find(self, "output"))
        return read_instruction(shape, self);
    *found = false;
    return CS_OK;
}

/* ---- texts and tokens ---- */

static cs_status read_text(ce_shape *shape, const reader *self, json_t *text)
{
    shape->kind = CE_SHAPE_TEXT;
    shape->text = text;
    shape->used.name[shape->used.count++] = self->field;
    return json_is_string(text) ? CS_OK : ce_fail(CS_BAD_FILE, "the value of \"%s\" is not text", self->field);
}

/* Checks a list of numbers, or of numbers and truth values. */
static cs_status check_list(const char *name, const json_t *list, size_t count, bool truth)
{
    size_t index;
    json_t *number;
    if (!json_is_array(list) || json_array_size(list) != count)
        return ce_fail(CS_BAD_FILE, "\"%s\" is not a list of %zu numbers, one for each of \"input_ids\"", name, count);
    json_array_foreach (list, index, number)
        if (!json_is_integer(number) && !(truth && json_is_boolean(number)))
            return ce_fail(CS_BAD_FILE, "\"%s\" has an element that is not an integer, at %zu", name, index);
    return CS_OK;
}

/* The names that TRL gives to lists with a 1 for each token that the model learns. */
static const char *const masks[CE_SHAPE_MASKS] = { "completion_mask", "assistant_masks" };

bool ce_shape_is_masked(const json_t *mask, size_t index)
{
    const json_t *value = json_array_get(mask, index);
    return json_is_false(value) || (json_is_integer(value) && json_integer_value(value) == 0);
}

static cs_status read_tokens(ce_shape *shape, const reader *self)
{
    json_t *tokens = use(self, "input_ids");
    size_t count = json_array_size(tokens);
    shape->kind = CE_SHAPE_TOKENS;
    shape->tokens = tokens;
    shape->labels = use(self, "labels");
    shape->mask = use(self, "attention_mask");
    CE_TRY(check_list("input_ids", tokens, count, false));
    CE_TRY(shape->labels ? check_list("labels", shape->labels, count, false) : CS_OK);
    for (int i = 0; i < CE_SHAPE_MASKS; i++) {
        shape->learnt[i] = use(self, masks[i]);
        CE_TRY(shape->learnt[i] ? check_list(masks[i], shape->learnt[i], count, true) : CS_OK);
    }
    CE_TRY(shape->mask ? check_list("attention_mask", shape->mask, count, true) : CS_OK);
    return ce_shape_check(self->row, &shape->used);
}

cs_status ce_shape_read(ce_shape *shape, const json_t *row, const ce_shape_columns *columns, const char *field,
                        bool chats)
{
    reader self = { .shape = shape, .row = row, .columns = columns, .field = field };
    bool found = false;
    *shape = (ce_shape){ 0 };
    if (!json_is_object(row))
        return ce_fail(CS_BAD_FILE, "not a JSON object");
    for (int i = 0; i < columns->count; i++)
        self.named |= !keys[key_of(columns->key[i])].extra && member(row, columns->name[i]);
    json_t *text = self.named ? NULL : member(row, field);
    if (chats)
        CE_TRY(read_chat(shape, &self, &found));
    if (found)
        return CS_OK;
    if (text)
        return read_text(shape, &self, text);
    if (find(&self, "prompt") && find(&self, "completion"))
        return read_pair(shape, &self, false);
    return find(&self, "input_ids") ? read_tokens(shape, &self) : refuse(&self, chats);
}

void ce_shape_free(ce_shape *shape)
{
    json_decref(shape->chat);
    shape->chat = NULL;
}
