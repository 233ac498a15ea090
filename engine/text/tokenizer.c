/* tokenizer.c - opens a tokenizer from its files. */
#include "text/tokenizer.h"
#include "base/ends_with.h"
#include "base/log.h"
#include "base/must.h"
#include "text/parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static cs_status read_beside(ce_tokenizer *tokenizer, const char *folder, ce_added_files *beside)
{
    /* The parser ce_json_words accepts large numbers, because model_max_length may be 1e30. */
    CE_TRY(ce_beside_json(&beside->config, folder, "tokenizer_config.json", ce_json_words));
    CE_TRY(ce_beside_json(&beside->map, folder, "special_tokens_map.json", ce_json_strict));
    CE_TRY(ce_beside_json(&beside->tokens, folder, "added_tokens.json", ce_json_strict));
    CE_TRY(ce_beside_json(&beside->generation, folder, "generation_config.json", ce_json_words));
    CE_TRY(ce_beside_json(&beside->model, folder, "config.json", ce_json_words));
    CE_TRY(ce_class_check(beside->config));
    return ce_beside_templates(&tokenizer->templates, folder, beside->config);
}

/* ---- vocab.json, merges.txt ---- */

static json_t *read_merges(ce_text *content)
{
    json_t *merges = json_array();
    ce_unicode_append(content, "", 1);
    for (char *next, *line = strtok_r(content->bytes, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        line[strcspn(line, "\r")] = 0;
        if (*line && strncmp(line, "#version", 8) != 0)
            json_array_append_new(merges, json_string(line));
    }
    return merges;
}

/* Chooses the word pattern and the normalization by the tokenizer class, because the files vocab.json and merges.txt do
 * not contain them. */
static cs_status choose_words(ce_tokenizer *tokenizer, const char *class, bool prefix)
{
    static const struct {
        const char *class, *pattern;
        bool
            composes; /* True if texts become NFC, and if the prefix is put before each word and not before the text. */
    } known[] = { { "GPT2Tokenizer", ce_words_gpt2, false }, { "Qwen2Tokenizer", ce_words_qwen2, true } };
    ce_normal_step *step;
    ce_words *words = tokenizer->words = ce_words_open();
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(class, known[i].class, strlen(known[i].class)) == 0) {
            if (known[i].composes) /* A new step is zeroed, so its form is NFC, the first value of ce_unicode_form. */
                CE_TRY(ce_normalizer_add(&tokenizer->normalizer, CE_NORMAL_FORM, &step));
            if (prefix && !known[i].composes)
                CE_TRY(ce_words_add_replaced(words, " ", CE_WORDS_PREFIX_ALWAYS));
            CE_TRY(ce_words_add_regex(words, known[i].pattern));
            return prefix && known[i].composes ? ce_words_add_replaced(words, " ", CE_WORDS_PREFIX_ALWAYS) : CS_OK;
        }
    return ce_fail(CS_UNSUPPORTED,
                   "not supported: vocab.json and merges.txt of a %s, because these files do not say how it splits "
                   "text into words; a tokenizer.json does (only GPT2Tokenizer and Qwen2Tokenizer are read without "
                   "it)",
                   class);
}

#define END_OF_TEXT "<|endoftext|>"

/* Sets the text of bos_token or eos_token to that of the class, unless tokenizer_config.json has the key. */
static void name_end(char **text, const json_t *config, const char *key)
{
    if (json_object_get(config, key))
        return;
    *text = ce_must_copy(END_OF_TEXT);
}

