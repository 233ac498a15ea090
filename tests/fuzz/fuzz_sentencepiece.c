/* fuzz_sentencepiece.c - reads any bytes as a tokenizer.model: it is refused with a message or opened, without a crash.
 * An opened tokenizer encodes any text to tokens of its vocabulary, and decodes them. A small model, whose last part is
 * replaced by the input, is read too. The text is the last TEXT bytes of the input. */
#include "base/must.h"
#include "text/encoder.h"
#include "text/parts.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Pieces <unk> (unknown), <s> (control), a, b, U+2581, ab and "bb" (user-defined), and a trainer_spec of type BPE. */
static const char small[] = "\x0a\x09\x0a\x05<unk>\x18\x02"
                            "\x0a\x07\x0a\x03<s>\x18\x03"
                            "\x0a\x08\x0a\x01"
                            "a\x15\x00\x00\x80\xc0"
                            "\x0a\x08\x0a\x01"
                            "b\x15\x00\x00\x80\xc0"
                            "\x0a\x0a\x0a\x03\xe2\x96\x81\x15\x00\x00\x80\xc0"
                            "\x0a\x09\x0a\x02"
                            "ab\x15\x00\x00\x80\xbf"
                            "\x0a\x06\x0a\x02"
                            "bb\x18\x04"
                            "\x12\x02\x18\x02";

static void use(const ce_tokenizer *tokenizer, const char *text, size_t size)
{
    ce_encoder *encoder = ce_encoder_open(tokenizer);
    const ce_encoded *made = ce_encoder_document(encoder, text, size);
    ce_text decoded = { 0 };
    for (int64_t i = 0; i < made->count; i++)
        CE_ASSERT(made->ids[i] >= 0 && made->ids[i] < ce_tokenizer_size(tokenizer) && made->starts[i] >= 0);
    ce_tokenizer_decode(tokenizer, made->ids, made->count, true, &decoded);
    CE_ASSERT(decoded.size == 0 || ce_unicode_valid(decoded.bytes, decoded.size) == decoded.size);
    CE_ASSERT(ce_tokenizer_cut(tokenizer, text, size) <= size);
    ce_unicode_free(&decoded);
    ce_encoder_close(encoder);
}

static void try_file(const char *bytes, size_t size, const char *text, size_t length)
{
    ce_tokenizer *tokenizer = calloc(1, sizeof *tokenizer);
    CE_ASSERT(tokenizer);
    if (ce_sentencepiece_read(tokenizer, bytes, size, size % 2 ? "LlamaTokenizer" : "TokenizersBackend", NULL) ==
        CS_OK) {
        ce_tokenizer_finish(tokenizer);
        use(tokenizer, text, length);
    } else {
        CE_ASSERT(*cs_error());
    }
    ce_tokenizer_close(tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data, *text = size > TEXT ? bytes + size - TEXT : bytes;
    size_t length = size > TEXT ? TEXT : size;
    char *joined = malloc(sizeof small + size);
    CE_ASSERT(joined);
    memcpy(joined, small, sizeof small - 1);
    memcpy(joined + sizeof small - 1, bytes, size);
    try_file(bytes, size, text, length);
    try_file(small, sizeof small - 1, text, length);
    try_file(joined, sizeof small - 1 + size, text, length);
    free(joined);
    return 0;
}
