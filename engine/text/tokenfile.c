/* tokenfile.c - parses tokenizer.json: each part is read, or refused by name if it is not supported. */
#include "base/log.h"
#include "text/parts.h"

#include <stdlib.h>
#include <string.h>

static const char *type_of(const json_t *part)
{
    const char *type = json_string_value(json_object_get(part, "type"));
    return type ? type : "of no type";
}

static bool is_true(const json_t *part, const char *key)
{
    return json_is_true(json_object_get(part, key));
}

static cs_status refuse(const char *what, const char *type, const char *known)
{
    return ce_fail(CS_UNSUPPORTED, "not supported: the %s %s, because only byte-level BPE is; %s", what, type, known);
}

/* ---- normalizer ---- */

static cs_status read_normalizer(ce_tokenizer *tokenizer, const json_t *part)
{
    size_t index;
    json_t *member;
    if (!part || json_is_null(part))
        return CS_OK;
    if (strcmp(type_of(part), "Sequence") == 0) {
        json_array_foreach (json_object_get(part, "normalizers"), index, member)
            CS_TRY(read_normalizer(tokenizer, member));
        return CS_OK;
    }
    if (strcmp(type_of(part), "NFC") != 0)
        return refuse("normalizer", type_of(part), "NFC is the only normalizer here");
    tokenizer->compose = true;
    return CS_OK;
}

/* ---- pre_tokenizer ---- */

static cs_status read_split(ce_tokenizer *tokenizer, const json_t *part)
{
    const json_t *pattern = json_object_get(part, "pattern");
    const char *behavior = json_string_value(json_object_get(part, "behavior"));
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *literal = json_string_value(json_object_get(pattern, "String"));
    bool inverted = is_true(part, "invert");
    if (!regex && !literal)
        return ce_fail(CS_BAD_FILE, "a Split of the pre_tokenizer has no pattern");
    if (behavior && strcmp(behavior, "Isolated") == 0 && !(literal && !*literal))
        return ce_words_add(tokenizer->words, regex ? regex : literal, regex ? CS_WORDS_REGEX : CS_WORDS_LITERAL);
    if (behavior && regex && inverted && strcmp(behavior, "Removed") == 0)
        return ce_words_add(tokenizer->words, regex, CS_WORDS_REGEX_DROPPING);
    return refuse("Split behavior", behavior ? behavior : "null", "Isolated, or Removed with invert, is there");
}

static cs_status read_bytes(ce_tokenizer *tokenizer, const json_t *part)
{
    if (is_true(part, "add_prefix_space"))
        return ce_fail(CS_UNSUPPORTED, "not supported: add_prefix_space, because a text would not begin as it does");
    if (json_is_false(json_object_get(part, "use_regex")))
        return CS_OK;
    return ce_words_add(tokenizer->words, ce_words_gpt2, CS_WORDS_REGEX);
}

/* Reads one pre-tokenizer step. ByteLevel must be the last one, because after it the text is bytes. */
static cs_status read_step(ce_tokenizer *tokenizer, const json_t *part, bool last)
{
    const char *type = type_of(part);
    if ((strcmp(type, "ByteLevel") == 0) != last)
        return refuse("pre_tokenizer that does not end in one ByteLevel, but in", type,
                      "SentencePiece, Unigram and WordPiece models are not");
    if (last)
        return read_bytes(tokenizer, part);
    if (strcmp(type, "Split") == 0)
        return read_split(tokenizer, part);
    if (strcmp(type, "Digits") == 0)
        return ce_words_add(tokenizer->words, is_true(part, "individual_digits") ? "\\p{N}" : "\\p{N}+",
                            CS_WORDS_REGEX);
    return refuse("pre_tokenizer", type, "Split, Digits and ByteLevel are there");
}

static cs_status read_pre_tokenizer(ce_tokenizer *tokenizer, const json_t *part)
{
    size_t index;
    json_t *member, *list = json_object_get(part, "pretokenizers");
    tokenizer->words = ce_words_open();
    if (strcmp(type_of(part), "Sequence") != 0)
        return read_step(tokenizer, part, true);
    if (json_array_size(list) == 0)
        return refuse("pre_tokenizer", "of no steps", "it has to end in ByteLevel");
    json_array_foreach (list, index, member)
        CS_TRY(read_step(tokenizer, member, index + 1 == json_array_size(list)));
    return CS_OK;
}

/* ---- post_processor ---- */

static cs_status add_around(ce_tokenizer *tokenizer, const json_t *ids, bool behind)
{
    size_t index;
    json_t *id;
    int32_t *list = behind ? tokenizer->after : tokenizer->before;
    int *count = behind ? &tokenizer->after_count : &tokenizer->before_count;
    if (json_array_size(ids) == 0)
        return ce_fail(CS_BAD_FILE, "a special token of the post_processor has no ids");
    json_array_foreach (ids, index, id) {
        if (*count == CS_PARTS_AROUND)
            return ce_fail(CS_UNSUPPORTED, "not supported: more than %d special tokens around a text", CS_PARTS_AROUND);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= tokenizer->lexicon.size)
            return ce_fail(CS_BAD_FILE, "a special token of the post_processor is not in the vocabulary");
        list[(*count)++] = (int32_t)json_integer_value(id);
    }
    return CS_OK;
}

