/* tokenizer.h - text to tokens and back: bytes, or any byte-level BPE of Hugging Face's files.
 *
 *     CS_TRY(cs_tokenizer_open(&tokenizer, "folder"));
 *     encoder = cs_encoder_open(tokenizer);
 *     encoded = cs_encoder_document(encoder, text, length);     tokens: encoded->ids[0 .. encoded->count)
 *     piece   = cs_tokenizer_piece(tokenizer, id, &size);       text again: pieces, one behind another
 *
 * A tokenizer is read-only once it is open and may be shared by threads; an encoder belongs to one. */
#ifndef CS_TEXT_TOKENIZER_H
#define CS_TEXT_TOKENIZER_H

#include "base/status.h"

typedef struct cs_tokenizer cs_tokenizer;

/* `path`: a folder with tokenizer.json, or with vocab.json and merges.txt; or a tokenizer.json. NULL: 256 bytes as they
 * are, nothing else. CS_NOT_FOUND, CS_BAD_FILE, or CS_UNSUPPORTED naming what is not byte-level BPE. */
cs_status cs_tokenizer_open(cs_tokenizer **tokenizer, const char *path);
void cs_tokenizer_close(cs_tokenizer *tokenizer); /* accepts NULL */

int64_t cs_tokenizer_size(const cs_tokenizer *tokenizer);                    /* above every token              */
int32_t cs_tokenizer_find(const cs_tokenizer *tokenizer, const char *token); /* "<|endoftext|>"; -1: none      */
int32_t cs_tokenizer_end(const cs_tokenizer *tokenizer);                     /* what ends a document; -1: none */

/* The bytes of an id, not NUL-terminated and not always whole characters; a hole in the vocabulary has none. */
const char *cs_tokenizer_piece(const cs_tokenizer *tokenizer, int32_t id, size_t *size);
bool cs_tokenizer_is_special(const cs_tokenizer *tokenizer, int32_t id);

/* From the files beside tokenizer.json; NULL where they do not say. */
const char *cs_tokenizer_template(const cs_tokenizer *tokenizer);   /* chat_template, Jinja */
const char *cs_tokenizer_begin_text(const cs_tokenizer *tokenizer); /* bos_token            */
const char *cs_tokenizer_end_text(const cs_tokenizer *tokenizer);   /* eos_token            */

/* Where a long text may be cut, at or before `size`, so that its parts give the tokens that it gives: behind the last
 * line that ends in a letter or digit and is followed by a letter. 0: nowhere, or not with this tokenizer. */
size_t cs_tokenizer_cut(const cs_tokenizer *tokenizer, const char *text, size_t size);

#endif
