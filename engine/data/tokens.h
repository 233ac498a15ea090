/* tokens.h - token shard files: reads them by memory mapping, and writes them.
 *
 * The format is little-endian. The header of 64 bytes has: magic "CSTOKENS", u32 version 1, u32 bytes of a token (2 or
 * 4), u64 vocabulary size, u64 token count, u64 document count, u64 byte offset of the document index, u64 byte offset
 * of the mask or 0, 8 zero bytes. The tokens follow. At the next multiple of 8 follows the document index: the u64
 * position of the first token of each document, ascending. Directly after it follows the mask: one bit for each token,
 * lowest bit of a byte first, padded with zeros to a multiple of 8 bytes. The file ends there. A token whose bit is 0
 * is input but not a target; without a mask all tokens are targets.
 *
 * Two other formats can be read: llm.c's files (256 i32 of header: magic 20240520 or 20240801, version 1 for u16 tokens
 * or 7 for u32, count) and nanoGPT's (u16 tokens without a header; any .bin file without a magic number). */
#ifndef CS_DATA_TOKENS_H
#define CS_DATA_TOKENS_H

#include "base/status.h"

typedef struct {
    const void *tokens; /* (count) tokens of token_bytes bytes each */
    int token_bytes;    /* 2 or 4 */
    int64_t count, vocab_size /* 0: unknown */, documents /* 0: unknown */;
    const uint64_t *starts;      /* (documents) */
    const unsigned char *learnt; /* one bit for each token; NULL: all tokens are targets */
    void *mapping;
    size_t mapping_bytes;
} ce_tokens;

/* Maps the file and checks its header against its size. CS_NOT_FOUND, CS_BAD_FILE and CS_IO_ERROR name the file and the
 * field. The tokens themselves are not checked. */
cs_status ce_tokens_open(ce_tokens *tokens, const char *path);
void ce_tokens_close(ce_tokens *tokens); /* accepts closed and zeroed tokens */

/* Position of the first token that is greater than or equal to `limit`, or `count` if there is none. Reads the whole
 * shard. */
int64_t ce_tokens_find_above(const ce_tokens *tokens, int64_t limit);
int64_t ce_tokens_at(const ce_tokens *tokens, int64_t position);
bool ce_tokens_is_learnt(const ce_tokens *tokens, int64_t position);

typedef struct ce_tokens_writer ce_tokens_writer;
/* Creates a shard under a temporary name beside `path`; ce_tokens_finish renames it when it is complete. Tokens take
 * two bytes for vocabularies up to 65536, four bytes for larger ones. */
cs_status ce_tokens_create(ce_tokens_writer **writer, const char *path, int64_t vocab_size);
/* Appends tokens. learnt[i] is false for a token that is not a target of training; learnt NULL: all are targets. */
cs_status ce_tokens_append_masked(ce_tokens_writer *writer, const int32_t *tokens, const bool *learnt, int64_t count);
cs_status ce_tokens_document(ce_tokens_writer *writer); /* marks the next token as the first of a document */
cs_status ce_tokens_finish(ce_tokens_writer *writer);   /* frees the writer also on failure */
void ce_tokens_abandon(ce_tokens_writer *writer);       /* removes the temporary file; accepts NULL */

#endif
