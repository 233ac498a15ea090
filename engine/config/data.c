/* data.c - the key table of cspeed.data, and its lists of names. A folder that the program pack made is replaced by the
 * shards in it. If the configuration has no cspeed.data.valid, the files valid.bin in the folders of cspeed.data.train
 * are used. */
#include "config/resolve.h"
#include "config/rows.h"
#include "data/fill.h"
#include "data/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRAIN "cspeed.data.train"
#define VALID "cspeed.data.valid"

static const ce_key keys[] = {
    SUPPORTED(
        "train", JSON, train_json, "null", 0, 0, NULL,
        "a folder that pack made, or a folder of texts, or the name or pattern of token shards or texts (.txt, .jsonl, .json, also .gz and .zst; .parquet, .arrow); or a list of these. Texts are tokenized first"),
    SUPPORTED("valid", JSON, valid_json, "null", 0, 0, NULL,
              "as train, for evaluation; null: valid.bin of the folders in train that pack made; []: no evaluation"),
    SUPPORTED("seq_len", INT, seq_len, "256", 1, 0x1p30, NULL, "length of a training sample in tokens"),
    SUPPORTED("shuffle", BOOL, shuffle, "true", 0, 0, NULL,
              "true: read samples in a new random order in each epoch; false: in the order of the files"),
    SUPPORTED(
        "weights", JSON, weights_json, "null", 0, 0, NULL,
        "list with a number for each entry of \"train\": its share of the samples of an epoch; needs shuffle; null: every sample once"),
    SUPPORTED(
        "packing", CHOICE, packing, "\"windows\"", 0, 0, "windows|documents",
        "documents: a window has whole documents, best-fit decreasing (TRL's packing_strategy bfd; with long \"split\": bfd_split), and attention does not cross their borders; windows: a window begins at each multiple of seq_len, and attention crosses the borders of documents (wrapped)"),
    SUPPORTED(
        "long", CHOICE, longer, "\"auto\"", 0, 0, "auto|truncate|split|drop|refuse",
        "with packing \"documents\", what becomes of a training document longer than seq_len: its first seq_len tokens are read (truncate), it is divided into samples of seq_len tokens (split), it is left out (drop), or the run ends (refuse); auto: truncate where only answers are learnt, otherwise split. Validation and eval divide it"),
    SUPPORTED(
        "tokenizer", STRING, tokenizer, "null", 0, 0, NULL,
        "folder, tokenizer.json or tokenizer.model with which texts are tokenized; null: the model's folder, or if the model is not a folder, one token for each byte"),
    SUPPORTED("field", STRING, field, "text", 0, 0, NULL,
              "key of the text in each JSON line, or name of the column in a table"),
    SUPPORTED(
        "columns", JSON, columns_json, "null", 0, 0, NULL,
        "other names for the keys of rows, as {\"prompt\": \"question\", \"completion\": \"answer\"}: messages, conversations, prompt, completion, instruction, input, output, system, tools, documents, chat_template_kwargs, input_ids, labels, attention_mask, completion_mask, assistant_masks; a row that has none of these names is read by its own keys"),
    SUPPORTED(
        "template", STRING, template, "null", 0, 0, NULL,
        "conversations are written in the form of this chat template, and only answers are learnt: auto (the tokenizer's template; auto:NAME: the one of this name), chatml, chatml-bos, qwen2, qwen2.5, smollm2, "
        "llama3, llama3.1, llama2, mistral, mistral-v7, zephyr, plain, or a file NAME.jinja; null: documents"),
    SUPPORTED(
        "turns", CHOICE, turns, "\"auto\"", 0, 0, "auto|all|last",
        "which samples a conversation becomes: auto: one, or one for each answer if the template writes earlier messages differently when others follow; all: always one for each answer; last: one, of which the last answer is learnt"),
    SUPPORTED(
        "skip_bad", INT, skip_bad, "0", 0, MAX_EXACT, NULL,
        "number of invalid JSON lines that are skipped in each entry, with a warning; one more ends the training with an error"),
    SUPPORTED("cache", STRING, cache, "null", 0, 0, NULL,
              "folder in which the tokens of texts are cached for later runs; null: the name of output with .tokens"),
};

const ce_section ce_data_sections[] = { { "cspeed.data", CE_KEYS(keys) } };

/* ---- names ---- */

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

/* Returns name number `index` of a list, or of a single name, which is a list of one; NULL after the last name. */
static const json_t *name_at(const json_t *names, size_t index)
{
    return json_is_array(names) ? json_array_get(names, index) : index == 0 ? names : NULL;
}

