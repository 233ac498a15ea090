/* gguf_tokenizer.c - the vocabulary of a GGUF file, from a tokenizer.json with BPE: on bytes ("gpt2"), or on characters
 * with a token for each other byte ("llama"), as SentencePiece has it. */
#include "base/files.h"
#include "base/log.h"
#include "base/must.h"
#include "gguf/words.h"
#include "interchange/gguf_parts.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *text;
    int type;
    float score;
} token;

typedef struct {
    json_t *root, *settings; /* tokenizer.json, tokenizer_config.json (or NULL) */
    const json_t *config;
    char *folder;
    token *tokens;
    int64_t count;
    bool pieces; /* SentencePiece's form */
} vocabulary;

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

/* Returns the text of a special token of tokenizer_config.json, which may be an object. */
static const char *special(const vocabulary *v, const char *key)
{
    const json_t *value = json_object_get(v->settings, key);
    return json_is_object(value) ? text_at(value, "content") : json_is_string(value) ? json_string_value(value) : "";
}

static int64_t find(const vocabulary *v, const char *text)
{
    for (int64_t i = 0; *text && i < v->count; i++)
        if (v->tokens[i].text && strcmp(v->tokens[i].text, text) == 0)
            return i;
    return -1;
}

/* ---- tokens ---- */

static int type_of(const char *text, const json_t *model)
{
    if (strcmp(text, text_at(model, "unk_token")) == 0)
        return CE_TOKEN_UNKNOWN;
    return json_is_true(json_object_get(model, "byte_fallback")) && strlen(text) == 6 && strncmp(text, "<0x", 3) == 0
               ? CE_TOKEN_BYTE
               : CE_TOKEN_NORMAL;
}

static cs_status put(vocabulary *v, const json_t *id, const char *text, int type)
{
    int64_t at = json_is_integer(id) ? json_integer_value(id) : -1;
    if (at < 0 || at >= v->count)
        return ce_fail(CS_BAD_FILE, "the token %s has an id that is not below the model's vocab_size, %lld", text,
                       (long long)v->count);
    v->tokens[at] = (token){ text, type, 0 };
    return CS_OK;
}

static cs_status read_tokens(vocabulary *v, const json_t *model)
{
    const char *text;
    json_t *id, *added;
    size_t i;
    v->tokens = ce_must_alloc((size_t)v->count * sizeof *v->tokens);
    json_object_foreach (json_object_get(model, "vocab"), text, id)
        CE_TRY(put(v, id, text, type_of(text, model)));
    json_array_foreach (json_object_get(v->root, "added_tokens"), i, added) {
        int type = json_is_true(json_object_get(added, "special")) ? CE_TOKEN_CONTROL : CE_TOKEN_USER;
        const char *content = text_at(added, "content");
        type = type == CE_TOKEN_CONTROL && strcmp(content, text_at(model, "unk_token")) == 0 ? CE_TOKEN_UNKNOWN : type;
        CE_TRY(put(v, json_object_get(added, "id"), content, type));
    }
    return CS_OK;
}

/* Returns the text of a merge, "left right", malloc'ed. Newer files have a list of the two. */
static char *merge_text(const json_t *merge)
{
    if (json_is_string(merge))
        return ce_must_copy(json_string_value(merge));
    const char *left = json_string_value(json_array_get(merge, 0)),
               *right = json_string_value(json_array_get(merge, 1));
    return ce_must_print("%s %s", left ? left : "", right ? right : "");
}

/* SentencePiece merges to the piece with the highest score first: the score of a token is minus the rank of its first
 * merge. Tokens that no merge makes have the least score. */
static void score_tokens(vocabulary *v, const json_t *model)
{
    json_t *ids = json_object_get(model, "vocab"), *merge;
    size_t i;
    for (int64_t id = 0; id < v->count; id++)
        v->tokens[id].score = v->tokens[id].type == CE_TOKEN_NORMAL ? -1e6F : 0;
    json_array_foreach (json_object_get(model, "merges"), i, merge) {
        CE_FREED char *text = merge_text(merge);
        char *space = strchr(text, ' ');
        if (!space)
            continue;
        memmove(space, space + 1, strlen(space));
        const json_t *id = json_object_get(ids, text);
        int64_t at = id ? json_integer_value(id) : -1;
        if (at >= 0 && at < v->count && v->tokens[at].score <= -1e6F)
            v->tokens[at].score = -(float)i;
    }
}

/* ---- the form of the vocabulary ---- */

/* Returns true if a normalizer or pre-tokenizer of SentencePiece's form only writes spaces as U+2581, as llama.cpp does.
 * Gemma's pre-tokenizer divides at spaces, of which its normalizer leaves none. */
