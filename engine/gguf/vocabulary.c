/* vocabulary.c - the tokenizer of a GGUF file as a tokenizer.json and a tokenizer_config.json: BPE on bytes ("gpt2"), or
 * SentencePiece's BPE on characters with a token for each other byte ("llama"). */
#include "base/must.h"
#include "gguf/describe.h"
#include "gguf/words.h"

#include <stdlib.h>
#include <string.h>

#define SPACE "\xe2\x96\x81" /* U+2581, which SentencePiece writes in place of a space */

typedef struct {
    int32_t left, right, id;
    double score;
} merge;

typedef struct {
    const ce_gguf_file *file;
    const char *path;
    const json_t *tokens; /* texts */
    json_t *root, *vocab; /* tokenizer.json, and "vocab" in it */
    bool pieces;          /* SentencePiece's form */
} vocabulary;

static const json_t *value(const vocabulary *v, const char *key)
{
    char name[CE_GGUF_NAME];
    snprintf(name, sizeof name, "tokenizer.ggml.%s", key);
    return json_object_get(v->file->keys, name);
}

static const char *text_at(const json_t *list, int64_t index)
{
    const char *text = index < 0 ? NULL : json_string_value(json_array_get(list, (size_t)index));
    return text ? text : "";
}

static int64_t count_of(const vocabulary *v)
{
    return (int64_t)json_array_size(v->tokens);
}

static int type_of(const vocabulary *v, int64_t id)
{
    const json_t *types = value(v, "token_type");
    return types ? (int)json_integer_value(json_array_get(types, (size_t)id)) : CE_TOKEN_NORMAL;
}

static bool truth(const vocabulary *v, const char *key, bool otherwise)
{
    const json_t *given = value(v, key);
    return given ? json_is_true(given) : otherwise;
}

/* Returns the id of a special token, or -1. */
static int64_t special(const vocabulary *v, const char *key)
{
    const json_t *id = value(v, key);
    return json_is_integer(id) && json_integer_value(id) < count_of(v) ? json_integer_value(id) : -1;
}

/* ---- tokens ---- */

static cs_status add_tokens(vocabulary *v)
{
    json_t *added = json_array();
    json_object_set_new(v->root, "added_tokens", added);
    for (int64_t id = 0; id < count_of(v); id++) {
        const char *text = text_at(v->tokens, id);
        int type = type_of(v, id);
        if (type == CE_TOKEN_UNUSED)
            continue;
        if (!*text || json_object_get(v->vocab, text))
            return ce_fail(CS_BAD_FILE, "%s: token %lld has no text, or that of token %lld: \"%.60s\"", v->path,
                           (long long)id, (long long)json_integer_value(json_object_get(v->vocab, text)), text);
        if (type < CE_TOKEN_NORMAL || type > CE_TOKEN_BYTE)
            return ce_fail(CS_BAD_FILE, "%s: token %lld, %.60s, has the unknown type %d", v->path, (long long)id, text,
                           type);
        json_object_set_new(v->vocab, text, json_integer(id));
        if (type != CE_TOKEN_NORMAL && type != CE_TOKEN_BYTE)
            json_array_append_new(added, json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id,
                                                   "content", text, "single_word", 0, "lstrip", 0, "rstrip", 0,
                                                   "normalized", 0, "special", type != CE_TOKEN_USER));
    }
    return CS_OK;
}

/* ---- merges of SentencePiece ----
 *
 * SentencePiece merges the two neighbours that together are the piece of the greatest score. Each way to divide a piece
 * into two others is a merge; the merges of the piece with the greatest score come first. */

static int by_score(const void *one, const void *other)
{
    const merge *a = one, *b = other;
    if (a->score < b->score || a->score > b->score)
        return a->score < b->score ? 1 : -1;
    int64_t order = a->id != b->id ? a->id - b->id : a->left != b->left ? a->left - b->left : a->right - b->right;
    return (order > 0) - (order < 0);
}

static int32_t find_half(const vocabulary *v, const char *text, size_t length)
{
    CE_FREED char *half = ce_must_copy_part(text, length);
    const json_t *id = json_object_get(v->vocab, half);
    return id && type_of(v, json_integer_value(id)) == CE_TOKEN_NORMAL ? (int32_t)json_integer_value(id) : -1;
}

