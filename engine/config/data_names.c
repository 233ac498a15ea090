/* data_names.c - the lists of names cspeed.data.train and cspeed.data.valid. A folder that the program pack made is
 * replaced by the shards in it. If the configuration has no cspeed.data.valid, the files valid.bin in the folders of
 * cspeed.data.train are used. */
#include "config/resolve.h"
#include "data/folder.h"

#include <stdlib.h>

#define TRAIN "cspeed.data.train"
#define VALID "cspeed.data.valid"

static void add_name(cs_config *config, const char *path, const json_t *value, const char **names, int *count)
{
    const char *name = json_string_value(value);
    if (!name || !*name)
        ce_json_fault(config->doc, path, "a file name or pattern in double quotes is needed, or a list of such");
    else if (*count == CE_CONFIG_FILES)
        ce_json_fault(config->doc, path, "at most %d names are possible: use a pattern such as \"train-*.bin\"",
                      CE_CONFIG_FILES);
    else
        names[(*count)++] = name;
}

static void read_names(cs_config *config, const char *path, const json_t *list, const char **names, int *count)
{
    size_t index;
    json_t *value;
    *count = 0;
    if (!json_is_array(list) && list) {
        add_name(config, path, list, names, count);
        return;
    }
    json_array_foreach (list, index, value) {
        if (*count < CE_CONFIG_FILES || index == CE_CONFIG_FILES)
            add_name(config, path, value, names, count);
    }
}

/* Returns the names of the shards in a folder that the program pack made. If `name` is no such folder, returns `name`
 * itself. The caller owns the result. */
static json_t *shards_of(const json_t *name, bool train)
{
    const char *folder = json_string_value(name);
    char *shards = folder && !train ? ce_folder_valid(folder) : NULL;
    shards = folder && !shards ? ce_folder_train(folder) : shards;
    json_t *value = shards ? json_string(shards) : NULL;
    free(shards);
    return value ? value : json_deep_copy(name);
}

/* Replaces each folder in the value of `key` by the shards in it, and returns the new value. */
static json_t *replace_folders(cs_config *config, const char *key, json_t *names, bool train)
{
    size_t index;
    json_t *name, *made = NULL;
    if (json_is_string(names))
        made = shards_of(names, train);
    else if (json_is_array(names))
        made = json_array();
    json_array_foreach (names, index, name)
        json_array_append_new(made, shards_of(name, train));
    if (made)
        json_object_set_new(ce_json_find(config->doc, "cspeed.data"), key, made);
    return made ? made : names;
}

static void append_valid(json_t *list, const json_t *name)
{
    char *shard = json_is_string(name) ? ce_folder_valid(json_string_value(name)) : NULL;
    if (shard)
        json_array_append_new(list, json_string(shard));
    free(shard);
}

/* Sets cspeed.data.valid to the validation shards in the folders of `train`. Returns the list, or NULL if there are
 * none. */
static json_t *derive_valid(cs_config *config, const json_t *train)
{
    size_t index;
    json_t *name, *list = json_array();
    append_valid(list, train);
    json_array_foreach (train, index, name)
        append_valid(list, name);
    if (json_array_size(list) == 0) {
        json_decref(list);
        return NULL;
    }
    json_object_set_new(ce_json_find(config->doc, "cspeed.data"), "valid", list);
    ce_json_mark(config->doc, VALID, "derived: " TRAIN);
    return list;
}

void ce_resolve_data(cs_config *config)
{
    ce_settings *s = &config->settings;
    if (!ce_json_is_set(config->doc, VALID))
        s->written.valid = derive_valid(config, s->written.train);
    s->written.train = replace_folders(config, "train", s->written.train, true);
    s->written.valid = replace_folders(config, "valid", s->written.valid, false);
    read_names(config, TRAIN, s->written.train, s->train, &s->train_count);
    read_names(config, VALID, s->written.valid, s->valid, &s->valid_count);
}
