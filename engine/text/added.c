/* added.c - the tokens that the files beside the vocabulary add to a tokenizer.
 *
 * The rules are those of transformers 5. If tokenizer_config.json has added_tokens_decoder, this object lists the added
 * tokens. Otherwise added_tokens.json lists them, and the keys of special_tokens_map.json replace those of
 * tokenizer_config.json. In both cases each text of a key *_token, and each member of extra_special_tokens or of
 * additional_special_tokens, is a special token too. A token that is added a second time gets the flags of the second
 * entry. */
#include "text/parts.h"
#include "base/ends_with.h"
#include "base/log.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    ce_tokenizer *tokenizer;
    const ce_added_files *files;
    json_t *named;    /* {key: token} */
    json_t *extra;    /* [token] */
    const char *list; /* where the tokens with ids come from, for messages */
} reader;

typedef struct {
    int64_t id;
    const char *text;
    json_t *token; /* the entry with its flags, or the id if only the text and the id are known */
} entry;

/* Returns the text of a token, which is a string, or an object that has the text as "content". */
static const char *text_of(const json_t *token)
{
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

/* ---- the named tokens ---- */

static void take_named(reader *r, const json_t *object)
{
    const char *key;
    json_t *value;
    /* The cast is safe, because json_object_foreach only reads. */
    json_object_foreach ((json_t *)(uintptr_t)object, key, value)
        if (ce_ends_with(key, "_token") && text_of(value))
            json_object_set(r->named, key, value);
        else if (json_is_null(value))
            json_object_del(r->named, key);
}

/* Takes a list of tokens, or an object of named tokens. */
static void take_extra(reader *r, const json_t *list)
{
    const char *key;
    json_t *value;
    size_t index;
    json_array_foreach (list, index, value)
        json_array_append(r->extra, value);
    json_object_foreach ((json_t *)(uintptr_t)list, key, value)
        json_object_set(r->named, key, value);
}

static void collect(reader *r)
{
    const json_t *config = r->files->config;
    const json_t *map = json_object_get(config, "added_tokens_decoder") ? NULL : r->files->map;
    take_named(r, config);
    take_named(r, map);
    take_extra(r, json_object_get(config, "extra_special_tokens"));
    take_extra(r, json_object_get(map, "extra_special_tokens"));
    for (int i = 0; i < 2 && json_array_size(r->extra) == 0; i++)
        take_extra(r, json_object_get(i ? map : config, "additional_special_tokens"));
}

static bool names(const reader *r, const char *text)
{
    const char *key;
    json_t *value;
    size_t index;
    json_object_foreach (r->named, key, value)
        if (strcmp(text_of(value), text) == 0)
            return true;
    json_array_foreach (r->extra, index, value)
        if (text_of(value) && strcmp(text_of(value), text) == 0)
            return true;
    return false;
}

/* ---- adding ---- */

/* Adds a token, or replaces its flags. A flag that the entry does not have is false, and `normalized` is the opposite of
 * `special`. A SentencePiece model puts its prefix before the text between two tokens, so no token is normalized. */
static cs_status add(reader *r, const json_t *token, const char *text, int64_t id, bool special)
{
    ce_tokenizer *tokenizer = r->tokenizer;
    json_auto_t *whole = json_is_object(token) ? json_copy((json_t *)(uintptr_t)token) : json_object();
    json_object_set_new(whole, "content", json_string(text));
    if (special || !json_object_get(whole, "special"))
        json_object_set_new(whole, "special", json_boolean(special));
    if (tokenizer->piece_count > 0)
        json_object_set_new(whole, "normalized", json_false());
    else if (!json_object_get(whole, "normalized"))
        json_object_set_new(whole, "normalized", json_boolean(!json_is_true(json_object_get(whole, "special"))));
    ce_special_remove(&tokenizer->raw, (int32_t)id);
    ce_special_remove(&tokenizer->normal, (int32_t)id);
    return ce_tokenfile_added(tokenizer, whole, id);
}

/* Adds a token whose id a file gives. The id must be the one that the vocabulary gives to the token, or else the first
 * one that no token has, because transformers gives this id to a new token. */
static cs_status add_entry(reader *r, const entry *added)
{
    ce_lexicon *lexicon = &r->tokenizer->lexicon;
    size_t size = strlen(added->text), known_size;
    const char *known = ce_lexicon_name(lexicon, added->id, &known_size);
    bool same = known_size == size && memcmp(known, added->text, size) == 0;
    int64_t id = same ? added->id : ce_lexicon_named(lexicon, added->text, size);
    if (id >= 0 && id != added->id)
        return ce_fail(CS_BAD_FILE, "%s gives the token %.60s the id %lld, and the vocabulary gives it the id %lld",
                       r->list, added->text, (long long)added->id, (long long)id);
    if (known_size > 0 && !same)
        return ce_fail(CS_BAD_FILE, "%s gives the id %lld to the token %.60s, and this is the id of the token %.*s",
                       r->list, (long long)added->id, added->text, (int)(known_size < 60 ? known_size : 60), known);
    if (id < 0 && added->id != lexicon->size)
        return ce_fail(CS_BAD_FILE,
                       "%s gives the token %.60s the id %lld, and the first id without a token is %lld, which "
                       "transformers would use for it: write this id, or tokens for the ids between",
                       r->list, added->text, (long long)added->id, (long long)lexicon->size);
    if (!json_is_object(added->token) && ce_tokenizer_has_added(r->tokenizer, added->text))
        return CS_OK; /* The vocabulary's own entry has flags, and added_tokens.json has none. */
    return add(r, added->token, added->text, added->id, !json_is_object(added->token) && names(r, added->text));
}

static int by_id(const void *one, const void *other)
{
    int64_t a = ((const entry *)one)->id, b = ((const entry *)other)->id;
    return (a > b) - (a < b);
}

static cs_status read_entry(entry *made, const char *list, const char *key, json_t *value, bool has_flags)
{
    char *end = NULL;
    *made = (entry){ .id = has_flags ? strtoll(key, &end, 10) : json_integer_value(value),
                     .text = has_flags ? json_string_value(json_object_get(value, "content")) : key,
                     .token = value };
    if (has_flags ? *end || end == key : !json_is_integer(value))
        return ce_fail(CS_BAD_FILE, "%s: the id of %.60s is not a number", list, key);
    return made->text && *made->text ? CS_OK : ce_fail(CS_BAD_FILE, "%s: the token %.60s has no content", list, key);
}

/* Adds the tokens of added_tokens_decoder, {"id": {flags}}, or of added_tokens.json, {"token": id}, by their ids. */
static cs_status add_entries(reader *r)
{
    const char *key;
    json_t *value, *decoder = json_object_get(r->files->config, "added_tokens_decoder");
    json_t *list = decoder ? decoder : r->files->tokens;
    size_t count = 0;
    CE_FREED entry *entries = ce_must_alloc((json_object_size(list) + 1) * sizeof *entries);
    cs_status status = CS_OK;
    r->list = decoder ? "tokenizer_config.json: added_tokens_decoder" : "added_tokens.json";
    json_object_foreach (list, key, value)
        if (status == CS_OK)
            status = read_entry(&entries[count++], r->list, key, value, decoder != NULL);
    if (count > 1)
        qsort(entries, count, sizeof *entries, by_id);
    for (size_t i = 0; i < count && status == CS_OK; i++)
        status = add_entry(r, &entries[i]);
    return status;
}

/* Makes a token special that a file names without an id. `key` is its key, for messages. */
static cs_status add_named(reader *r, const char *key, const json_t *token, bool special)
{
    const char *text = text_of(token);
    if (!text)
        return ce_fail(CS_BAD_FILE, "%s has a member that is not a token", key);
    if (!*text || ce_tokenizer_has_added(r->tokenizer, text))
        return CS_OK;
    int64_t id = ce_lexicon_named(&r->tokenizer->lexicon, text, strlen(text));
    if (id < 0)
        return ce_fail(CS_BAD_FILE,
                       "tokenizer_config.json or special_tokens_map.json names the token %.60s as %s, and no file of "
                       "the tokenizer defines it: define it with its id in added_tokens_decoder, or name another one",
                       text, key);
    return add(r, token, text, id, special);
}

static cs_status add_all(reader *r)
{
    const char *key;
    json_t *value;
    size_t index;
    CE_TRY(add_entries(r));
    json_object_foreach (r->named, key, value)
        CE_TRY(add_named(r, key, value, true));
    json_array_foreach (r->extra, index, value)
        CE_TRY(add_named(r, "extra_special_tokens", value, !json_is_object(value)));
    return CS_OK;
}

/* Warns of an id that a file names and that no token has. It does not end the program, because training does not need
 * it. */
static void warn_of_id(const ce_tokenizer *tokenizer, const char *file, const char *key, const json_t *id)
{
    size_t size;
    int64_t number = (int64_t)json_number_value(id);
    if (json_is_string(id))
        ce_log(CE_LOG_WARNING, "%s: %s is a text and no number, so it has no effect", file, key);
    if (!json_is_number(id) || number < 0)
        return;
    ce_lexicon_name(&tokenizer->lexicon, number, &size);
    if (size == 0)
        ce_log(CE_LOG_WARNING, "%s: %s is %lld, and no token of the tokenizer has this id", file, key,
               (long long)number);
}

static void warn_of_ids(const ce_tokenizer *tokenizer, const char *file, const json_t *root)
{
    static const char *const keys[] = { "bos_token_id", "eos_token_id", "pad_token_id" };
    size_t index;
    json_t *member;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(root, keys[i]);
        warn_of_id(tokenizer, file, keys[i], value);
        json_array_foreach (value, index, member)
            warn_of_id(tokenizer, file, keys[i], member);
    }
}

