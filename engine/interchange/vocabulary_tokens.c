/* vocabulary_tokens.c - adds tokens to tokenizer.json and to the files beside it, as transformers writes them. */
#include "interchange/vocabulary.h"
#include "base/files.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ID = 1 << 30 };
#define TOKENIZER "tokenizer.json"
#define CONFIG "tokenizer_config.json"
#define MAP "special_tokens_map.json"
#define ADDED "added_tokens.json"
#define LENGTH "model_max_length"

/* The JSON of a tokenizer's files; NULL: there is no such file. */
typedef struct {
    json_t *tokenizer, *config, *map, *added;
    ce_vocabulary_tokens *to;
} tokenizer_files;

static void drop_files(tokenizer_files *files)
{
    json_decref(files->tokenizer);
    json_decref(files->config);
    json_decref(files->map);
    json_decref(files->added);
}

/* Reads a file of the tokenizer, which is an object if it is there. */
static cs_status read_file(json_t **value, const char *folder, const char *name)
{
    CE_TRY(ce_json_read_file(value, folder, name));
    return !*value || json_is_object(*value) ? CS_OK : ce_fail(CS_BAD_FILE, "%s/%s: an object is needed", folder, name);
}

static cs_status read_files(tokenizer_files *files, const char *folder)
{
    CE_TRY(read_file(&files->tokenizer, folder, TOKENIZER));
    if (!files->tokenizer)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: new tokens for %s, because it has no " TOKENIZER
                       "; save the tokenizer with transformers, which writes this file",
                       folder);
    CE_TRY(read_file(&files->config, folder, CONFIG));
    CE_TRY(read_file(&files->map, folder, MAP));
    CE_TRY(read_file(&files->added, folder, ADDED));
    if (json_is_array(json_object_get(json_object_get(files->tokenizer, "model"), "vocab")))
        return ce_fail(CS_UNSUPPORTED, "not supported: new tokens for %s, because its tokenizer is Unigram, not BPE",
                       folder);
    if (!json_is_object(json_object_get(json_object_get(files->tokenizer, "model"), "vocab")) ||
        !json_is_array(json_object_get(files->tokenizer, "added_tokens")))
        return ce_fail(CS_BAD_FILE, "%s/" TOKENIZER ": \"model.vocab\" or \"added_tokens\" is missing", folder);
    return CS_OK;
}

/* ---- ids ---- */

static json_t *find_added(const tokenizer_files *files, const char *text)
{
    size_t index;
    json_t *token;
    json_array_foreach (json_object_get(files->tokenizer, "added_tokens"), index, token) {
        const char *content = json_string_value(json_object_get(token, "content"));
        if (content && strcmp(content, text) == 0)
            return token;
    }
    return NULL;
}

static int64_t above(int64_t size, const json_t *id)
{
    int64_t given = json_integer_value(id);
    return given >= size && given < MAX_ID ? given + 1 : size;
}

/* Returns a number above every id: the number of tokens of the model, or the largest id and one, if this is more. */
static int64_t count_ids(const tokenizer_files *files)
{
    const char *text;
    size_t index;
    json_t *token;
    json_t *vocabulary = json_object_get(json_object_get(files->tokenizer, "model"), "vocab");
    int64_t size = (int64_t)json_object_size(vocabulary);
    json_object_foreach (vocabulary, text, token)
        size = above(size, token);
    json_array_foreach (json_object_get(files->tokenizer, "added_tokens"), index, token) {
        size = above(size, json_object_get(token, "id"));
    }
    return size;
}

/* ---- adding ---- */

/* Adds the token to the lists of added tokens. Returns its id: that of the model's vocabulary if it is there. */
static int64_t append(tokenizer_files *files, const char *text, bool special)
{
    const json_t *old = json_object_get(json_object_get(json_object_get(files->tokenizer, "model"), "vocab"), text);
    int64_t id = old ? json_integer_value(old) : files->to->size++;
    json_t *flags = json_pack("{s:s, s:b, s:b, s:b, s:b, s:b}", "content", text, "lstrip", 0, "normalized", !special,
                              "rstrip", 0, "single_word", 0, "special", special);
    json_t *token = json_pack("{s:I}", "id", (json_int_t)id),
           *decoder = json_object_get(files->config, "added_tokens_decoder");
    CE_FREED char *number = ce_must_print("%lld", (long long)id);
    json_object_update(token, flags);
    json_array_append_new(json_object_get(files->tokenizer, "added_tokens"), token);
    if (decoder)
        json_object_set(decoder, number, flags);
    if (files->added)
        json_object_set_new(files->added, text, json_integer(id));
    json_decref(flags);
    files->to->added += !old;
    return id;
}

