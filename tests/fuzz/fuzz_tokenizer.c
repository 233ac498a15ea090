/* fuzz_tokenizer.c - reads any bytes as a tokenizer.json: it is refused with a message or opened, without a crash. An
 * opened tokenizer encodes any text to tokens of its vocabulary, and encodes the same text to the same tokens each
 * time. The bytes before the first NUL of the input are the tokenizer; the text begins with this NUL. An input without
 * NUL is both the tokenizer and the text. A text is cut at TEXT bytes, because the time of a run limits what is
 * found. It is also encoded by one of the two tokenizers of this file, which are opened once. */
#include "base/must.h"
#include "text/encoder.h"
#include "text/parts.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT = 96 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char small[] =
    "{\"model\": {\"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2, \"aba\": 3, \"\\u0120\": 4, \"\\u010a\": 5, "
    "\"1\": 6}, \"merges\": [\"a b\", [\"ab\", \"a\"]]}, \"normalizer\": {\"type\": \"NFC\"}, "
    "\"added_tokens\": [{\"id\": 9, \"content\": \"<x>\", \"lstrip\": true, \"rstrip\": true}, "
    "{\"id\": 10, \"content\": \"b1\", \"single_word\": true, \"normalized\": true}], "
    "\"pre_tokenizer\": {\"type\": \"ByteLevel\"}}";

/* A tokenizer of characters instead of bytes, with many kinds of normalizers, pre-tokenizers and decoders. */
static const char steps[] =
    "{\"model\": {\"unk_token\": \"?\", \"byte_fallback\": true, \"vocab\": {\"?\": 0, \"a\": 1, \"\u2581\": 2, "
    "\"\u2581a\": 3, \"<0x41>\": 4}, \"merges\": [\"\u2581 a\"]}, \"normalizer\": {\"type\": \"Sequence\", "
    "\"normalizers\": [{\"type\": \"BertNormalizer\"}, {\"type\": \"Nmt\"}, {\"type\": \"NFKC\"}, {\"type\": \"Strip\", "
    "\"strip_left\": true}, {\"type\": \"Prepend\", \"prepend\": \"a \"}, {\"type\": \"Replace\", \"pattern\": "
    "{\"Regex\": \"a*\"}, \"content\": \"ab\"}]}, \"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": "
    "[{\"type\": \"Punctuation\", \"behavior\": \"MergedWithNext\"}, {\"type\": \"FixedLength\", \"length\": 3}, "
    "{\"type\": \"Metaspace\", \"prepend_scheme\": \"first\"}]}, \"decoder\": {\"type\": \"Sequence\", \"decoders\": "
    "[{\"type\": \"Metaspace\", \"replacement\": \"\u2581\"}, {\"type\": \"ByteFallback\"}, {\"type\": \"CTC\", "
    "\"pad_token\": \"a\", \"word_delimiter_token\": \"b\"}, {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, "
    "\"stop\": 2}]}}";

static void encode(const ce_tokenizer *tokenizer, ce_encoder *encoder, const char *text, size_t size)
{
    size = size < TEXT ? size : TEXT;
    const ce_encoded *made = ce_encoder_document(encoder, text, size);
    int64_t count = made->count;
    int32_t *first = malloc((size_t)(count + 1) * sizeof *first);
    CE_ASSERT(first);
    for (int64_t i = 0; i < count; i++) {
        CE_ASSERT(made->ids[i] >= 0 && made->ids[i] < ce_tokenizer_size(tokenizer));
        first[i] = made->ids[i];
    }
    made = ce_encoder_document(encoder, text, size);
    CE_ASSERT(made->count == count);
    CE_ASSERT(count == 0 || memcmp(first, made->ids, (size_t)count * sizeof *first) == 0);
    CE_ASSERT(ce_tokenizer_cut(tokenizer, text, size) <= size);
    ce_text decoded = { 0 };
    ce_tokenizer_decode(tokenizer, first, count, false, &decoded);
    ce_unicode_free(&decoded);
    free(first);
}

/* Returns the tokenizer, or NULL if the text is refused. */
static ce_tokenizer *open_text(const char *json, size_t size)
{
    json_t *root = ce_json_strict(json, size);
    ce_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    CE_ASSERT(tokenizer);
    bool opened = root && ce_tokenfile_read(tokenizer, root) == CS_OK;
    json_decref(root);
    if (opened) {
        ce_tokenizer_finish(tokenizer);
        return tokenizer;
    }
    CE_ASSERT(*cs_error());
    ce_tokenizer_close(tokenizer);
    return NULL;
}

/* Encodes with one of the two tokenizers of this file, which is opened once. */
static void try_known(const char *text, size_t size)
{
    static const char *const files[2] = { small, steps };
    static ce_tokenizer *tokenizers[2];
    static ce_encoder *encoders[2];
    size_t chosen = size % 2;
    if (!tokenizers[chosen]) {
        tokenizers[chosen] = open_text(files[chosen], strlen(files[chosen]));
        CE_ASSERT(tokenizers[chosen]);
        encoders[chosen] = ce_encoder_open(tokenizers[chosen]);
    }
    encode(tokenizers[chosen], encoders[chosen], text, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data, *split = memchr(bytes, 0, size);
    size_t length = split ? (size_t)(split - bytes) : size;
    ce_tokenizer *tokenizer = open_text(bytes, length);
    if (tokenizer) {
        ce_encoder *encoder = ce_encoder_open(tokenizer);
        encode(tokenizer, encoder, split ? split : bytes, size - (split ? length : 0));
        ce_encoder_close(encoder);
        ce_tokenizer_close(tokenizer);
    }
    try_known(bytes, size);
    return 0;
}
