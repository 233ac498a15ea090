/* messages.c - the variables of a chat template: the messages of a conversation, its tools, documents and settings. */
#include "chat/messages.h"
#include "chat/chat.h"
#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const ce_messages_reasoning[] = { "reasoning_content", "thinking", "reasoning", NULL };

/* ---- roles ---- */

/* Returns OpenAI's name of a role of ShareGPT: "human" means "user", "gpt" means "assistant", and another text is the
 * role itself. */
static const char *role_from(const char *from)
{
    return strcmp(from, "human") == 0 ? "user" : strcmp(from, "gpt") == 0 ? "assistant" : from;
}

/* Returns the role of a message by OpenAI's names. If a message has no "role", its "from" gives the role. */
static const char *role_of(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    const char *from = json_string_value(json_object_get(message, "from"));
    return role || !from ? role : role_from(from);
}

bool ce_chat_is_answer(const json_t *message)
{
    const char *role = role_of(message);
    return role && strcmp(role, "assistant") == 0;
}

const char *ce_messages_roles(const json_t *list, char *text, size_t capacity)
{
    json_t *known = json_object(), *message;
    size_t index, at = 0;
    json_array_foreach (list, index, message) {
        const char *role = role_of(message);
        if (role && !json_object_get(known, role) && at < capacity) {
            json_object_set_new(known, role, json_true());
            at += (size_t)snprintf(text + at, capacity - at, "%s\"%.40s\"", at ? ", " : "the roles here are ", role);
        }
    }
    json_decref(known);
    return at ? text : "no message has a role";
}

/* Where a message is, for an error: "message 2 (assistant)". */
enum { PLACE = 80 };

static const char *place_of(const json_t *message, size_t index, char text[PLACE])
{
    const char *role = role_of(message);
    snprintf(text, PLACE, "message %zu%s%.40s%s", index + 1, role ? " (" : "", role ? role : "", role ? ")" : "");
    return text;
}

/* ---- contents ---- */

static const char *kind_of(const json_t *value)
{
    return !value                   ? "null or missing"
           : json_is_array(value)   ? "a list"
           : json_is_object(value)  ? "an object"
           : json_is_boolean(value) ? "true or false"
           : json_is_string(value)  ? "a text"
                                    : "a number";
}

/* Appends the text of a part, which is {"type": "text", "text": "..."}. */
static cs_status add_part(ce_text *joined, const json_t *part, size_t number, const char *place)
{
    const json_t *type = json_object_get(part, "type"), *text = json_object_get(part, "text");
    const char *key;
    json_t *value;
    if (!json_is_string(type) || strcmp(json_string_value(type), "text") != 0 || !json_is_string(text))
        return ce_fail(
            CS_BAD_FILE,
            "%s: part %zu of its content is %s%.40s; only parts {\"type\": \"text\", \"text\": \"...\"} are supported",
            place, number, json_is_string(type) ? "of type " : kind_of(part),
            json_is_string(type) ? json_string_value(type) : "");
    json_object_foreach ((json_t *)(uintptr_t)part, key, value)
        if (!json_is_null(value) && strcmp(key, "type") != 0 && strcmp(key, "text") != 0)
            return ce_fail(CS_UNSUPPORTED, "not supported: %s: part %zu of its content has the key \"%.40s\"", place,
                           number, key);
    ce_unicode_append(joined, json_string_value(text), json_string_length(text));
    return CS_OK;
}

static cs_status join_parts(json_t *message, const json_t *list, const char *place, bool parts)
{
    CE_CLOSED(ce_unicode_free) ce_text joined = { 0 };
    size_t index;
    json_t *part;
    cs_status status = json_array_size(list) > 0
                           ? CS_OK
                           : ce_fail(CS_BAD_FILE, "%s: its content is an empty list and must be a text", place);
    json_array_foreach (list, index, part)
        if (status == CS_OK)
            status = add_part(&joined, part, index + 1, place);
    if (status == CS_OK && !parts)
        json_object_set_new(message, "content", json_stringn(joined.bytes ? joined.bytes : "", joined.size));
    return status;
}

static cs_status read_content(json_t *message, const char *place, bool parts)
{
    const json_t *content = json_object_get(message, "content");
    if (json_is_string(content) || (!content && json_array_size(json_object_get(message, "tool_calls")) > 0))
        return CS_OK;
    if (json_is_array(content))
        return join_parts(message, content, place, parts);
    return ce_fail(CS_BAD_FILE,
                   "%s: its content is %s and must be a text%s; a template would write it as Python prints it, and "
                   "the model would be trained on that",
                   place, kind_of(content), content ? "" : " (only a message with \"tool_calls\" may have none)");
}