/* A token that is there already becomes special if it is to be. */
static int64_t add(tokenizer_files *files, const char *text, bool special)
{
    json_t *there = find_added(files, text);
    if (!there)
        return append(files, text, special);
    int64_t id = json_integer_value(json_object_get(there, "id"));
    CE_FREED char *number = ce_must_print("%lld", (long long)id);
    json_t *decoded = json_object_get(json_object_get(files->config, "added_tokens_decoder"), number);
    if (special)
        json_object_set_new(there, "special", json_true());
    if (special && decoded)
        json_object_set_new(decoded, "special", json_true());
    return id;
}

/* Adds a special token to the list of those that have no name. */
static void list_special(json_t *config, const char *text)
{
    static const char *const keys[] = { "extra_special_tokens", "additional_special_tokens" };
    json_t *list = NULL, *item;
    size_t index;
    for (int i = 0; i < 2 && !json_is_array(list); i++)
        list = json_object_get(config, keys[i]);
    if (!json_is_array(list)) {
        list = json_array();
        json_object_set_new(config, keys[1], list);
    }
    json_array_foreach (list, index, item) {
        const char *other = json_string_value(json_is_object(item) ? json_object_get(item, "content") : item);
        if (other && strcmp(other, text) == 0)
            return;
    }
    json_array_append_new(list, json_string(text));
}

static cs_status add_lists(tokenizer_files *files, const json_t *tokens, bool special)
{
    size_t index;
    json_t *token;
    json_array_foreach (tokens, index, token) {
        if (!*json_string_value(token))
            return ce_fail(CS_BAD_CONFIG, "a token must have at least one character");
        add(files, json_string_value(token), special);
        if (special && files->config)
            list_special(files->config, json_string_value(token));
        if (special && files->map)
            list_special(files->map, json_string_value(token));
    }
    return CS_OK;
}

static void add_named(tokenizer_files *files, const json_t *named)
{
    const char *key;
    json_t *token;
    json_object_foreach ((json_t *)named, key, token) {
        json_object_set_new(files->to->named, key, json_integer(add(files, json_string_value(token), true)));
        json_object_set(files->config, key, token);
        if (files->map)
            json_object_set(files->map, key, token);
    }
}

/* ---- the result ---- */

static int by_id(const void *one, const void *other)
{
    json_int_t a = json_integer_value(json_object_get(*(json_t *const *)one, "id"));
    json_int_t b = json_integer_value(json_object_get(*(json_t *const *)other, "id"));
    return (a > b) - (a < b);
}

/* tokenizers writes the added tokens in the order of their ids. */
static void sort_added(const tokenizer_files *files)
{
    json_t *list = json_object_get(files->tokenizer, "added_tokens"), *sorted = json_array();
    size_t count = json_array_size(list);
    CE_FREED json_t **items = ce_must_alloc((count + 1) * sizeof(json_t *));
    for (size_t i = 0; i < count; i++)
        items[i] = json_array_get(list, i);
    qsort(items, count, sizeof *items, by_id);
    for (size_t i = 0; i < count; i++)
        json_array_append(sorted, items[i]);
    json_object_set_new(files->tokenizer, "added_tokens", sorted);
}

static void keep(const tokenizer_files *files, const char *name, const json_t *value)
{
    CE_FREED char *text = value ? json_dumps(value, JSON_INDENT(2)) : NULL;
    CE_FREED char *line = text ? ce_must_print("%s\n", text) : NULL;
    if (line)
        json_object_set_new(files->to->files, name, json_string(line));
}

cs_status ce_vocabulary_add(ce_vocabulary_tokens *tokens, const ce_vocabulary *vocabulary)
{
    CE_CLOSED(drop_files) tokenizer_files files = { .to = tokens };
    *tokens = (ce_vocabulary_tokens){ .files = json_object(), .named = json_object() };
    CE_TRY(read_files(&files, vocabulary->from));
    if (!files.config && json_object_size(vocabulary->named) > 0)
        files.config = json_object();
    tokens->size = count_ids(&files);
    CE_TRY(add_lists(&files, vocabulary->tokens, false));
    CE_TRY(add_lists(&files, vocabulary->specials, true));
    add_named(&files, vocabulary->named);
    sort_added(&files);
    if (json_is_real(json_object_get(files.config, LENGTH)))
        json_object_del(files.config, LENGTH); /* the default, which JSON has no integer for */
    keep(&files, TOKENIZER, files.tokenizer);
    keep(&files, CONFIG, files.config);
    keep(&files, MAP, files.map);
    keep(&files, ADDED, files.added);
    return CS_OK;
}

void ce_vocabulary_drop(ce_vocabulary_tokens *tokens)
{
    json_decref(tokens->files);
    json_decref(tokens->named);
}
