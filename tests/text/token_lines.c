/* token_lines.c - encodes and decodes texts for tokenizers_same.py.
 *
 * token_lines TOKENIZER text|document [ROUNDS] <TEXTS >TOKENS
 *
 * TEXTS is a sequence of texts, each after its length in bytes (32 bits, little-endian). TOKENS has for each text the
 * number of its tokens, the tokens, the length of the text that they are decoded to, and that text. `document` adds the
 * tokens of the post-processor, and decodes without special tokens. The last line of standard error is the time of
 * encoding alone, in seconds, in the fastest of ROUNDS rounds (default: 1). */
#include "base/clock.h"
#include "base/must.h"
#include "text/encoder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_all(size_t *size)
{
    size_t capacity = 1 << 20;
    char *bytes = malloc(capacity);
    CE_ASSERT(bytes);
    *size = 0;
    for (size_t got; (got = fread(bytes + *size, 1, capacity - *size, stdin)) > 0;)
        if ((*size += got) == capacity) {
            bytes = realloc(bytes, capacity *= 2);
            CE_ASSERT(bytes);
        }
    return bytes;
}

static void put(const void *bytes, size_t size)
{
    CE_ASSERT(fwrite(bytes, 1, size, stdout) == size);
}

/* Encodes all texts, and writes tokens and decoded texts if `writes`. Returns the seconds of encoding. */
static double run(const ce_tokenizer *tokenizer, ce_encoder *encoder, const char *texts, size_t size, bool document,
                  bool writes)
{
    double seconds = 0;
    ce_text decoded = { 0 };
    for (size_t at = 0; at + 4 <= size;) {
        uint32_t length;
        memcpy(&length, texts + at, sizeof length);
        at += sizeof length;
        CE_ASSERT(length <= size - at);
        double begin = ce_clock_seconds();
        const ce_encoded *made =
            document ? ce_encoder_document(encoder, texts + at, length) : ce_encoder_text(encoder, texts + at, length);
        seconds += ce_clock_seconds() - begin;
        at += length;
        if (!writes)
            continue;
        decoded.size = 0;
        ce_tokenizer_decode(tokenizer, made->ids, made->count, !document, &decoded);
        put(&(uint32_t){ (uint32_t)made->count }, 4);
        put(made->ids, (size_t)made->count * sizeof *made->ids);
        put(&(uint32_t){ (uint32_t)decoded.size }, 4);
        put(decoded.bytes ? decoded.bytes : "", decoded.size);
    }
    ce_unicode_free(&decoded);
    return seconds;
}

int main(int argc, char **argv)
{
    ce_tokenizer *tokenizer;
    size_t size;
    if (argc < 3 || argc > 4) {
        fprintf(stderr, "token_lines TOKENIZER text|document [ROUNDS]\n");
        return 64;
    }
    CS_MUST(ce_tokenizer_open(&tokenizer, argv[1]));
    bool document = strcmp(argv[2], "document") == 0;
    ce_encoder *encoder = ce_encoder_open(tokenizer);
    char *texts = read_all(&size);
    double best = run(tokenizer, encoder, texts, size, document, true);
    for (int round = 1; argc == 4 && round < atoi(argv[3]); round++) {
        double seconds = run(tokenizer, encoder, texts, size, document, false);
        best = seconds < best ? seconds : best;
    }
    fprintf(stderr, "%.6f\n", best);
    free(texts);
    ce_encoder_close(encoder);
    ce_tokenizer_close(tokenizer);
    return 0;
}
