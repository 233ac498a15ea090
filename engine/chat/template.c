/* template.c - opens chat templates, renders them, and notes what they do not read. */
#include "chat/template.h"
#include "base/log.h"
#include "base/must.h"
#include "base/plural.h"
#include "base/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *source;
} built_in[] = {
#define BUILT_IN(name, source) { name, source },
#include "chat/templates.h"
#undef BUILT_IN
};
enum { BUILT_INS = sizeof built_in / sizeof *built_in };

enum { MAX_BYTES = 16 << 20 }; /* maximum size of a template's file */

#define AUTO "auto" /* the name of the tokenizer's own template */

/* ---- names ---- */

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
                           "the template %s writes %s, for which this tokenizer has no token; the template \"plain\" "
                           "needs none",
                           name, words[i]);
    if (strstr(source, "+ eos_token") && !ce_tokenizer_end_text(tokenizer))
        return ce_fail(CS_BAD_CONFIG,
                       "the template %s ends answers with eos_token, which tokenizer_config.json does not name", name);
    return CS_OK;
}

/* ---- compiling ---- */

/* Compiles a template. `what` says where it comes from, for errors; `behind` ends the sentence. */
static cs_status compile(ce_template *template, const char *source, const char *what, const char *behind)
{
    template->source = ce_must_copy(source);
    if (ce_jinja_compile(&template->compiled, source, strlen(source)) == CS_OK)
        return CS_OK;
    CE_FREED char *reason = ce_must_copy(cs_error());
    ce_fail(CS_BAD_CONFIG, "%s%s%s", what, reason, behind);
    return CS_BAD_CONFIG;
}

static cs_status refuse_own(const ce_chat *chat, const char *given, const char *names)
{
    ce_names own = { 0 };
    ce_tokenizer_templates(chat->tokenizer, &own);
    return ce_fail(CS_BAD_CONFIG,
                   "cspeed.data.template \"%s\": the tokenizer has no %s, neither in tokenizer_config.json nor in "
                   "chat_template.jinja%s%s%s; choose one of %s",
                   given, given[strlen(AUTO)] ? "chat_template of this name" : "chat_template",
                   own.count ? " (it has " : "", own.count ? ce_names_text(&own) : "",
                   own.count ? ", which \"auto:NAME\" chooses)" : "", names);
}

/* Compiles the template of the tokenizer that "auto:NAME" names. "auto" is "default", with "tool_use" for conversations
 * with tools. */
static cs_status compile_own(ce_chat *chat, const char *given)
{
    char names[512], behind[600], what[200];
    const char *colon = strchr(given, ':'), *tools = colon ? NULL : ce_tokenizer_template(chat->tokenizer, "tool_use");
    const char *source = ce_tokenizer_template(chat->tokenizer, colon ? colon + 1 : "default");
    list_names(names, sizeof names);
    if (!source)
        return refuse_own(chat, given, names);
    snprintf(behind, sizeof behind, "; or name one of %s", names);
    snprintf(what, sizeof what, "cspeed.data.template \"%.99s\": the tokenizer's chat_template, ", given);
    CE_TRY(compile(&chat->plain, source, what, behind));
    return tools ? compile(&chat->tools, tools, what, behind) : CS_OK;
}

static cs_status compile_file(ce_chat *chat, const char *path)
{
    CE_FREED char *source = NULL;
    size_t length;
    cs_status status = ce_files_read(&source, &length, path, MAX_BYTES);
    if (status == CS_NOT_FOUND)
        return ce_fail(status, "%s: no such file; cspeed.data.template names it", path);
    CE_TRY(status);
    CE_FREED char *what = ce_must_print("%s: ", path);
    return compile(&chat->plain, source, what, "");
}

static cs_status compile_any(ce_chat *chat, const char *name)
{
    char names[512];
    if (ce_chat_is_file(name))
        return compile_file(chat, name);
    if (strcmp(name, AUTO) == 0 || strncmp(name, AUTO ":", strlen(AUTO ":")) == 0)
        return compile_own(chat, name);
    for (int i = 0; i < BUILT_INS; i++)
        if (strcmp(built_in[i].name, name) == 0) {
            chat->name = built_in[i].name;
            CE_TRY(check_words(name, built_in[i].source, chat->tokenizer));
            return compile(&chat->plain, built_in[i].source, "", "");
        }
    return ce_fail(CS_BAD_CONFIG, "there is no template '%s'; possible are %s, \"auto\" and files NAME.jinja", name,
                   list_names(names, sizeof names));
}

bool ce_chat_is_file(const char *name)
{
    const char *ending = strrchr(name, '.');
    return ending && strcmp(ending, ".jinja") == 0;
}

/* ---- rendering ---- */

const ce_template *ce_template_for(const ce_chat *chat, const json_t *tools)
{
    return chat->tools.compiled && tools && !json_is_null(tools) ? &chat->tools : &chat->plain;
}

cs_status ce_template_render(const ce_chat *chat, const ce_messages *messages, size_t count, bool prompt,
                             ce_jinja_output *output)
{
    json_t *list = json_array();
    const char *begin = ce_tokenizer_begin_text(chat->tokenizer), *end = ce_tokenizer_end_text(chat->tokenizer);
    for (size_t i = 0; i < count; i++)
        json_array_append(list, json_array_get(messages->list, i));
    json_auto_t *variables = json_pack("{s:o, s:b, s:s*, s:s*}", "messages", list, "add_generation_prompt", prompt,
                                       "bos_token", begin, "eos_token", end);
    CE_ASSERT(variables);
    json_object_update(variables, messages->variables);
    const ce_template *template = ce_template_for(chat, json_object_get(variables, "tools"));
    return ce_jinja_render(template->compiled, variables, chat->now, output);
}

