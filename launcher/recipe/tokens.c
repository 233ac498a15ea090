/* tokens.c - the keys of recipes that add tokens to the vocabulary. They become flags of `cspeed add-tokens`, which writes
 * the model with which the training begins. */
#include "recipe/rules.h"
#include "base/must.h"
#include "cspeed/options.h"

#include <stdlib.h>
#include <string.h>

/* Writes " FLAG='TEXT'" for a shell. */
static void add_flag(cl_conversion *c, const char *flag, const char *text)
{
    fprintf(c->tokens, " %s='", flag);
    for (; *text; text++)
        fprintf(c->tokens, *text == '\'' ? "'\\''" : "%c", *text);
    fputc('\'', c->tokens);
}

bool cl_tokens_take(cl_conversion *c, const char *path, const json_t *value)
{
    size_t index;
    json_t *item;
    char *rest = NULL;
    CE_FREED char *copy = ce_must_copy(json_is_string(value) ? json_string_value(value) : "");
    bool several = strcmp(path, "--token") == 0 || strcmp(path, "--special_token") == 0;
    json_array_foreach (value, index, item) {
        if (json_is_string(item))
            add_flag(c, path, json_string_value(item));
    }
    for (char *word = several ? strtok_r(copy, ",", &rest) : copy; word && *word; word = strtok_r(NULL, ",", &rest)) {
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
    const char *model = json_string_value(json_object_get(cspeed, "model"));
    char *flags = c->to->tokens;
    if (!*flags || !model)
        return;
    const char *name = strrchr(model, '/') ? strrchr(model, '/') + 1 : model;
    CE_FREED char *made = ce_must_print("./%.*s-tokens", (int)strcspn(name, "@"), name);
    c->to->tokens = ce_must_print("cspeed add-tokens %s %s%s", model, made, flags);
    free(flags);
    json_object_set_new(cspeed, "model", json_string(made));
}