static cs_status read_pair(ce_tokenizer *tokenizer, const char *folder, const json_t *vocabulary,
                           const ce_added_files *beside)
{
    CE_CLOSED(ce_unicode_free) ce_text content = { 0 };
    ce_decode_step *decode;
    cs_status status = ce_beside_text(&content, folder, "merges.txt");
    tokenizer->lexicon.is_bytes = true;
    tokenizer->lexicon.unknown = -1;
    if (status == CS_NOT_FOUND)
        ce_fail(status, "%s: contains vocab.json, but no merges.txt", folder);
    CE_TRY(status);
    json_auto_t *merges = read_merges(&content);
    CE_TRY(ce_lexicon_fill(&tokenizer->lexicon, vocabulary, merges));
    CE_TRY(ce_decoder_add(&tokenizer->decoder, CE_DECODE_BYTES, &decode));
    char class[CE_CLASS_NAME];
    const char *type = json_string_value(json_object_get(beside->model, "model_type"));
    ce_class_name(class, beside->config, beside->model, type ? type : "GPT2Tokenizer");
    CE_TRY(choose_words(tokenizer, class, json_is_true(json_object_get(beside->config, "add_prefix_space"))));
    int32_t end = ce_tokenizer_find(tokenizer, END_OF_TEXT);
    if (end < 0)
        return CS_OK;
    if (strncmp(class, "GPT2", strlen("GPT2")) == 0) /* Qwen2's class has no bos_token */
        name_end(&tokenizer->begin_text, beside->config, "bos_token");
    name_end(&tokenizer->end_text, beside->config, "eos_token");
    json_auto_t *added = json_pack("{s:s, s:b}", "content", END_OF_TEXT, "special", 1);
    return ce_tokenfile_added(tokenizer, added, end);
}

/* ---- opening ---- */

static void use_bytes(ce_tokenizer *tokenizer)
{
    tokenizer->is_bytes = true;
    tokenizer->end = -1;
    for (int byte = 0; byte < 256; byte++)
        CE_ASSERT(ce_lexicon_set(&tokenizer->lexicon, byte, (const char[]){ (char)byte }, 1) == CS_OK);
    ce_tokenizer_finish(tokenizer);
}

static int32_t find_end(const ce_tokenizer *tokenizer)
{
    const char *const names[] = { tokenizer->end_text, END_OF_TEXT, "<|end_of_text|>", "</s>" };
    int32_t end = -1;
    for (size_t i = 0; end < 0 && i < sizeof names / sizeof *names; i++)
        end = names[i] ? ce_tokenizer_find(tokenizer, names[i]) : -1;
    return end;
}

/* Reads SentencePiece's file. If there is none, returns CS_NOT_FOUND without a message. */
static cs_status read_model(ce_tokenizer *tokenizer, const char *folder, const char *name, const ce_added_files *beside)
{
    char class[CE_CLASS_NAME];
    CE_CLOSED(ce_unicode_free) ce_text content = { 0 };
    cs_status status = ce_beside_text(&content, folder, name);
    if (status == CS_OK) {
        ce_class_name(class, beside->config, beside->model, "TokenizersBackend");
        status = ce_sentencepiece_read(tokenizer, content.bytes, content.size, class, beside->config);
        if (status != CS_OK)
            ce_fail(status, "%s/%s: %s", folder, name, cs_error());
    }
    return status;
}

static cs_status read_json_files(ce_tokenizer *tokenizer, const char *folder, const char *name, json_t **root,
                                 const ce_added_files *beside)
{
    CE_TRY(ce_beside_json(root, folder, name, ce_json_strict));
    cs_status status = CS_NOT_FOUND;
    if (*root) {
        status = ce_tokenfile_read(tokenizer, *root);
    } else {
        name = "vocab.json";
        CE_TRY(ce_beside_json(root, folder, name, ce_json_strict));
        if (!*root)
            return CS_NOT_FOUND;
        status = read_pair(tokenizer, folder, *root, beside);
    }
    return status == CS_OK ? status : ce_fail(status, "%s/%s: %s", folder, name, cs_error());
}

/* Warns of a key of tokenizer_config.json that the post_processor of tokenizer.json overrules, as in transformers 5. */
static void warn_of_around(const ce_tokenizer *tokenizer, const json_t *config)
{
    static const char *const keys[] = { "add_bos_token", "add_eos_token" };
    const int counts[] = { tokenizer->before_count, tokenizer->after_count };
    for (int i = 0; i < 2; i++) {
        const json_t *value = json_object_get(config, keys[i]);
        if (json_is_boolean(value) && json_is_true(value) != (counts[i] > 0))
            ce_log(CE_LOG_WARNING,
                   "tokenizer_config.json: %s is %s and has no effect, because the post_processor of tokenizer.json "
                   "decides, which adds %s token",
                   keys[i], json_is_true(value) ? "true" : "false", counts[i] > 0 ? "such a" : "no such");
    }
}

/* Warns if the two files say different things of the space before a text. For some classes, such as GPT2Tokenizer and
 * Qwen2Tokenizer, transformers follows tokenizer_config.json. */
