/* read.c - reads a recipe: finds out its form, and reads command lines. */
#include "recipe/values.h"
#include "base/ends_with.h"
#include "base/files.h"
#include "base/must.h"
#include "base/underscored.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAX_BYTES = 4 << 20 };

/* ---- command lines ---- */

/* Reads the next word of a shell command into `word`, which has room for the rest of the text. Returns false at the end.
 * `quoted` becomes true if a part of the word was quoted. Comments and continued lines are skipped. */
static bool next_word(const char **at, char *word, bool *quoted)
{
    const char *c = *at;
    char *out = word, quote = 0;
    *quoted = false;
    for (bool skipped = true; skipped;) {
        skipped = false;
        while (isspace((unsigned char)*c) || (*c == '\\' && (c[1] == '\n' || c[1] == '\r'))) {
            c += *c == '\\' ? 2 : 1;
            skipped = true;
        }
        for (; *c == '#'; skipped = true)
            while (*c && *c != '\n')
                c++;
    }
    if (!*c)
        return false;
    for (; *c && (quote || !isspace((unsigned char)*c)); c++) {
        if (quote ? *c == quote : *c == '\'' || *c == '"') {
            quote = quote ? 0 : *c;
            *quoted = true;
        } else if (*c == '\\' && quote != '\'' && c[1]) {
            c++;
            if (*c != '\n')
                *out++ = *c;
        } else {
            *out++ = *c;
        }
    }
    *out = 0;
    *at = c;
    return true;
}

/* Returns the value of a flag: a number, true or false, a list or an object in JSON, or text. */
static json_t *value_of(const char *word)
{
    json_t *text = json_string(word), *value = *word == '[' || *word == '{' ? json_loads(word, 0, NULL) : NULL;
    if (!value && (strcasecmp(word, "true") == 0 || strcasecmp(word, "false") == 0))
        value = json_boolean(strcasecmp(word, "true") == 0);
    if (!value && text)
        value = cl_value_number(text);
    json_decref(text);
    return value ? value : json_string("");
}

/* Adds a value to the key; a key with several values has a list. */
static void add(json_t *to, const char *key, json_t *value)
{
    json_t *old = json_object_get(to, key);
    if (json_is_array(old)) {
        json_array_append_new(old, value);
    } else if (old) {
        json_t *both = json_array();
        json_array_append(both, old);
        json_array_append_new(both, value);
        json_object_set_new(to, key, both);
    } else {
        json_object_set_new(to, key, value);
    }
}

/* Writes the name of the flag `word`, without dashes in front and with underscores, and returns the value after its "=",
 * or NULL. */
static const char *split(char *key, const char *word)
{
    const char *equals = strchr(word, '=');
    size_t count = equals ? (size_t)(equals - word) : strlen(word), from = strspn(word, "-");
    memcpy(key, word + from, count - from);
    key[count - from] = 0;
    ce_underscored(key);
    return equals ? equals + 1 : NULL;
}

/* Megatron and NeMo write KEY=VALUE without dashes; a variable in front of the command looks the same, but has capitals. */
static bool is_assignment(const char *word)
{
    size_t letters = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789_.");
    return letters > 0 && word[letters] == '=';
}

cs_status cl_recipe_read_line(json_t **recipe, const char *text, const char *name)
{
    CE_FREED char *word = ce_must_alloc(strlen(text) + 1), *key = ce_must_alloc(strlen(text) + 1);
    bool quoted, open = false;
    *recipe = json_object();
    CE_ASSERT(*recipe);
    *key = 0;
    while (next_word(&text, word, &quoted)) {
        if (!quoted && (ce_ends_with(word, ".py") || strcmp(word, "&&") == 0 || strcmp(word, ";") == 0)) {
            if (open) /* The flag before the program has no value. */
                add(*recipe, key, json_true());
            *key = 0;
            open = false;
            continue;
        }
        bool flag = !quoted && word[0] == '-' && word[1] && !isdigit((unsigned char)word[1]) && word[1] != '.';
        if (flag || (!open && !quoted && is_assignment(word))) {
            if (open)
                add(*recipe, key, json_true());
            const char *value = split(key, word);
            open = !value;
            if (value)
                add(*recipe, key, value_of(value));
        } else if (open || json_object_get(*recipe, key)) {
            add(*recipe, key, value_of(word));
            open = false;
        }
    }
    if (open)
        add(*recipe, key, json_true());
    if (json_object_size(*recipe) > 0)
        return CS_OK;
    json_decref(*recipe);
    *recipe = NULL;
    return ce_fail(CS_BAD_FILE, "%s: no flag of a trainer (--learning_rate 2e-5) and no key (learning_rate: 2e-5)",
                   name);
}

/* ---- files ---- */

/* Returns true if the first line that is not a comment looks like a command, not like "key: value". */
static bool is_command(const char *text)
{
    const char *colon, *flag = strstr(text, " --");
    if (strncmp(text, "#!", 2) == 0)
        return true;
    while (isspace((unsigned char)*text) || *text == '#')
        text = *text == '#' ? text + strcspn(text, "\n") : text + 1;
    colon = strpbrk(text, ":\n");
    return flag && (!colon || *colon != ':' || !(isspace((unsigned char)colon[1]) || !colon[1]));
}

static cs_status read_json(json_t **recipe, const char *text, size_t length, const char *path)
{
    ce_json *doc = NULL;
    CE_TRY(ce_json_parse(&doc, text, length, path));
    *recipe = json_deep_copy(ce_json_root(doc));
    ce_json_close(doc);
    return CS_OK;
}

cs_status cl_recipe_read(json_t **recipe, const char *path)
{
    CE_FREED char *text = NULL;
    size_t length;
    CE_TRY(ce_files_read(&text, &length, path, MAX_BYTES));
    bool yaml = ce_ends_with(path, ".yaml") || ce_ends_with(path, ".yml");
    if (text[strspn(text, " \t\r\n")] == '{')
        return read_json(recipe, text, length, path);
    if (!yaml && is_command(text))
        return cl_recipe_read_line(recipe, text, path);
    return cl_recipe_read_yaml(recipe, text, length, path);
}
