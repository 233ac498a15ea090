/* tokens.c - the keys of recipes that add tokens to the vocabulary. They become flags of `cspeed add-tokens`, which writes
 * the model with which the training begins. */
#include "base/must.h"
#include "recipe/values.h"
#include "cspeed/options.h"

#include <stdlib.h>
#include <string.h>

/* Writes 'TEXT' for a shell. */
static void quote(FILE *file, const char *text)
{
    fputc('\'', file);
    for (; *text; text++)
        fprintf(file, *text == '\'' ? "'\\''" : "%c", *text);
    fputc('\'', file);
}

/* Writes a name, which most shells take without quotation marks. */
static void write_name(FILE *file, const char *name)
{
    if (name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/@")])
        quote(file, name);
    else
        fputs(name, file);
}

static void add_flag(cl_conversion *c, const char *flag, const char *text)
{
    fprintf(c->tokens, " %s=", flag);
    quote(c->tokens, text);
}

/* Returns the text of a token, which is a text or an object of the library tokenizers, or NULL. */
static const char *token_text(const json_t *value)
{
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

bool cl_tokens_take(cl_conversion *c, const char *path, const json_t *value)
{
    size_t index;
    json_t *item;
    char *rest = NULL;
    CE_FREED char *copy = ce_must_copy(!json_is_array(value) && token_text(value) ? token_text(value) : "");
    bool several = strcmp(path, "--token") == 0 || strcmp(path, "--special_token") == 0;
    json_array_foreach (value, index, item)
        if (!token_text(item))
            return cl_rules_no(c, "a token is a text");
    json_array_foreach (value, index, item)
        add_flag(c, path, token_text(item));
    if (!json_is_array(value) && !token_text(value))
        return cl_rules_no(c, "a token is a text");
    for (char *word = several ? strtok_r(copy, ",", &rest) : copy; word && *word; word = strtok_r(NULL, ",", &rest)) {
        word += several ? strspn(word, " ") : 0;
        for (size_t end = strlen(word); several && end > 0 && word[end - 1] == ' '; end--)
            word[end - 1] = 0;
        if (*word)
            add_flag(c, path, word);
        if (!several)
            break;
    }
    return true;
}

bool cl_tokens_multiple(cl_conversion *c, const char *path, const json_t *value)
{
    (void)value;
    fprintf(c->tokens, " %s", path);
    return true;
}

void cl_tokens_finish(cl_conversion *c)
{
    json_t *cspeed = json_object_get(c->to->config, "cspeed");
    const char *given = json_string_value(json_object_get(cspeed, "model"));
    char *flags = c->to->tokens, *command = NULL;
    size_t length = given ? strlen(given) : 0;
    if (!*flags)
        return;
    CE_FREED char *model = ce_must_copy(given ? given : "MODEL");
    while (length > 1 && model[length - 1] == '/')
        model[--length] = 0;
    const char *name = strrchr(model, '/') ? strrchr(model, '/') + 1 : model;
    CE_FREED char *made = ce_must_print("./%.*s-tokens", (int)strcspn(name, "@"), name);
    FILE *file = ce_must_stream(&command, &length);
    fputs("cspeed add-tokens ", file);
    write_name(file, model);
    fputc(' ', file);
    write_name(file, made);
    fputs(flags, file);
    ce_must_finish(file);
    c->to->tokens = command;
    free(flags);
    if (given)
        json_object_set_new(cspeed, "model", json_string(made));
}