static void warn_of_prefix(const json_t *root, const json_t *config)
{
    static const char key[] = "add_prefix_space";
    const json_t *given = json_object_get(config, key), *words = json_object_get(root, "pre_tokenizer");
    const json_t *own = json_object_get(words, key);
    size_t index;
    json_t *member;
    json_array_foreach (json_object_get(words, "pretokenizers"), index, member)
        own = own ? own : json_object_get(member, key);
    if (json_is_boolean(given) && json_is_boolean(own) && !json_equal(given, own))
        ce_log(
            CE_LOG_WARNING,
            "tokenizer_config.json: %s is %s and has no effect, because the pre_tokenizer of tokenizer.json says the "
            "contrary: write the right value into both",
            key, json_is_true(given) ? "true" : "false");
}

static cs_status read_files(ce_tokenizer *tokenizer, const char *folder, const char *name, json_t **root,
                            ce_added_files *beside)
{
    CE_TRY(read_beside(tokenizer, folder, beside));
    bool has_processor = false;
    cs_status status = CS_NOT_FOUND;
    if (!ce_ends_with(name, ".model"))
        status = read_json_files(tokenizer, folder, name, root, beside);
    has_processor = json_object_get(*root, "model") != NULL;
    if (status == CS_NOT_FOUND && !*root)
        status = read_model(tokenizer, folder, ce_ends_with(name, ".model") ? name : "tokenizer.model", beside);
    if (status == CS_NOT_FOUND && !*root)
        ce_fail(status, "%s: contains no tokenizer.json, no vocab.json with merges.txt, and no tokenizer.model",
                folder);
    CE_TRY(status);
    status = ce_added_read(tokenizer, beside);
    if (status != CS_OK)
        return ce_fail(status, "%s: %s", folder, cs_error());
    if (has_processor) {
        warn_of_around(tokenizer, beside->config);
        warn_of_prefix(*root, beside->config);
    } else {
        ce_added_around(tokenizer, beside->config);
    }
    return CS_OK;
}

static cs_status build(ce_tokenizer *tokenizer, const char *path)
{
    struct stat facts;
    json_auto_t *root = NULL;
    ce_added_files beside = { 0 };
    if (stat(path, &facts) != 0)
        return ce_fail_errno(errno == ENOENT ? CS_NOT_FOUND : CS_IO_ERROR, errno, "%s: cannot open this tokenizer",
                             path);
    const char *slash = S_ISDIR(facts.st_mode) ? NULL : strrchr(path, '/');
    const char *name = S_ISDIR(facts.st_mode) ? "tokenizer.json" : slash ? slash + 1 : path;
    CE_FREED char *folder = S_ISDIR(facts.st_mode) ? ce_must_copy(path)
                            : slash                ? ce_must_copy_part(path, (size_t)(slash - path))
                                                   : ce_must_copy(".");
    cs_status status = read_files(tokenizer, folder, name, &root, &beside);
    json_decref(beside.config);
    json_decref(beside.map);
    json_decref(beside.tokens);
    json_decref(beside.generation);
    json_decref(beside.model);
    if (status == CS_OK)
        ce_tokenizer_finish(tokenizer);
    tokenizer->end = find_end(tokenizer);
    return status;
}

cs_status ce_tokenizer_open(ce_tokenizer **tokenizer, const char *path)
{
    cs_status status = CS_OK;
    ce_tokenizer *opened = ce_must_alloc(sizeof *opened);
    if (path)
        status = build(opened, path);
    else
        use_bytes(opened);
    if (status != CS_OK) {
        ce_tokenizer_close(opened);
        opened = NULL;
    }
    *tokenizer = opened;
    return status;
}

void ce_tokenizer_close(ce_tokenizer *tokenizer)
{
    if (!tokenizer)
        return;
    ce_lexicon_free(&tokenizer->lexicon);
    ce_normalizer_free(&tokenizer->normalizer);
    ce_decoder_free(&tokenizer->decoder);
    ce_unicode_free(&tokenizer->shown_text);
    free(tokenizer->shown);
    free(tokenizer->has_no_text);
    free(tokenizer->unknown_text);
    ce_words_close(tokenizer->words);
    ce_special_free(&tokenizer->raw);
    ce_special_free(&tokenizer->normal);
    json_decref(tokenizer->templates);
    free(tokenizer->begin_text);
    free(tokenizer->end_text);
    free(tokenizer);
}
