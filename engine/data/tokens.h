/* tokens.h - token shards on disk: reading (mapped) and writing.
 *
 * Little-endian header of 64 bytes: magic "CSTOKENS", u32 version 1, u32 bytes a token (2 or 4), u64 vocabulary size,
 * u64 token count, u64 document count, u64 byte offset of the document index, u64 byte offset of the mask or 0, 8 bytes
 * zero; then the tokens; then, at the next multiple of 8, the index: the u64 position of each document's first token,
 * ascending; then, right behind it, the mask: a bit a token, the lowest of a byte first, padded with zeros to a
 * multiple of 8 bytes; and nothing more. A token whose bit is 0 is read, and not learnt. Without a mask all are learnt.
 *
 * Read as they are: llm.c's files (256 i32 of header: magic 20240520 or 20240801, version 1 for u16 tokens or 7 for
 * u32, count) and nanoGPT's (u16 and nothing else; a name in .bin without a magic). */
#ifndef CS_DATA_TOKENS_H
#define CS_DATA_TOKENS_H

#include "base/status.h"

typedef struct {
    const void *tokens; /* (count) of token_bytes each */
    int token_bytes;    /* 2 or 4 */
    int64_t count, vocab_size /* 0: not said */, documents /* 0: not said */;
    const uint64_t *starts;      /* (documents) */
    const unsigned char *learnt; /* a bit a token; NULL: all */
    void *mapping;
    size_t mapping_bytes;
} cs_tokens;

/* Maps the file and checks its header against its size. CS_NOT_FOUND, CS_BAD_FILE or CS_IO_ERROR name the file and
 * the field. The tokens themselves are not looked at. */
cs_status cs_tokens_open(cs_tokens *tokens, const char *path);
void cs_tokens_close(cs_tokens *tokens); /* accepts a closed and a zeroed one */

/* The position of the first token at or above `limit`; `count` when there is none. Reads the whole shard. */
int64_t cs_tokens_find_above(const cs_tokens *tokens, int64_t limit);
int64_t cs_tokens_at(const cs_tokens *tokens, int64_t position);
bool cs_tokens_is_learnt(const cs_tokens *tokens, int64_t position);

typedef struct cs_tokens_writer cs_tokens_writer;
/* Writes to a temporary name beside `path`; cs_tokens_finish makes it appear whole. Vocabularies up to 65536 take two
 * bytes a token, larger ones four. */
cs_status cs_tokens_create(cs_tokens_writer **writer, const char *path, int64_t vocab_size);
/* Appends tokens. learnt[i] is false for a token that is not a target of training; learnt NULL: all are targets. */
cs_status cs_tokens_append_masked(cs_tokens_writer *writer, const int32_t *tokens, const bool *learnt, int64_t count);
cs_status cs_tokens_document(cs_tokens_writer *writer); /* the next token begins a document */
cs_status cs_tokens_finish(cs_tokens_writer *writer);   /* frees the writer in any case */
void cs_tokens_abandon(cs_tokens_writer *writer);       /* removes the temporary file; accepts NULL */

#endif
