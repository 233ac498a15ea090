/* tokenizer.h - converts text to tokens and back: bytes as tokens, or BPE in Hugging Face's and SentencePiece's file
 * formats.
 *
 *     CS_TRY(ce_tokenizer_open(&tokenizer, "folder"));
 *     encoder = ce_encoder_open(tokenizer);
 *     encoded = ce_encoder_document(encoder, text, length);     tokens: encoded->ids[0 .. encoded->count)
 *     piece   = ce_tokenizer_piece(tokenizer, id, &size);       text: the concatenation of all pieces
 *
 * A tokenizer is read-only after it is opened and may be shared by threads; each thread needs its own encoder. */
#ifndef CS_TEXT_TOKENIZER_H
#define CS_TEXT_TOKENIZER_H

#include "base/status.h"
#include "text/unicode.h"

typedef struct ce_tokenizer ce_tokenizer;

/* Opens a tokenizer. `path` is a folder with tokenizer.json, with vocab.json and merges.txt, or with tokenizer.model,
 * or the path of a tokenizer.json or of a SentencePiece file, whose name ends in ".model". NULL: the 256 bytes are the
 * tokens. CS_NOT_FOUND, CS_BAD_FILE, or CS_UNSUPPORTED, which names the part that is not supported. */
cs_status ce_tokenizer_open(ce_tokenizer **tokenizer, const char *path);
void ce_tokenizer_close(ce_tokenizer *tokenizer); /* accepts NULL */

int64_t ce_tokenizer_size(const ce_tokenizer *tokenizer); /* greater than every id */
/* Id of a token such as "<|endoftext|>"; -1: none. */
int32_t ce_tokenizer_find(const ce_tokenizer *tokenizer, const char *token);
int32_t ce_tokenizer_end(const ce_tokenizer *tokenizer); /* token that ends a document; -1: none */

/* The bytes for which an id stands in the middle of a text. They are not NUL-terminated, and may be a part of a
 * character. *size is 0 if no token has the id. */
const char *ce_tokenizer_piece(const ce_tokenizer *tokenizer, int32_t id, size_t *size);
/* Appends the whole text of tokens, as the library that defines the tokenizer does. Special tokens are left out unless
 * `with_specials` is true; bytes that are not UTF-8 become U+FFFD. */
void ce_tokenizer_decode(const ce_tokenizer *tokenizer, const int32_t *ids, int64_t count, bool with_specials,
                         ce_text *to);
bool ce_tokenizer_is_special(const ce_tokenizer *tokenizer, int32_t id);

/* Properties from the files beside tokenizer.json; NULL if the files do not have them. */
const char *ce_tokenizer_template(const ce_tokenizer *tokenizer);   /* chat_template, Jinja */
const char *ce_tokenizer_begin_text(const ce_tokenizer *tokenizer); /* bos_token            */
const char *ce_tokenizer_end_text(const ce_tokenizer *tokenizer);   /* eos_token            */

/* The largest offset up to `size` at which a long text may be cut without changing its tokens: the end of the last line
 * that ends in a letter or digit and is followed by a letter. 0: there is no such place, or this tokenizer does not
 * allow cuts. */
size_t ce_tokenizer_cut(const ce_tokenizer *tokenizer, const char *text, size_t size);

#endif