static cs_status add_piece_merges(const vocabulary *v, json_t *list)
{
    const json_t *scores = value(v, "scores");
    CE_FREED merge *merges = NULL;
    size_t count = 0, capacity = 0;
    if ((int64_t)json_array_size(scores) != count_of(v))
        return ce_fail(CS_BAD_FILE, "%s: tokenizer.ggml.scores has not a score for each token", v->path);
    for (int64_t id = 0; id < count_of(v); id++) {
        const char *text = text_at(v->tokens, id);
        size_t length = strlen(text);
        for (size_t at = 1; at < length && type_of(v, id) == CE_TOKEN_NORMAL; at++) {
            merge found = { .id = (int32_t)id, .score = json_number_value(json_array_get(scores, (size_t)id)) };
            if (((unsigned char)text[at] & 0xc0) == 0x80)
                continue; /* inside of a character */
            found.left = find_half(v, text, at);
            found.right = found.left < 0 ? -1 : find_half(v, text + at, length - at);
            if (found.right < 0)
                continue;
            CE_MUST_HOLD(merges, capacity, count + 1);
            merges[count++] = found;
        }
    }
    if (count)
        qsort(merges, count, sizeof *merges, by_score);
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("[ss]", text_at(v->tokens, merges[i].left),
                                              text_at(v->tokens, merges[i].right)));
    return CS_OK;
}

/* ---- the rules around the tokens ---- */

static void set_part(json_t *root, const char *section, const char *json)
{
    json_object_set_new(root, section, json_loads(json, 0, NULL));
}

static void add_piece_rules(const vocabulary *v)
{
    bool prefix = truth(v, "add_space_prefix", true);
#define REPLACE "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"" SPACE "\"}"
#define BACK                                                                                                           \
    "{\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", \"pattern\": {\"String\": \"" SPACE "\"}, "       \
    "\"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}"
    set_part(v->root, "normalizer",
             prefix ? "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": \"" SPACE
                      "\"}, " REPLACE "]}"
                    : REPLACE);
    set_part(v->root, "decoder",
             prefix ? BACK ", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}]}" : BACK "]}");
    json_object_set_new(v->root, "pre_tokenizer", json_null());
}

static cs_status add_byte_rules(const vocabulary *v)
{
    const char *rule = json_string_value(value(v, "pre"));
    set_part(v->root, "decoder",
             "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, \"use_regex\": true}");
    return ce_gguf_words_set(v->root, rule ? rule : "default", v->path);
}

