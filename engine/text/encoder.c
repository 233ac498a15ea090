/* encoder.c - tokenizes texts with an open tokenizer; holds the buffers and the word cache of one thread. */
#include "text/encoder.h"
#include "base/must.h"
#include "text/bpe.h"
#include "text/parts.h"

#include <stdlib.h>
#include <string.h>

struct ce_encoder {
    const ce_tokenizer *tokenizer;
    ce_cutters *cutters;
    ce_bpe *bpe;
    ce_normal_work normal;
    ce_text repaired;
    ce_encoded encoded;
};

ce_encoder *ce_encoder_open(const ce_tokenizer *tokenizer)
{
    ce_encoder *encoder = ce_must_alloc(sizeof *encoder);
    encoder->tokenizer = tokenizer;
    if (!tokenizer->is_bytes) {
        encoder->cutters = ce_words_cutters(tokenizer->words);
        encoder->bpe = ce_bpe_open(&tokenizer->lexicon);
    }
    return encoder;
}

void ce_encoder_close(ce_encoder *encoder)
{
    if (!encoder)
        return;
    ce_words_release(encoder->cutters);
    ce_bpe_close(encoder->bpe);
    ce_normal_work_free(&encoder->normal);
    ce_unicode_free(&encoder->repaired);
    free(encoder->encoded.ids);
    free(encoder->encoded.starts);
    free(encoder);
}

static void make_room(ce_encoded *encoded, int64_t more)
{
    if (encoded->capacity - encoded->count >= more)
        return;
    encoded->capacity = 2 * encoded->capacity + more + 256;
    encoded->ids = ce_must_resize(encoded->ids, (size_t)encoded->capacity * sizeof *encoded->ids);
    encoded->starts = ce_must_resize(encoded->starts, (size_t)encoded->capacity * sizeof *encoded->starts);
}

static void put(ce_encoder *encoder, int32_t id, size_t start)
{
    ce_encoded *encoded = &encoder->encoded;
    make_room(encoded, 1);
    encoded->ids[encoded->count] = id;
    encoded->starts[encoded->count++] = (int64_t)start;
}

static void put_bytes(ce_encoder *encoder, const char *text, size_t size)
{
    make_room(&encoder->encoded, (int64_t)size);
    for (size_t i = 0; i < size; i++)
        put(encoder, (unsigned char)text[i], i);
}

static void put_merged(ce_encoder *encoder, ce_span word)
{
    int32_t count;
    size_t place = 0;
    const ce_bpe_token *tokens = ce_bpe_word(encoder->bpe, word.bytes, word.size, &count);
    make_room(&encoder->encoded, count);
    for (int32_t i = 0; i < count; i++) {
        put(encoder, tokens[i].id, ce_span_origin(word, place));
        place += (size_t)tokens[i].size;
    }
}

static void put_word(void *context, ce_span word)
{
    ce_encoder *encoder = context;
    const ce_tokenizer *tokenizer = encoder->tokenizer;
    while (word.size > 0) {
        size_t size = tokenizer->seams.marks ? ce_seams_next(word.bytes, word.size) : word.size;
        put_merged(encoder, ce_span_part(word, 0, size));
        word = ce_span_part(word, size, word.size - size);
    }
}

static void put_words(ce_encoder *encoder, ce_span text)
{
    ce_words_each(encoder->cutters, text, encoder->normal.continued, put_word, encoder);
}

/* Appends the special tokens of a text. Calls `between` for the text before the first special token, between two
 * special tokens, and after the last special token, unless this text is empty. */
static void put_specials(ce_encoder *encoder, const ce_specials *specials, ce_span text,
                         void (*between)(ce_encoder *encoder, ce_span text))
{
    const ce_special *token;
    ce_special_match match = { 0 };
    size_t done = 0;
    while ((token = ce_special_next(specials, text.bytes, text.size, &match))) {
        if (match.from > done)
            between(encoder, ce_span_part(text, done, match.from - done));
        put(encoder, token->id, ce_span_origin(text, match.from));
        done = match.to;
    }
    if (done < text.size)
        between(encoder, ce_span_part(text, done, text.size - done));
}

static void put_normal(ce_encoder *encoder, ce_span text)
{
    text = ce_normalizer_apply(&encoder->tokenizer->normalizer, &encoder->normal, text);
    put_specials(encoder, &encoder->tokenizer->normal, text, put_words);
}

static void put_text(ce_encoder *encoder, const char *text, size_t size)
{
    if (encoder->tokenizer->is_bytes) {
        put_bytes(encoder, text, size);
        return;
    }
    if (ce_unicode_valid(text, size) < size) {
        encoder->repaired.size = 0;
        encoder->encoded.repaired += ce_unicode_repair(&encoder->repaired, text, size);
        text = encoder->repaired.bytes;
        size = encoder->repaired.size;
    }
    put_specials(encoder, &encoder->tokenizer->raw, (ce_span){ .bytes = text, .size = size }, put_normal);
}

static void put_around(ce_encoder *encoder, const int32_t *ids, int count, size_t place)
{
    for (int i = 0; i < count; i++)
        put(encoder, ids[i], place);
}

static const ce_encoded *encode(ce_encoder *encoder, const char *text, size_t length, int where, bool continued)
{
    const ce_tokenizer *tokenizer = encoder->tokenizer;
    encoder->encoded.count = 0;
    encoder->normal.continued = continued;
    if (where & CE_ENCODER_BEGINS)
        put_around(encoder, tokenizer->before, tokenizer->before_count, 0);
    put_text(encoder, text, length);
    if (where & CE_ENCODER_ENDS)
        put_around(encoder, tokenizer->after, tokenizer->after_count, length);
    return &encoder->encoded;
}

const ce_encoded *ce_encoder_part(ce_encoder *encoder, const char *text, size_t length, int where)
{
    return encode(encoder, text, length, where, !(where & CE_ENCODER_BEGINS));
}

const ce_encoded *ce_encoder_text(ce_encoder *encoder, const char *text, size_t length)
{
    return encode(encoder, text, length, 0, false);
}

const ce_encoded *ce_encoder_document(ce_encoder *encoder, const char *text, size_t length)
{
    return encode(encoder, text, length, CE_ENCODER_BEGINS | CE_ENCODER_ENDS, false);
}
