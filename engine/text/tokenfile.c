/* tokenfile.c - parses tokenizer.json. If a section is not supported, the error message gives the section's type and
 * the section's place in the file. */
#include "base/log.h"
#include "base/must.h"
#include "text/jsonpart.h"
#include "text/parts.h"

#include <stdlib.h>
#include <string.h>

/* ---- post_processor ---- */

static cs_status put_around(ce_tokenizer *tokenizer, const json_t *id, bool behind, const char *path)
{
    int *count = behind ? &tokenizer->after_count : &tokenizer->before_count;
    if (*count == CE_PARTS_AROUND)
        return ce_fail(CS_UNSUPPORTED, "not supported: %s adds more than %d tokens", path, CE_PARTS_AROUND);
    if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) >= tokenizer->lexicon.size)
        return ce_fail(CS_BAD_FILE, "%s adds a token that is not in the vocabulary", path);
    (behind ? tokenizer->after : tokenizer->before)[(*count)++] = (int32_t)json_integer_value(id);
    return CS_OK;
}

/* Refuses a second post-processor if the first one has added tokens, because the second would then read more than one
 * text. */
static cs_status refuse_second(const ce_tokenizer *tokenizer, const char *path)
{
    if (tokenizer->before_count + tokenizer->after_count == 0)
        return CS_OK;
    return ce_fail(CS_UNSUPPORTED, "not supported: %s, because another post-processor has added tokens before", path);
}

static cs_status read_template(ce_tokenizer *tokenizer, const json_t *part, const char *path)
{
    size_t index, number;
    json_t *member, *id;
    const json_t *specials = json_object_get(part, "special_tokens");
    int texts = 0;
    CE_TRY(refuse_second(tokenizer, path));
    json_array_foreach (json_object_get(part, "single"), index, member) {
        const json_t *sequence = json_object_get(member, "Sequence");
        const char *which = json_string_value(json_object_get(sequence, "id"));
        const char *name = json_string_value(json_object_get(json_object_get(member, "SpecialToken"), "id"));
        const json_t *ids = name ? json_object_get(json_object_get(specials, name), "ids") : NULL;
        texts += sequence != NULL;
        if (texts > 1 || (which && strcmp(which, "A") != 0))
            return ce_fail(CS_UNSUPPORTED, "not supported: %s.single[%zu] refers to a text other than A", path, index);
        if (name && json_array_size(ids) == 0)
            return ce_fail(CS_BAD_FILE, "%s.special_tokens has no ids of %.60s", path, name);
        json_array_foreach (ids, number, id)
            CE_TRY(put_around(tokenizer, id, texts > 0, path));
    }
    return texts > 0 ? CS_OK : ce_fail(CS_UNSUPPORTED, "not supported: %s.single is without the text A", path);
}

/* Reads the post-processor of BERT or RoBERTa: one token before the text and one behind it, each written as ["text",
 * id]. */
static cs_status read_pair(ce_tokenizer *tokenizer, const json_t *part, const char *path)
{
    CE_TRY(refuse_second(tokenizer, path));
    CE_TRY(put_around(tokenizer, json_array_get(json_object_get(part, "cls"), 1), false, path));
    return put_around(tokenizer, json_array_get(json_object_get(part, "sep"), 1), true, path);
}

static cs_status read_post_processor(ce_tokenizer *tokenizer, const json_t *part, const char *path)
{
    size_t index;
    json_t *member;
    char inner[CE_JSONPART_PATH];
    const char *type = ce_jsonpart_type(part);
    if (!part || json_is_null(part) || strcmp(type, "ByteLevel") == 0)
        return CS_OK; /* The option trim_offsets of ByteLevel changes offsets only, not tokens. */
    if (strcmp(type, "TemplateProcessing") == 0)
        return read_template(tokenizer, part, path);
    if (strcmp(type, "BertProcessing") == 0 || strcmp(type, "RobertaProcessing") == 0)
        return read_pair(tokenizer, part, path);
    if (strcmp(type, "Sequence") != 0)
        return ce_jsonpart_refuse(path, type, "it is not a post-processor of tokenizers 0.23");
    json_array_foreach (json_object_get(part, "processors"), index, member)
        CE_TRY(read_post_processor(tokenizer, member, ce_jsonpart_member(inner, path, "processors", index)));
    return CS_OK;
}

/* ---- model, added tokens ---- */

static cs_status read_affix(char **affix, const json_t *model, const char *key, bool is_bytes)
{
    const char *text = json_string_value(json_object_get(model, key));
    if (!text || !*text)
        return CS_OK;
    if (is_bytes)
        return ce_fail(CS_UNSUPPORTED, "not supported: model.%s with a ByteLevel pre_tokenizer", key);
    *affix = ce_must_copy(text);
    return CS_OK;
}