static void set_text(char **text, const json_t *named, const char *key)
{
    const char *found = text_of(json_object_get(named, key));
    if (!found)
        return;
    free(*text);
    *text = ce_must_copy(found);
}

cs_status ce_added_read(ce_tokenizer *tokenizer, const ce_added_files *files)
{
    if (json_is_true(json_object_get(files->config, "split_special_tokens")))
        return ce_fail(CS_UNSUPPORTED, "not supported: split_special_tokens in tokenizer_config.json");
    reader r = { .tokenizer = tokenizer, .files = files, .named = json_object(), .extra = json_array() };
    collect(&r);
    cs_status status = add_all(&r);
    set_text(&tokenizer->begin_text, r.named, "bos_token");
    set_text(&tokenizer->end_text, r.named, "eos_token");
    warn_of_ids(tokenizer, "config.json", files->model);
    warn_of_ids(tokenizer, "generation_config.json", files->generation);
    json_decref(r.named);
    json_decref(r.extra);
    return status;
}

void ce_added_around(ce_tokenizer *tokenizer, const json_t *config)
{
    int32_t begin = tokenizer->begin_text ? ce_tokenizer_find(tokenizer, tokenizer->begin_text) : -1;
    int32_t end = tokenizer->end_text ? ce_tokenizer_find(tokenizer, tokenizer->end_text) : -1;
    if (begin >= 0 && json_is_true(json_object_get(config, "add_bos_token")))
        tokenizer->before[tokenizer->before_count++] = begin;
    if (end >= 0 && json_is_true(json_object_get(config, "add_eos_token")))
        tokenizer->after[tokenizer->after_count++] = end;
}
