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
    ce_text repaired, composed;
    ce_encoded encoded;
    int64_t place; /* bytes of the text that the tokens so far cover */
};

ce_encoder *ce_encoder_open(const ce_tokenizer *tokenizer)
{
    ce_encoder *encoder = calloc(1, sizeof *encoder);
    CS_ASSERT(encoder);
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
    ce_unicode_free(&encoder->repaired);
    ce_unicode_free(&encoder->composed);
    free(encoder->encoded.ids);
    free(encoder->encoded.starts);
    free(encoder);
}

static void make_room(ce_encoded *encoded, int64_t more)
{
    if (encoded->room - encoded->count >= more)
        return;
    encoded->room = 2 * encoded->room + more + 256;
    encoded->ids = realloc(encoded->ids, (size_t)encoded->room * sizeof *encoded->ids);
    encoded->starts = realloc(encoded->starts, (size_t)encoded->room * sizeof *encoded->starts);
    CS_ASSERT(encoded->ids && encoded->starts);
}

static void put(ce_encoder *encoder, int32_t id, int64_t size)
{
    ce_encoded *encoded = &encoder->encoded;
    make_room(encoded, 1);
    encoded->ids[encoded->count] = id;
    encoded->starts[encoded->count++] = encoder->place;
    encoder->place += size;
}

static void put_bytes(ce_encoder *encoder, const char *text, size_t size)
{
    make_room(&encoder->encoded, (int64_t)size);
    for (size_t i = 0; i < size; i++)
        put(encoder, (unsigned char)text[i], 1);
}

static void put_word(void *context, const char *word, size_t size)
{
    ce_encoder *encoder = context;
    int32_t count;
    const ce_bpe_token *tokens = ce_bpe_word(encoder->bpe, word, size, &count);
    make_room(&encoder->encoded, count);
    for (int32_t i = 0; i < count; i++)
        put(encoder, tokens[i].id, tokens[i].size);
}

static void put_words(ce_encoder *encoder, const char *text, size_t size)
{
    ce_words_each(encoder->cutters, text, size, put_word, encoder);
}

/* Calls `between` for the text between special tokens, and appends the special tokens themselves. */
static void put_specials(ce_encoder *encoder, const ce_specials *specials, const char *text, size_t size,
                         void (*between)(ce_encoder *encoder, const char *text, size_t size))
{
    const ce_special *token;
    ce_special_match match = { 0 };
    size_t done = 0;
    while ((token = ce_special_next(specials, text, size, &match))) {
        if (match.from > done)
            between(encoder, text + done, match.from - done);
        put(encoder, token->id, (int64_t)(match.to - match.from));
        done = match.to;
    }
    if (done < size)
        between(encoder, text + done, size - done);
}

static void put_normal(ce_encoder *encoder, const char *text, size_t size)
{
    if (encoder->tokenizer->compose) {
        encoder->composed.size = 0;
        ce_unicode_compose(&encoder->composed, text, size);
        text = encoder->composed.bytes;
        size = encoder->composed.size;
    }
    put_specials(encoder, &encoder->tokenizer->normal, text, size, put_words);
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
    put_specials(encoder, &encoder->tokenizer->raw, text, size, put_normal);
}

static void put_around(ce_encoder *encoder, const int32_t *ids, int count)
{
    for (int i = 0; i < count; i++)
        put(encoder, ids[i], 0);
}

const ce_encoded *ce_encoder_part(ce_encoder *encoder, const char *text, size_t length, int where)
{
    const ce_tokenizer *tokenizer = encoder->tokenizer;
    encoder->encoded.count = 0;
    encoder->place = 0;
    if (where & CS_ENCODER_BEGINS)
        put_around(encoder, tokenizer->before, tokenizer->before_count);
    put_text(encoder, text, length);
    if (where & CS_ENCODER_ENDS)
        put_around(encoder, tokenizer->after, tokenizer->after_count);
    return &encoder->encoded;
}

const ce_encoded *ce_encoder_text(ce_encoder *encoder, const char *text, size_t length)
{
    return ce_encoder_part(encoder, text, length, 0);
}

const ce_encoded *ce_encoder_document(ce_encoder *encoder, const char *text, size_t length)
{
    return ce_encoder_part(encoder, text, length, CS_ENCODER_BEGINS | CS_ENCODER_ENDS);
}