static bool is_plain(const json_t *part)
{
    static const char *const types[] = { "Prepend", "Replace", "Metaspace" };
    const json_t *members = json_object_get(part, "normalizers"), *inner;
    const char *type = text_at(part, "type"), *divided = text_at(json_object_get(part, "pattern"), "String");
    bool known = !json_is_object(part) || (strcmp(type, "Split") == 0 && strcmp(divided, " ") == 0);
    size_t i;
    if (json_is_array(members)) {
        json_array_foreach ((json_t *)members, i, inner)
            if (!is_plain(inner))
                return false;
        return true;
    }
    for (i = 0; i < sizeof types / sizeof *types; i++)
        known = known || strcmp(type, types[i]) == 0;
    return known && (strcmp(type, "Replace") != 0 || strcmp(divided, " ") == 0);
}

/* Returns true if a space is put in front of a text. */
static bool adds_space(const vocabulary *v)
{
    const json_t *mark = ce_gguf_words_part(json_object_get(v->root, "pre_tokenizer"), "pretokenizers", "Metaspace");
    const json_t *prepend = ce_gguf_words_part(json_object_get(v->root, "normalizer"), "normalizers", "Prepend");
    return prepend || (mark && strcmp(text_at(mark, "prepend_scheme"), "never") != 0);
}

/* Returns the special token that the post-processor puts before (0) or after (1) a text, or NULL. */
static const json_t *added(const vocabulary *v, int after)
{
    const json_t *template =
        ce_gguf_words_part(json_object_get(v->root, "post_processor"), "processors", "TemplateProcessing");
    const json_t *single = json_object_get(template, "single");
    size_t count = json_array_size(single);
    return count > 1 ? json_object_get(json_array_get(single, after ? count - 1 : 0), "SpecialToken") : NULL;
}

/* Returns true if the token that begins a text is added to it. */
static bool adds_begin(const vocabulary *v)
{
    return added(v, 0) != NULL;
}

/* ---- keys ---- */

static void add_tokens(ce_gguf_keys *keys, const vocabulary *v)
{
    char name[32];
    ce_gguf_key_array(keys, "tokenizer.ggml.tokens", CE_GGUF_STRING, v->count);
    for (int64_t i = 0; i < v->count; i++) {
        snprintf(name, sizeof name, "[PAD%lld]", (long long)i);
        const char *text = v->tokens[i].text ? v->tokens[i].text : name;
        ce_gguf_text(keys->out, text, strlen(text));
    }
    ce_gguf_key_array(keys, "tokenizer.ggml.token_type", CE_GGUF_INT32, v->count);
    for (int64_t i = 0; i < v->count; i++)
        ce_gguf_number(keys->out, v->tokens[i].text ? (uint64_t)v->tokens[i].type : CE_TOKEN_UNUSED, 4);
}

static void add_scores(ce_gguf_keys *keys, const vocabulary *v)
{
    ce_gguf_key_array(keys, "tokenizer.ggml.scores", CE_GGUF_FLOAT32, v->count);
    for (int64_t i = 0; i < v->count; i++) {
        uint32_t bits;
        memcpy(&bits, &v->tokens[i].score, sizeof bits);
        ce_gguf_number(keys->out, bits, 4);
    }
}

static void add_merges(ce_gguf_keys *keys, const json_t *merges)
{
    size_t i;
    json_t *merge;
    ce_gguf_key_array(keys, "tokenizer.ggml.merges", CE_GGUF_STRING, (int64_t)json_array_size(merges));
    json_array_foreach ((json_t *)merges, i, merge) {
        CE_FREED char *text = merge_text(merge);
        ce_gguf_text(keys->out, text, strlen(text));
    }
}

static void add_specials(ce_gguf_keys *keys, const vocabulary *v)
{
    static const char *const names[][3] = {
        { "bos_token", "bos_token_id", "tokenizer.ggml.bos_token_id" },
        { "eos_token", "eos_token_id", "tokenizer.ggml.eos_token_id" },
        { "unk_token", "", "tokenizer.ggml.unknown_token_id" },
        { "pad_token", "pad_token_id", "tokenizer.ggml.padding_token_id" },
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *id = json_object_get(v->config, names[i][1]);
        const char *around = i < 2 ? text_at(added(v, (int)i), "id") : "";
        /* The token that is put before a text is the file's first token, whatever bos_token is. */
        int64_t found = find(v, i == 0 && *around ? around : special(v, names[i][0]));
        id = json_is_array(id) ? json_array_get(id, 0) : id;
        if (found < 0 && json_is_integer(id))
            found = json_integer_value(id);
        found = found < 0 ? find(v, around) : found;
        if (found >= 0)
            ce_gguf_key_count(keys, names[i][2], found);
    }
    ce_gguf_key_truth(keys, "tokenizer.ggml.add_bos_token", adds_begin(v));
    ce_gguf_key_truth(keys, "tokenizer.ggml.add_eos_token", added(v, 1) != NULL);
    ce_gguf_key_truth(keys, "tokenizer.ggml.add_space_prefix", v->pieces && adds_space(v));
}