static void read_names(cs_config *config, const char *path, const json_t *list, const char **names, int *count)
{
    const json_t *value;
    *count = 0;
    for (size_t i = 0; (value = name_at(list, i)); i++)
        if (*count < CE_CONFIG_FILES || i == CE_CONFIG_FILES)
            add_name(config, path, value, names, count);
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

/* Sets cspeed.data.valid to the validation shards in the folders of `train`. Returns the list, or NULL if there are
 * none. */
static json_t *derive_valid(cs_config *config, const json_t *train)
{
    const json_t *name;
    json_t *list = json_array();
    for (size_t i = 0; (name = name_at(train, i)); i++) {
        char *shard = json_is_string(name) ? ce_folder_valid(json_string_value(name)) : NULL;
        if (shard)
            json_array_append_new(list, json_string(shard));
        free(shard);
    }
    if (json_array_size(list) == 0) {
        json_decref(list);
        return NULL;
    }
    json_object_set_new(ce_json_find(config->doc, "cspeed.data"), "valid", list);
    ce_json_mark(config->doc, VALID, "derived: " TRAIN);
    return list;
}

static void resolve_names(cs_config *config)
{
    ce_settings *s = &config->settings;
    if (!ce_json_is_set(config->doc, VALID))
        s->valid_json = derive_valid(config, s->train_json);
    s->train_json = replace_folders(config, "train", s->train_json, true);
    s->valid_json = replace_folders(config, "valid", s->valid_json, false);
    read_names(config, TRAIN, s->train_json, s->train, &s->train_count);
    read_names(config, VALID, s->valid_json, s->valid, &s->valid_count);
}

/* ---- other keys ---- */

/* Reads the weights of the training data sets. A single data set needs no weight. */
static void read_weights(cs_config *config)
{
    static const char path[] = "cspeed.data.weights";
    ce_settings *s = &config->settings;
    size_t index, count = json_array_size(s->weights_json);
    json_t *value;
    s->weighted = count > 1;
    if (!s->weights_json || (count == 1 && s->train_count < 2))
        return;
    if (count != (size_t)s->train_count)
        ce_json_fault(config->doc, path, "a list of as many numbers as data.train has names is needed: %d",
                      s->train_count);
    json_array_foreach (s->weights_json, index, value) {
        if (!(json_number_value(value) >= 0) || !json_is_number(value))
            ce_json_fault(config->doc, path, "a weight is a number, 0 or more");
        else if (index < CE_CONFIG_FILES)
            s->weights[index] = json_number_value(value);
    }
    if (s->weighted && !s->shuffle)
        ce_json_fault(config->doc, path, "a mixture of several sets is always shuffled: leave data.shuffle true");
}

static void check_long(cs_config *config)
{
    const ce_settings *s = &config->settings;
    if (s->longer != CE_LONG_AUTO && s->packing != CE_PACK_DOCUMENTS && s->preference.beta <= 0)
        ce_json_fault(config->doc, "cspeed.data.long", "has no effect without cspeed.data.packing \"documents\"");
}

static void read_columns(cs_config *config)
{
    static const char path[] = "cspeed.data.columns";
    ce_settings *s = &config->settings;
    const char *key;
    json_t *name;
    s->columns.count = 0;
    if (s->columns_json && !json_is_object(s->columns_json))
        ce_json_fault(config->doc, path, "an object is needed, such as {\"messages\": \"dialog\"}");
    json_object_foreach (s->columns_json, key, name) {
        if (!json_is_string(name))
            ce_json_fault(config->doc, path, "the column of \"%s\" is a name in double quotes", key);
        else if (ce_shape_column(&s->columns, key, json_string_value(name)) != CS_OK)
            ce_json_fault(config->doc, path, "%s", cs_error());
    }
}

/* Sets the default cache. Its name contains that of the output folder. */
static void resolve_cache(cs_config *config)
{
    char cache[4096];
    ce_settings *s = &config->settings;
    int count = s->output ? (int)strlen(s->output) : 0;
    while (count > 1 && s->output[count - 1] == '/')
        count--;
    snprintf(cache, sizeof cache, "%.*s.tokens", count, s->output);
    if (s->output && !s->cache)
        ce_resolve_derive(config, "cspeed.data", "cache", cache, &s->cache);
}

void ce_data_resolve(cs_config *config)
{
    resolve_cache(config);
    resolve_names(config);
    read_weights(config);
    read_columns(config);
    check_long(config);
}