static cs_status read_template(ce_tokenizer *tokenizer, const json_t *part)
{
    size_t index;
    json_t *member;
    const json_t *specials = json_object_get(part, "special_tokens");
    bool behind = false;
    json_array_foreach (json_object_get(part, "single"), index, member) {
        const char *name = json_string_value(json_object_get(json_object_get(member, "SpecialToken"), "id"));
        if (name)
            CS_TRY(add_around(tokenizer, json_object_get(json_object_get(specials, name), "ids"), behind));
        behind |= json_object_get(member, "Sequence") != NULL;
    }
    return CS_OK;
}

static cs_status read_post_processor(ce_tokenizer *tokenizer, const json_t *part)
{
    size_t index;
    json_t *member;
    const char *type = type_of(part);
    if (!part || json_is_null(part) || strcmp(type, "ByteLevel") == 0)
        return CS_OK; /* trim_offsets of ByteLevel changes only offsets, not tokens */
    if (strcmp(type, "TemplateProcessing") == 0)
        return read_template(tokenizer, part);
    if (strcmp(type, "Sequence") != 0)
        return refuse("post_processor", type, "TemplateProcessing and ByteLevel are there");
    json_array_foreach (json_object_get(part, "processors"), index, member)
        CS_TRY(read_post_processor(tokenizer, member));
    return CS_OK;
}

/* ---- model, added tokens ---- */

static cs_status read_model(ce_tokenizer *tokenizer, const json_t *model)
{
    static const char *const absent[] = { "continuing_subword_prefix", "end_of_word_suffix" };
    ce_lexicon *lexicon = &tokenizer->lexicon;
    const char *type = json_string_value(json_object_get(model, "type"));
    const char *unknown = json_string_value(json_object_get(model, "unk_token"));
    if (type && strcmp(type, "BPE") != 0)
        return refuse("model", type, "SentencePiece, Unigram and WordPiece models are not");
    if (is_true(model, "byte_fallback"))
        return refuse("model", "with byte_fallback", "this is a SentencePiece vocabulary");
    if (json_number_value(json_object_get(model, "dropout")) != 0)
        return ce_fail(CS_UNSUPPORTED, "not supported: dropout of merges, because a text has to give the same tokens");
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        const char *text = json_string_value(json_object_get(model, absent[i]));
        if (text && *text)
            return refuse("model with", absent[i], "bytes need none");
    }
    CS_TRY(ce_lexicon_fill(lexicon, json_object_get(model, "vocab"), json_object_get(model, "merges")));
    lexicon->unknown = unknown ? ce_lexicon_find(lexicon, unknown, strlen(unknown)) : -1;
    lexicon->fuse_unknown = is_true(model, "fuse_unk");
    lexicon->whole_words = is_true(model, "ignore_merges");
    return CS_OK;
}

cs_status ce_tokenfile_added(ce_tokenizer *tokenizer, const json_t *token, int64_t id)
{
    const char *text = json_string_value(json_object_get(token, "content"));
    if (!text || !*text)
        return ce_fail(CS_BAD_FILE, "added token %lld has no content", (long long)id);
    CS_TRY(ce_lexicon_set(&tokenizer->lexicon, id, text, strlen(text)));
    ce_special added = {
        .size = strlen(text),
        .id = (int32_t)id,
        .special = is_true(token, "special"),
        .normalized = is_true(token, "normalized"),
        .single_word = is_true(token, "single_word"),
        .strip_left = is_true(token, "lstrip"),
        .strip_right = is_true(token, "rstrip"),
    };
    ce_text composed = { 0 };
    if (added.normalized && tokenizer->compose)
        ce_unicode_compose(&composed, text, added.size);
    else
        ce_unicode_append(&composed, text, added.size);
    added.text = composed.bytes;
    added.size = composed.size;
    ce_special_add(added.normalized ? &tokenizer->normal : &tokenizer->raw, added);
    return CS_OK;
}

/* Warns about sections that apply only to batches of texts (padding, truncation), which are ignored. */
static void warn_of_batches(const json_t *root)
{
    static const char *const sections[][2] = {
        { "truncation", "a text is encoded whole, and windows are cut from it" },
        { "padding", "windows are full" },
    };
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const json_t *section = json_object_get(root, sections[i][0]);
        if (section && !json_is_null(section))
            ce_log(CS_LOG_WARNING, "tokenizer.json: its %s is not done: %s", sections[i][0], sections[i][1]);
    }
}

cs_status ce_tokenfile_read(ce_tokenizer *tokenizer, const json_t *root)
{
    size_t index;
    json_t *token;
    warn_of_batches(root);
    CS_TRY(read_normalizer(tokenizer, json_object_get(root, "normalizer")));
    CS_TRY(read_model(tokenizer, json_object_get(root, "model")));
    json_array_foreach (json_object_get(root, "added_tokens"), index, token) {
        const json_t *id = json_object_get(token, "id");
        CS_TRY(ce_tokenfile_added(tokenizer, token, json_is_integer(id) ? json_integer_value(id) : -1));
    }
    CS_TRY(read_pre_tokenizer(tokenizer, json_object_get(root, "pre_tokenizer")));
    return read_post_processor(tokenizer, json_object_get(root, "post_processor"));
}
