/* words.h - the rules by which text is divided into words before BPE: llama.cpp's names for them (tokenizer.ggml.pre), and
 * the parts of a tokenizer.json that say the same. */
#ifndef CE_GGUF_WORDS_H
#define CE_GGUF_WORDS_H

#include "json/json.h"

/* llama.cpp's types of tokens (tokenizer.ggml.token_type) */
enum {
    CE_TOKEN_NORMAL = 1,
    CE_TOKEN_UNKNOWN,
    CE_TOKEN_CONTROL,
    CE_TOKEN_USER,
    CE_TOKEN_UNUSED,
    CE_TOKEN_BYTE,
};

/* Returns llama.cpp's name of the rule of a tokenizer.json, whose pieces are bytes, or NULL if it has none. */
const char *ce_gguf_words_name(const json_t *tokenizer);
/* Sets "pre_tokenizer", "normalizer" and, in "model", "ignore_merges" of a tokenizer.json to the rule of this name.
 * Returns CS_UNSUPPORTED if the rule is not known. */
cs_status ce_gguf_words_set(json_t *tokenizer, const char *name, const char *path);

/* Returns true if llama.cpp puts the begin token before a text divided by the rule of this name, unless the file says
 * otherwise. */
bool ce_gguf_words_begin(const char *name);

/* Returns the first part of this type in a pre-tokenizer, normalizer or post-processor, or NULL. `list` is the name of its
 * list of parts. */
const json_t *ce_gguf_words_part(const json_t *all, const char *list, const char *type);

#endif
