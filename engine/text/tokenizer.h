/* tokenizer.h - converts text to tokens and back: bytes as tokens, or BPE in Hugging Face's and SentencePiece's file
 * formats.
 *
 *     CE_TRY(ce_tokenizer_open(&tokenizer, "folder"));
 *     encoder = ce_encoder_open(tokenizer);
 *     encoded = ce_encoder_document(encoder, text, length);     tokens: encoded->ids[0 .. encoded->count)
 *     piece   = ce_tokenizer_piece(tokenizer, id, &size);       text: the concatenation of all pieces
 *
 * A tokenizer is read-only after it is opened and may be shared by threads; each thread needs its own encoder. */
#ifndef CE_TEXT_TOKENIZER_H
#define CE_TEXT_TOKENIZER_H

#include "base/names.h"
#include "base/status.h"
#include "text/unicode.h"

typedef struct ce_tokenizer ce_tokenizer;

/* Opens a tokenizer. `path` is a folder with tokenizer.json, with vocab.json and merges.txt, or with tokenizer.model;
 * or it is the path of a tokenizer.json, or of a SentencePiece file, whose name ends in ".model". If `path` is NULL,
 * the 256 bytes are the tokens. Returns CS_NOT_FOUND, CS_BAD_FILE or CS_UNSUPPORTED. With CS_UNSUPPORTED, cs_error()
 * names the part that is not supported. */
cs_status ce_tokenizer_open(ce_tokenizer **tokenizer, const char *path);
void ce_tokenizer_close(ce_tokenizer *tokenizer); /* accepts NULL */

int64_t ce_tokenizer_size(const ce_tokenizer *tokenizer); /* Returns a number that is greater than every id. */
/* Returns the id of a token such as "<|endoftext|>", or -1 if there is none. */
int32_t ce_tokenizer_find(const ce_tokenizer *tokenizer, const char *token);
/* Returns the token that ends a document, or -1 if there is none. */
int32_t ce_tokenizer_end(const ce_tokenizer *tokenizer);

/* Returns the bytes that a token stands for in the middle of a text. They are not NUL-terminated, and may be a part of
 * a character. *size is 0 if no token has the id. */
const char *ce_tokenizer_piece(const ce_tokenizer *tokenizer, int32_t id, size_t *size);
/* Appends the text of tokens that are a whole text, as the library that defines the tokenizer does. Special tokens are
 * left out unless `with_specials` is true. Bytes that are not UTF-8 become U+FFFD. */
void ce_tokenizer_decode(const ce_tokenizer *tokenizer, const int32_t *ids, int64_t count, bool with_specials,
                         ce_text *to);
bool ce_tokenizer_is_special(const ce_tokenizer *tokenizer, int32_t id);

/* The next three functions return values from the files beside tokenizer.json, or NULL if the files do not have
 * them. */
/* the Jinja text of a chat template; its name is "default", or that of one of several templates */
const char *ce_tokenizer_template(const ce_tokenizer *tokenizer, const char *name);
const char *ce_tokenizer_begin_text(const ce_tokenizer *tokenizer);          /* text of bos_token */
const char *ce_tokenizer_end_text(const ce_tokenizer *tokenizer);            /* text of eos_token */
void ce_tokenizer_templates(const ce_tokenizer *tokenizer, ce_names *names); /* adds the names of all templates */

/* Sets *text to the template "default" of a tokenizer's folder, which the caller frees, or to NULL if it has none. */
cs_status ce_tokenizer_template_of(char **text, const char *folder);

/* Returns the largest offset up to `size` at which a long text may be cut without changing its tokens. Such an offset
 * is the beginning of a line that begins with a letter and whose preceding line ends in a letter or digit. Returns 0 if
 * there is none, or if this tokenizer does not allow cuts. */
size_t ce_tokenizer_cut(const ce_tokenizer *tokenizer, const char *text, size_t size);

#endif
