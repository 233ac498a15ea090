/* tokens_form.h - the header of a token shard (tokens.h). */
#ifndef CE_DATA_TOKENS_FORM_H
#define CE_DATA_TOKENS_FORM_H

#include <stdint.h>

#define CE_TOKENS_MAGIC "CSTOKENS"
enum { CE_TOKENS_MAX_VOCAB = 0x7fffffff };

typedef struct {
    char magic[8];
    uint32_t version, token_bytes;
    uint64_t vocab_size, count, documents, index_offset, mask_offset, zero;
} ce_tokens_header;
_Static_assert(sizeof(ce_tokens_header) == 64, "the header is 64 bytes without holes");

static inline uint64_t ce_tokens_mask_bytes(const ce_tokens_header *header)
{
    return header->mask_offset ? (header->count + 63) / 64 * 8 : 0;
}

#endif