static cs_status add_template(ce_gguf_keys *keys, const vocabulary *v, const char *chat)
{
    CE_FREED char *own = NULL;
    if (!chat)
        CE_TRY(ce_tokenizer_template_of(&own, v->folder));
    if (chat || own)
        ce_gguf_key_text(keys, "tokenizer.chat_template", chat ? chat : own);
    return CS_OK;
}

static cs_status add_keys(ce_gguf_keys *keys, vocabulary *v, const ce_gguf_output *output)
{
    const json_t *model = json_object_get(v->root, "model"), *merges = json_object_get(model, "merges");
    const char *type = text_at(model, "type"), *divided = ce_gguf_words_name(v->root);
    v->pieces = json_is_true(json_object_get(model, "byte_fallback"));
    if (!merges || (*type && strcmp(type, "BPE") != 0))
        return ce_fail(CS_UNSUPPORTED, "not supported: %s in a GGUF file, because its tokenizer is %s and not BPE",
                       output->tokenizer, *type ? type : "of another kind");
    if (!v->pieces && !divided)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: %s in a GGUF file, because it divides text by a rule (pre_tokenizer) "
                       "other than those of GPT-2, Llama 3, Qwen 2 and SmolLM",
                       output->tokenizer);
    if (v->pieces &&
        !(is_plain(json_object_get(v->root, "normalizer")) && is_plain(json_object_get(v->root, "pre_tokenizer"))))
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: %s in a GGUF file, because its normalizer or pre_tokenizer does more than write "
                       "spaces as U+2581",
                       output->tokenizer);
    CE_TRY(read_tokens(v, model));
    ce_gguf_key_text(keys, "tokenizer.ggml.model", v->pieces ? "llama" : "gpt2");
    ce_gguf_key_text(keys, "tokenizer.ggml.pre", v->pieces ? "default" : divided);
    add_tokens(keys, v);
    if (v->pieces) {
        score_tokens(v, model);
        add_scores(keys, v);
    } else {
        add_merges(keys, merges);
    }
    add_specials(keys, v);
    return add_template(keys, v, output->chat);
}

cs_status ce_gguf_tokenizer_keys(ce_gguf_keys *keys, const ce_gguf_output *output, int64_t size)
{
    bool whole = output->tokenizer && ce_files_is_folder(output->tokenizer);
    const char *slash = output->tokenizer && !whole ? strrchr(output->tokenizer, '/') : NULL;
    vocabulary v = { .config = output->config, .count = size };
    if (!output->tokenizer || (whole && !ce_files_holds(output->tokenizer, "tokenizer.json"))) {
        if (whole && ce_files_holds_tokenizer(output->tokenizer))
            return ce_fail(CS_UNSUPPORTED,
                           "not supported: %s in a GGUF file, because it has no tokenizer.json, which "
                           "transformers writes (AutoTokenizer.from_pretrained(...).save_pretrained(...))",
                           output->tokenizer);
        ce_log(CE_LOG_WARNING, "the file has no vocabulary, because the model has no tokenizer.json");
        ce_gguf_key_text(keys, "tokenizer.ggml.model", "none");
        return CS_OK;
    }
    v.folder = whole   ? ce_must_copy(output->tokenizer)
               : slash ? ce_must_copy_part(output->tokenizer, (size_t)(slash - output->tokenizer))
                       : ce_must_copy(".");
    cs_status status = ce_json_read_file(&v.root, v.folder,
                                         whole   ? "tokenizer.json"
                                         : slash ? slash + 1
                                                 : output->tokenizer);
    if (status == CS_OK)
        status = ce_json_read_file(&v.settings, v.folder, "tokenizer_config.json");
    if (status == CS_OK)
        status = v.root ? add_keys(keys, &v, output) : ce_fail(CS_NOT_FOUND, "%s: no such file", output->tokenizer);
    json_decref(v.root);
    json_decref(v.settings);
    free(v.folder);
    free(v.tokens);
    return status;
}
