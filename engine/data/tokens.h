/* tokens.h - token shard files: reads them by memory mapping, and writes them.
 *
 * The format is little-endian. The header of 64 bytes has: magic "CSTOKENS", u32 version 1, u32 bytes of a token (2 or
 * 4), u64 vocabulary size, u64 token count, u64 document count, u64 byte offset of the document index, u64 byte offset
 * of the mask (0 if there is no mask), and at the end 8 zero bytes. The tokens follow the header. The document index
 * begins at the next multiple of 8 bytes; it has the u64 position of the first token of each document, in ascending
 * order. The mask follows directly: one bit for each token, lowest bit of a byte first, padded with zeros to a multiple
 * of 8 bytes. The file ends there. A token whose bit is 0 is an input but not a target. If there is no mask, all tokens
 * are targets.
 *
 * Two other formats can be read. Files of llm.c have a header of 256 i32: magic 20240520 or 20240801, version 1 for u16
 * tokens or 7 for u32 tokens, and the count. Files of nanoGPT have u16 tokens without a header. A .bin file that begins
 * with no known magic number is read as a file of nanoGPT. */
#ifndef CE_DATA_TOKENS_H
#define CE_DATA_TOKENS_H

#include "base/range.h"
#include "base/status.h"

#include <sys/stat.h>

typedef struct {
    const void *tokens; /* `count` tokens, each of which has token_bytes bytes */
    int token_bytes;    /* 2 or 4 */
    /* number of tokens, size of the vocabulary, number of documents; the last two are 0 if they are unknown */
    int64_t count, vocab_size, documents;
    /* position of the first token of each document; `documents` elements; NULL in a file without an index */
    const uint64_t *starts;
    const unsigned char *learnt; /* one bit for each token, or NULL if all tokens are targets */
    void *mapping;
    size_t mapping_bytes;
    struct stat *file; /* what was known of the file when it was mapped, or at the last warning of ce_tokens_watch */
} ce_tokens;

/* Maps the file, and checks the counts and offsets in the header against the size of the file. Returns CS_NOT_FOUND,
 * CS_BAD_FILE or CS_IO_ERROR, with a message that names the file and the field. The tokens themselves are not
 * checked. */
cs_status ce_tokens_open(ce_tokens *tokens, const char *path);
void ce_tokens_close(ce_tokens *tokens); /* accepts `tokens` that are closed already, or zeroed */

/* Looks whether the file is as it was when it was mapped. If it was cut, ends the process with a message that names it,
 * before a read of the mapping ends it by SIGBUS. If it was modified, prints a warning. A file that was replaced or
 * removed does no harm, because the mapping keeps the old one. */
void ce_tokens_watch(const ce_tokens *tokens, const char *path);

/* Reads the whole shard. Returns the position of the first token that is greater than or equal to `limit`, or `count`
 * if there is no such token. */
int64_t ce_tokens_find_above(const ce_tokens *tokens, int64_t limit);
int64_t ce_tokens_at(const ce_tokens *tokens, int64_t position);
bool ce_tokens_is_learnt(const ce_tokens *tokens, int64_t position);
int64_t ce_tokens_targets(const ce_tokens *tokens, ce_range of);     /* Returns the number of targets in a range. */
ce_range ce_tokens_range(const ce_tokens *tokens, int64_t document); /* Returns the positions of a document. */

typedef struct ce_tokens_writer ce_tokens_writer;
/* Creates a shard under the name PATH.tmp, which is locked, so that a killed process leaves nothing that the next one
 * does not replace. CS_IO_ERROR: another process writes it. When the shard is complete, ce_tokens_finish renames it to
 * `path`. Tokens have two bytes if the vocabulary size is at most 65536, otherwise four bytes. */
cs_status ce_tokens_create(ce_tokens_writer **writer, const char *path, int64_t vocab_size);
/* Appends tokens. learnt[i] is false for a token that is not a target of training. If `learnt` is NULL, all tokens are
 * targets. */
cs_status ce_tokens_append_masked(ce_tokens_writer *writer, const int32_t *tokens, const bool *learnt, int64_t count);
void ce_tokens_document(ce_tokens_writer *writer);    /* Marks the next token as the first of a document. */
cs_status ce_tokens_finish(ce_tokens_writer *writer); /* Completes the file, and frees the writer, also on failure. */
/* Removes the temporary file, and frees the writer; accepts NULL. */
void ce_tokens_abandon(ce_tokens_writer *writer);
void ce_tokens_remove_temporary(const char *path); /* removes what a killed process has left of the shard `path` */

#endif