/* Fills the names of the reasoning from the first that the message has, as transformers does. */
static cs_status read_reasoning(json_t **message, const char *place)
{
    json_t *reasoning = NULL;
    for (int i = 0; ce_messages_reasoning[i]; i++) {
        json_t *value = json_object_get(*message, ce_messages_reasoning[i]);
        if (value && !json_is_string(value))
            return ce_fail(CS_BAD_FILE, "%s: its \"%s\" is %s and must be a text", place, ce_messages_reasoning[i],
                           kind_of(value));
        reasoning = reasoning ? reasoning : value;
    }
    if (!reasoning)
        return CS_OK;
    json_t *filled = json_pack("{s:O}", "thinking", reasoning);
    json_incref(reasoning);
    json_object_update(filled, *message);
    json_object_set_new(filled, "reasoning_content", reasoning);
    json_decref(*message);
    *message = filled;
    return CS_OK;
}

/* ---- what a message asks for ---- */

static const char axolotl[] = "with which axolotl names the characters that are learnt; \"train\": false says that a "
                              "whole answer is not learnt";

static const struct {
    const char *key, *why;
} refused[] = {
    { "function_call", "which OpenAI has replaced by \"tool_calls\": [{\"type\": \"function\", \"function\": "
                       "{\"name\", \"arguments\"}}]" },
    { "mask", "which has several meanings; \"train\": false excludes an answer from the loss" },
    { "train_detail", axolotl },
    { "training_detail", axolotl },
};

/* Refuses keys that would have no effect. */
static cs_status check_keys(const json_t *message, const char *place)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (json_object_get(message, refused[i].key))
            return ce_fail(CS_UNSUPPORTED, "not supported: %s has \"%s\", %s", place, refused[i].key, refused[i].why);
    return CS_OK;
}

#define WISH(name) name,
static const char *const wishes[] = { CE_CHAT_WISHES(WISH) };
#undef WISH
enum { WISHES = sizeof wishes / sizeof *wishes };

static bool is_no(const json_t *wish)
{
    return json_is_false(wish) || (json_is_number(wish) && json_number_value(wish) == 0);
}

const char *ce_chat_unlearnt(const json_t *message)
{
    for (int i = 0; i < WISHES; i++)
        if (is_no(json_object_get(message, wishes[i])))
            return wishes[i];
    return NULL;
}

/* Reads the keys that say whether an answer is learnt, and removes them from the message. */
static cs_status read_wishes(json_t *message, const char *place, bool *learnt)
{
    *learnt = ce_chat_is_answer(message) && !ce_chat_unlearnt(message);
    for (int i = 0; i < WISHES; i++) {
        const json_t *wish = json_object_get(message, wishes[i]);
        bool yes = json_is_true(wish) || (json_is_number(wish) && json_number_value(wish) == 1);
        if (wish && !yes && !is_no(wish))
            return ce_fail(CS_UNSUPPORTED,
                           "not supported: %s has a \"%s\" that is not true, false, 1 or 0: an answer counts in the "
                           "loss or not",
                           place, wishes[i]);
        if (yes && !ce_chat_is_answer(message))
            return ce_fail(CS_UNSUPPORTED,
                           "not supported: %s has \"%s\", and only messages of the assistant can count in the loss",
                           place, wishes[i]);
        json_object_del(message, wishes[i]);
    }
    return CS_OK;
}

/* ---- messages ---- */

/* Returns a copy of an object without the keys whose value is null. */
static json_t *without_nulls(const json_t *object)
{
    json_t *made = json_object(), *value;
    const char *key;
    json_object_foreach ((json_t *)(uintptr_t)object, key, value)
        if (!json_is_null(value))
            json_object_set(made, key, value);
    return made;
}

/* Replaces "from" and "value" by "role" and "content". Refuses a message that has both forms with different values. */
static cs_status name_keys(json_t *message, const char *place)
{
    static const char *const names[2][2] = { { "from", "role" }, { "value", "content" } };
    const char *from = json_string_value(json_object_get(message, "from"));
    if (from)
        json_object_set_new(message, "from", json_string(role_from(from)));
    for (int i = 0; i < 2; i++) {
        json_t *old = json_object_get(message, names[i][0]), *new = json_object_get(message, names[i][1]);
        if (old && new && !json_equal(old, new))
            return ce_fail(CS_BAD_FILE, "%s has both \"%s\" and \"%s\", and they differ: remove the wrong one", place,
                           names[i][0], names[i][1]);
        if (old)
            json_object_set(message, names[i][1], old);
        json_object_del(message, names[i][0]);
    }
    return CS_OK;
}