/* Finds out whether a template writes the text of all parts, and nothing of Python's form of a list. */
static void try_parts(const ce_chat *chat, ce_template *template)
{
    static const char *const marks[] = { "FIRSTPART", "SECONDPART", "THIRDPART", "FOURTHPART" };
    ce_jinja_output output = { 0 };
    json_t *messages =
        json_pack("{s:[{s:s, s:[{s:s, s:s}, {s:s, s:s}]}, {s:s, s:[{s:s, s:s}, {s:s, s:s}]}], s:b, s:n, s:n, s:s, s:s}",
                  "messages", "role", "user", "content", "type", "text", "text", marks[0], "type", "text", "text",
                  marks[1], "role", "assistant", "content", "type", "text", "text", marks[2], "type", "text", "text",
                  marks[3], "add_generation_prompt", false, "tools", "documents", "bos_token", "", "eos_token", "");
    CE_ASSERT(messages);
    template->parts = ce_jinja_render(template->compiled, messages, chat->now, &output) == CS_OK;
    ce_unicode_append(&output.text, "", 1);
    for (size_t i = 0; template->parts && i < sizeof marks / sizeof *marks; i++)
        template->parts = strstr(output.text.bytes, marks[i]) && !strstr(output.text.bytes, "'type'") &&
                          !strstr(output.text.bytes, "\"type\"");
    ce_jinja_output_free(&output);
    json_decref(messages);
}

cs_status ce_chat_open(ce_chat **chat, const char *name, const ce_tokenizer *tokenizer)
{
    ce_chat *made = ce_must_alloc(sizeof *made);
    const char *epoch = getenv("SOURCE_DATE_EPOCH");
    made->tokenizer = tokenizer;
    made->now = epoch ? (time_t)strtoll(epoch, NULL, 10) : time(NULL);
    made->unread = json_object();
    pthread_mutex_init(&made->lock, NULL);
    cs_status status = compile_any(made, name);
    *chat = status == CS_OK ? made : NULL;
    if (status != CS_OK)
        ce_chat_close(made);
    else if (!made->name)
        try_parts(made, &made->plain);
    if (status == CS_OK && made->tools.compiled)
        try_parts(made, &made->tools);
    return status;
}

void ce_chat_close(ce_chat *chat)
{
    if (!chat)
        return;
    ce_jinja_free(chat->plain.compiled);
    ce_jinja_free(chat->tools.compiled);
    free(chat->plain.source);
    free(chat->tools.source);
    json_decref(chat->unread);
    pthread_mutex_destroy(&chat->lock);
    free(chat);
}

/* ---- what is not read ---- */

static bool is_word(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Returns true if the program has the word `key`. */
static bool reads(const ce_template *template, const char *key)
{
    size_t length = strlen(key);
    for (const char *at = template->source; length > 0 && (at = strstr(at, key)); at++)
        if ((at == template->source || !is_word(at[-1])) && !is_word(at[length]))
            return true;
    return false;
}

static bool is_read(const ce_template *template, const char *key)
{
    bool reasoning = false, any = false;
    for (int i = 0; ce_messages_reasoning[i]; i++) {
        reasoning |= strcmp(key, ce_messages_reasoning[i]) == 0;
        any |= reads(template, ce_messages_reasoning[i]);
    }
    return reasoning ? any : reads(template, key);
}

static void note(const ce_template *template, const json_t *object, json_t *unread)
{
    const char *key;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)object, key, value)
        if (!json_is_null(value) && strcmp(key, "role") != 0 && strcmp(key, "thinking") != 0 &&
            strcmp(key, "reasoning") != 0 && !is_read(template, key))
            json_object_set_new(unread, key, json_true());
}

void ce_template_unread(const ce_chat *chat, const ce_messages *messages, json_t *unread)
{
    const ce_template *template = ce_template_for(chat, json_object_get(messages->variables, "tools"));
    json_t *message;
    size_t index;
    json_array_foreach (messages->list, index, message)
        note(template, message, unread);
    note(template, messages->variables, unread);
}

void ce_chat_note(ce_chat *chat, json_t *unread)
{
    json_t *value;
    const char *key;
    pthread_mutex_lock(&chat->lock);
    json_object_foreach (unread, key, value)
        json_object_set_new(chat->unread, key,
                            json_integer(json_integer_value(json_object_get(chat->unread, key)) + 1));
    pthread_mutex_unlock(&chat->lock);
}

void ce_template_count(ce_chat *chat, int64_t samples)
{
    pthread_mutex_lock(&chat->lock);
    chat->parted++;
    chat->samples += samples;
    pthread_mutex_unlock(&chat->lock);
}

void ce_chat_report(ce_chat *chat)
{
    const char *key;
    json_t *count;
    if (chat->parted > 0)
        ce_log(CE_LOG_INFO,
               "%" PRId64 " conversation%s became %" PRId64 " sample%s, one for each answer, because the chat "
               "template writes earlier messages differently when others follow (cspeed.data.turns)",
               chat->parted, ce_plural(chat->parted), chat->samples, ce_plural(chat->samples));
    chat->parted = chat->samples = 0;
    json_object_foreach (chat->unread, key, count)
        ce_log(CE_LOG_WARNING, "the chat template does not read \"%s\", which %" PRId64 " conversation%s", key,
               (int64_t)json_integer_value(count), json_integer_value(count) == 1 ? " has" : "s have");
    json_object_clear(chat->unread);
}