static cs_status check_model(const json_t *model)
{
    const char *type = json_string_value(json_object_get(model, "type"));
    if (type && strcmp(type, "BPE") != 0)
        return ce_jsonpart_refuse("model", type, "only BPE is supported");
    if (json_number_value(json_object_get(model, "dropout")) != 0)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: model.dropout, because a text must always become the same tokens");
    return CS_OK;
}

static cs_status read_model(ce_tokenizer *tokenizer, const json_t *model, bool is_bytes)
{
    ce_lexicon *lexicon = &tokenizer->lexicon;
    const char *unknown = json_string_value(json_object_get(model, "unk_token"));
    CE_TRY(check_model(model));
    lexicon->is_bytes = is_bytes;
    CE_TRY(read_affix(&lexicon->prefix, model, "continuing_subword_prefix", is_bytes));
    CE_TRY(read_affix(&lexicon->suffix, model, "end_of_word_suffix", is_bytes));
    lexicon->fuse_unknown = ce_jsonpart_flag(model, "fuse_unk", false);
    lexicon->whole_words = ce_jsonpart_flag(model, "ignore_merges", false);
    lexicon->byte_fallback = ce_jsonpart_flag(model, "byte_fallback", false);
    CE_TRY(ce_lexicon_fill(lexicon, json_object_get(model, "vocab"), json_object_get(model, "merges")));
    lexicon->unknown = unknown ? ce_lexicon_find(lexicon, unknown, strlen(unknown)) : -1;
    for (int byte = 0; is_bytes && lexicon->byte_fallback && byte < 256; byte++)
        if (lexicon->bytes[byte] < 0)
            return ce_fail(CS_UNSUPPORTED,
                           "not supported: model.byte_fallback with a ByteLevel pre_tokenizer and without a token for "
                           "byte %d",
                           byte);
    return CS_OK;
}

cs_status ce_tokenfile_added(ce_tokenizer *tokenizer, const json_t *token, int64_t id)
{
    const char *text = json_string_value(json_object_get(token, "content"));
    if (!text || !*text)
        return ce_fail(CS_BAD_FILE, "added token %lld has no content", (long long)id);
    ce_special added = {
        .size = strlen(text),
        .id = (int32_t)id,
        .content = ce_must_copy(text),
        .special = ce_jsonpart_flag(token, "special", false),
        .normalized = ce_jsonpart_flag(token, "normalized", false),
        .single_word = ce_jsonpart_flag(token, "single_word", false),
        .strip_left = ce_jsonpart_flag(token, "lstrip", false),
        .strip_right = ce_jsonpart_flag(token, "rstrip", false),
    };
    CE_CLOSED(ce_normal_work_free) ce_normal_work work = { .continued = false };
    ce_span span = { .bytes = text, .size = added.size };
    if (added.normalized)
        span = ce_normalizer_apply(&tokenizer->normalizer, &work, span);
    added.text = ce_must_copy_part(span.bytes, span.size);
    added.size = span.size;
    cs_status status = ce_lexicon_set(&tokenizer->lexicon, id, added.size > 0 ? added.text : text,
                                      added.size > 0 ? added.size : strlen(text));
    ce_special_add(added.normalized ? &tokenizer->normal : &tokenizer->raw, added);
    return status;
}

/* Warns that the sections for batches of texts, "padding" and "truncation", are not applied. */
static void warn_of_batches(const json_t *root)
{
    static const char *const sections[][2] = {
        { "truncation", "a text is encoded whole, and windows are cut from it" },
        { "padding", "windows are full" },
    };
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        const json_t *section = json_object_get(root, sections[i][0]);
        if (section && !json_is_null(section))
            ce_log(CE_LOG_WARNING, "tokenizer.json: its %s is not done: %s", sections[i][0], sections[i][1]);
    }
}

cs_status ce_tokenfile_read(ce_tokenizer *tokenizer, const json_t *root)
{
    size_t index;
    json_t *token;
    const json_t *words = json_object_get(root, "pre_tokenizer");
    warn_of_batches(root);
    CE_TRY(ce_normalizer_read(&tokenizer->normalizer, json_object_get(root, "normalizer"), "normalizer"));
    tokenizer->words = ce_words_open();
    CE_TRY(ce_words_read(tokenizer->words, words));
    CE_TRY(read_model(tokenizer, json_object_get(root, "model"), ce_words_reads_bytes(words)));
    json_array_foreach (json_object_get(root, "added_tokens"), index, token) {
        const json_t *id = json_object_get(token, "id");
        CE_TRY(ce_tokenfile_added(tokenizer, token, json_is_integer(id) ? json_integer_value(id) : -1));
    }
    CE_TRY(ce_decoder_read(&tokenizer->decoder, json_object_get(root, "decoder"), "decoder"));
    return read_post_processor(tokenizer, json_object_get(root, "post_processor"), "post_processor");
}
