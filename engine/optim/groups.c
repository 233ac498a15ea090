/* groups.c - parameter groups: which optimizer settings apply to which parameter. */
#include "optim/groups.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#define LIST "cspeed.param_groups"

/* ---- reading ---- */

static bool is_glob(const json_t *value)
{
    return json_is_string(value) && *json_string_value(value);
}

static bool are_globs(const json_t *value)
{
    size_t index;
    json_t *glob;
    if (!json_is_array(value))
        return is_glob(value);
    json_array_foreach (value, index, glob) {
        if (!is_glob(glob))
            return false;
    }
    return json_array_size(value) > 0;
}

static void add(ce_groups *groups, ce_group group, double base)
{
    group.optimizer = ce_optim_find(&group.settings);
    group.ratio = base > 0 ? group.settings.rate / base : 1;
    groups->group[groups->count++] = group;
}

/* Adds a parameter group. With Muon and with 8-bit state it adds two groups. */
static void add_sides(ce_groups *groups, ce_group group, double base)
{
    bool muon = group.settings.kind == CE_OPTIM_MUON, blocks = group.settings.bits == 8;
    group.side = muon ? CE_MATRICES : blocks ? CE_BLOCKS : CE_ALL_MATCHES;
    add(groups, group, base);
    if (group.side == CE_ALL_MATCHES)
        return;
    group.side = muon ? CE_NO_MATRICES : CE_NO_BLOCKS;
    group.settings = muon ? ce_optim_beside_muon(&group.settings) : ce_optim_beside_blocks(&group.settings);
    add(groups, group, base);
}

/* Reads the key "train". A frozen group has no other key, because none would have an effect. */
static bool read_train(ce_json *doc, json_t *object, const char *path, ce_group *group)
{
    const json_t *train = json_object_get(object, "train");
    const char *name;
    json_t *value;
    if (train && !json_is_boolean(train)) {
        ce_json_fault(doc, path, "\"train\" must be true or false");
        return false;
    }
    group->frozen = json_is_false(train);
    json_object_foreach (object, name, value) {
        if (!group->frozen || *name == '_' || strcmp(name, "params") == 0 || strcmp(name, "train") == 0)
            continue;
        ce_json_fault(doc, path, "\"%s\" has no effect on parameters with \"train\": false: leave it out", name);
        return false;
    }
    return true;
}

static void read_group(ce_json *doc, json_t *object, int number, const ce_optim_settings *settings, ce_groups *groups)
{
    char path[64];
    const json_t *decay = json_object_get(object, "weight_decay");
    ce_group group = { .params = json_object_get(object, "params"),
                       .settings = *settings,
                       .decays = decay && !json_is_null(decay),
                       .asks_bits = json_is_integer(json_object_get(object, "optim_bits")),
                       .written = number };
    snprintf(path, sizeof path, LIST "[%d]", number);
    if (!json_is_object(object) || !are_globs(group.params)) {
        ce_json_fault(doc, LIST,
                      "group %d: an object is needed whose \"params\" is a pattern of parameter names such as "
                      "\"*.wte.weight\", or a list of such",
                      number);
        return;
    }
    if (!read_train(doc, object, path, &group))
        return;
    ce_optim_override(doc, object, path, &group.settings);
    if (settings->rate == 0 && group.settings.rate != 0)
        ce_json_fault(doc, path, "its lr follows the schedule in proportion to optimizer.params.lr, which is 0");
    add_sides(groups, group, settings->rate);
}

void ce_groups_read(ce_json *doc, const json_t *list, const ce_optim_settings *settings, ce_groups *groups)
{
    size_t index;
    json_t *object;
    groups->count = 0;
    if (list && (!json_is_array(list) || json_array_size(list) > CE_GROUPS / 2 - 1)) {
        ce_json_fault(doc, LIST, "a list of at most %d groups is needed", CE_GROUPS / 2 - 1);
        return;
    }
    json_array_foreach (list, index, object) {
        read_group(doc, object, (int)index, settings, groups);
    }
    add_sides(groups, (ce_group){ .settings = *settings, .written = -1 }, settings->rate);
}

/* ---- the group of a parameter ---- */

/* The names of embeddings contain "embed", or "wte" or "wpe" in GPT-2. */
static bool is_embedding(const char *name)
{
    return strcasestr(name, "embed") || strcasestr(name, "wte") || strcasestr(name, "wpe");
}

/* Muon updates matrices. As in DeepSpeed, embeddings and parameters with "lm_head" in their names are excluded. */
static bool is_on_side(const ce_group *group, const char *name, bool vector, bool blocks)
{
    bool matrix = !vector && !is_embedding(name) && !strcasestr(name, "lm_head");
    bool coded = blocks && (group->asks_bits || !is_embedding(name));
    const bool is_on[] = { [CE_ALL_MATCHES] = true,
                           [CE_MATRICES] = matrix,
                           [CE_NO_MATRICES] = !matrix,
                           [CE_BLOCKS] = coded,
                           [CE_NO_BLOCKS] = !coded };
    return is_on[group->side];
}

bool ce_groups_match(const ce_group *group, size_t index, const char *name, const char **pattern)
{
    bool list = json_is_array(group->params);
    *pattern = json_string_value(list ? json_array_get(group->params, index) : index == 0 ? group->params : NULL);
    return *pattern && fnmatch(*pattern, name, 0) == 0;
}

static bool names(const ce_group *group, const char *name)
{
    const char *pattern = "";
    for (size_t i = 0; group->params && pattern; i++)
        if (ce_groups_match(group, i, name, &pattern))
            return true;
    return !group->params;
}

int ce_groups_find(const ce_groups *groups, const char *name, bool vector, bool blocks)
{
    int index = 0;
    while (!is_on_side(&groups->group[index], name, vector, blocks) || !names(&groups->group[index], name))
        index++; /* The last groups, the default, match every parameter. */
    return index;
}

bool ce_groups_have_blocks(const ce_groups *groups)
{
    bool any = false;
    for (int i = 0; i < groups->count; i++)
        any |= groups->group[i].optimizer.blocks && !groups->group[i].frozen;
    return any;
}