static cs_status read_message(ce_messages *messages, const json_t *given, size_t index, bool parts)
{
    char place[PLACE];
    if (!json_is_object(given))
        return ce_fail(CS_BAD_FILE, "message %zu is %s and must be an object {\"role\", \"content\"}", index + 1,
                       kind_of(json_is_null(given) ? NULL : given));
    json_t *message = without_nulls(given);
    place_of(message, index, place);
    cs_status status = name_keys(message, place);
    if (status == CS_OK && !role_of(message))
        status = ce_fail(CS_BAD_FILE, "%s has no \"role\"", place);
    if (status == CS_OK)
        status = check_keys(message, place);
    if (status == CS_OK)
        status = read_content(message, place, parts);
    if (status == CS_OK)
        status = read_reasoning(&message, place);
    if (status == CS_OK)
        status = read_wishes(message, place, &messages->learnt[index]);
    json_array_append_new(messages->list, message);
    return status;
}

/* Copies a variable, which is a list or an object. In tables the value may be a text that is the JSON of one. */
static cs_status copy_variable(json_t *variables, const json_t *document, const char *key, json_type type)
{
    json_t *value = json_object_get(document, key);
    const char *text = json_string_value(value);
    if (!value || json_is_null(value) || (text && (!*text || strcmp(text, "null") == 0)))
        return CS_OK;
    int64_t wide = 0;
    json_auto_t *read = text ? ce_json_document(text, json_string_length(value), &wide) : json_incref(value);
    bool known = read && json_typeof(read) == type && wide == 0;
    if (known)
        json_object_set(variables, key, read);
    const char *kind = type == JSON_ARRAY ? "a list" : "an object";
    if (wide > 0)
        return ce_fail(CS_UNSUPPORTED, "not supported: \"%s\" has an integer of more than 64 bits", key);
    return known ? CS_OK : ce_fail(CS_BAD_FILE, "\"%s\" must be %s, or a text that is its JSON", key, kind);
}

/* Copies tools and documents, and then the variables that the document gives to the template. */
static cs_status read_variables(ce_messages *messages, const json_t *document)
{
    static const char *const own[] = { "messages", "tools", "documents", "add_generation_prompt" };
    messages->variables = json_pack("{s:n, s:n}", "tools", "documents");
    CE_TRY(copy_variable(messages->variables, document, "tools", JSON_ARRAY));
    CE_TRY(copy_variable(messages->variables, document, "documents", JSON_ARRAY));
    CE_TRY(copy_variable(messages->variables, document, "chat_template_kwargs", JSON_OBJECT));
    json_auto_t *given = json_incref(json_object_get(messages->variables, "chat_template_kwargs"));
    json_object_del(messages->variables, "chat_template_kwargs");
    json_object_update(messages->variables, given);
    messages->more = json_object_size(given) > 0;
    const char *both = NULL;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        both = json_object_get(given, own[i]) ? own[i] : both;
    return !both ? CS_OK
                 : ce_fail(CS_BAD_FILE,
                           "\"chat_template_kwargs\" has \"%s\", which a row may not set: the row's own keys or the "
                           "configuration determine it",
                           both);
}

cs_status ce_messages_open(ce_messages *messages, const json_t *document, const json_t *list, bool parts,
                           bool tool_parts)
{
    size_t index;
    json_t *message;
    *messages = (ce_messages){ .list = json_array(), .count = json_array_size(list) };
    if (messages->count == 0)
        return ce_fail(CS_BAD_FILE, "the list \"messages\" (or \"conversations\") of a conversation is missing");
    messages->learnt = ce_must_alloc(messages->count * sizeof *messages->learnt);
    CE_TRY(read_variables(messages, document));
    bool tools = !json_is_null(json_object_get(messages->variables, "tools"));
    json_array_foreach (list, index, message)
        CE_TRY(read_message(messages, message, index, tools ? tool_parts : parts));
    return CS_OK;
}

void ce_messages_close(ce_messages *messages)
{
    json_decref(messages->list);
    json_decref(messages->variables);
    free(messages->learnt);
    *messages = (ce_messages){ 0 };
}
