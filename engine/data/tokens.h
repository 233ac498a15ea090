/* tokens.h - token shards on disk: reading (mapped) and writing.
 *
 * Little-endian header of 64 bytes: magic "CSTOKENS", u32 version 1, u32 bytes a token (2 or 4), u64 vocabulary size, u64 token count, u64
 * document count, u64 byte offset of the document index (u64 starts), 16 bytes zero; then the tokens; then the index. llm.c's (magic
 * 20240520, versions 1 and 7) and nanoGPT's (raw u16, by .bin without a magic) files are read as they are. */
#ifndef CS_DATA_TOKENS_H
#define CS_DATA_TOKENS_H

#include "base/status.h"

typedef struct {
    const void *tokens;
    int         token_bytes; /* 2 or 4 */
    int64_t     count, vocab_size /* 0: not said */, documents;
    void       *mapping;
    size_t      mapping_bytes;
} cs_tokens;

cs_status cs_tokens_open(cs_tokens *tokens, const char *path);
void      cs_tokens_close(cs_tokens *tokens);

typedef struct cs_tokens_writer cs_tokens_writer;
/* Writes to a temporary name beside `path`; cs_tokens_finish makes it appear whole. */
cs_status cs_tokens_create(cs_tokens_writer **writer, const char *path, int64_t vocab_size);
cs_status cs_tokens_append(cs_tokens_writer *writer, const int32_t *tokens, int64_t count);
cs_status cs_tokens_document(cs_tokens_writer *writer); /* the next token begins a document */
cs_status cs_tokens_finish(cs_tokens_writer *writer);   /* frees the writer in any case */
void      cs_tokens_abandon(cs_tokens_writer *writer);  /* removes the temporary file */

#endif