static void append_special(const vocabulary *v, json_t *single, json_t *specials, int64_t id)
{
    const char *text = text_at(v->tokens, id);
    json_array_append_new(single, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", text, "type_id", 0));
    json_object_set_new(specials, text,
                        json_pack("{s:s, s:[I], s:[s]}", "id", text, "ids", (json_int_t)id, "tokens", text));
}

/* The tokens that are put around a text. */
static void add_around(const vocabulary *v)
{
    const char *rule = json_string_value(value(v, "pre"));
    bool usual = v->pieces || (rule && ce_gguf_words_begin(rule)); /* llama.cpp's default */
    int64_t begin = truth(v, "add_bos_token", usual) ? special(v, "bos_token_id") : -1;
    int64_t end = truth(v, "add_eos_token", false) ? special(v, "eos_token_id") : -1;
    json_t *single = json_array(), *specials = json_object();
    if (begin >= 0)
        append_special(v, single, specials, begin);
    json_array_append_new(single, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
    if (end >= 0)
        append_special(v, single, specials, end);
    json_t *pair = json_deep_copy(single);
    json_array_append_new(pair, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "B", "type_id", 1));
    json_object_set_new(v->root, "post_processor",
                        begin < 0 && end < 0 ? json_null()
                                             : json_pack("{s:s, s:O, s:O, s:O}", "type", "TemplateProcessing", "single",
                                                         single, "pair", pair, "special_tokens", specials));
    json_decref(single);
    json_decref(pair);
    json_decref(specials);
}

static cs_status make_tokenizer(vocabulary *v)
{
    const json_t *types = value(v, "token_type"), *given = value(v, "merges");
    if (!json_is_array(v->tokens) || (types && (int64_t)json_array_size(types) != count_of(v)))
        return ce_fail(CS_BAD_FILE, "%s: tokenizer.ggml.token_type has not a type for each token", v->path);
    json_t *merges = json_array(), *model = json_object_get(v->root, "model");
    json_object_set_new(model, "merges", merges);
    CE_TRY(add_tokens(v));
    int64_t unknown = special(v, "unknown_token_id");
    bool known = v->pieces && unknown >= 0;
    json_object_set_new(model, "unk_token", known ? json_string(text_at(v->tokens, unknown)) : json_null());
    json_object_set_new(model, "fuse_unk", json_boolean(v->pieces));
    json_object_set_new(model, "byte_fallback", json_boolean(v->pieces));
    add_around(v);
    if (v->pieces) {
        add_piece_rules(v);
        return add_piece_merges(v, merges);
    }
    if (!json_is_array(given))
        return ce_fail(CS_BAD_FILE, "%s has no tokenizer.ggml.merges", v->path);
    json_array_extend(merges, (json_t *)(uintptr_t)given);
    return add_byte_rules(v);
}

/* ---- tokenizer_config.json, generation_config.json ---- */

/* Returns the chat template, or a list of those that have names. */
static json_t *templates_of(const ce_gguf_file *file)
{
    static const char prefix[] = "tokenizer.chat_template";
    json_t *list = json_array(), *text, *only = NULL;
    const char *key;
    json_object_foreach (file->keys, key, text) {
        const char *name = key + sizeof prefix - 1;
        if (strncmp(key, prefix, sizeof prefix - 1) != 0 || !json_is_string(text) || (*name && *name != '.'))
            continue;
        only = text;
        json_array_append_new(list, json_pack("{s:s, s:O}", "name", *name ? name + 1 : "default", "template", text));
    }
    bool single = json_array_size(list) == 1 && json_object_get(file->keys, prefix);
    json_t *result = single ? json_incref(only) : json_array_size(list) ? json_incref(list) : NULL;
    json_decref(list);
    return result;
}

static json_t *make_settings(const vocabulary *v)
{
    static const char *const names[][2] = { { "bos_token", "bos_token_id" },
                                            { "eos_token", "eos_token_id" },
                                            { "unk_token", "unknown_token_id" },
                                            { "pad_token", "padding_token_id" } };
    json_t *settings =
        json_pack("{s:s, s:b}", "tokenizer_class", "PreTrainedTokenizerFast", "clean_up_tokenization_spaces", 0);
    json_t *templates = templates_of(v->file);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int64_t id = special(v, names[i][1]);
        if (id >= 0 && type_of(v, id) != CE_TOKEN_UNUSED)
            json_object_set_new(settings, names[i][0], json_string(text_at(v->tokens, id)));
    }
    if (templates)
        json_object_set_new(settings, "chat_template", templates);
    return settings;
}

/* A text ends with the end of a sequence or, if that is another token, of a turn. */
static json_t *make_generation(const vocabulary *v)
{
    int64_t begin = special(v, "bos_token_id"), end = special(v, "eos_token_id"), turn = special(v, "eot_token_id");
    json_t *made = json_object(), *ends = json_array();
    if (begin >= 0)
        json_object_set_new(made, "bos_token_id", json_integer(begin));
    if (end >= 0)
        json_array_append_new(ends, json_integer(end));
    if (turn >= 0 && turn != end)
        json_array_append_new(ends, json_integer(turn));
    if (json_array_size(ends))
        json_object_set(made, "eos_token_id", json_array_size(ends) == 1 ? json_array_get(ends, 0) : ends);
    json_decref(ends);
    return made;
}

cs_status ce_gguf_vocabulary(json_t **tokenizer, json_t **settings, json_t **generation, const ce_gguf_file *file,
                             const char *path)
{
    vocabulary v = { .file = file, .path = path };
    const char *model = json_string_value(value(&v, "model"));
    *tokenizer = *settings = *generation = NULL;
    if (!model || strcmp(model, "none") == 0 || strcmp(model, "no_vocab") == 0)
        return CS_OK;
    v.pieces = strcmp(model, "llama") == 0;
    if (!v.pieces && strcmp(model, "gpt2") != 0)
        return ce_fail(
            CS_UNSUPPORTED,
            "not supported: %s: the tokenizer \"%.40s\" (tokenizer.ggml.model); \"gpt2\" and \"llama\" are read", path,
            model);
    v.tokens = value(&v, "tokens");
    v.vocab = json_object();
    v.root = json_pack("{s:s, s:n, s:n, s:{s:s, s:o}}", "version", "1.0", "truncation", "padding", "model", "type",
                       "BPE", "vocab", v.vocab);
    cs_status status = make_tokenizer(&v);
    if (status != CS_OK) {
        json_decref(v.root);
        return status;
    }
    *tokenizer = v.root;
    *settings = make_settings(&v);
    *generation = make_generation(&v);
    return CS_OK;
}
