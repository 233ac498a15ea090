/* added.h - the tokens that the files beside the vocabulary add to a tokenizer. */
#ifndef CE_TEXT_ADDED_H
#define CE_TEXT_ADDED_H

#include "json/json.h"
#include "text/tokenizer.h"

/* The files of a tokenizer's folder that lie beside its vocabulary; a member is NULL if the folder lacks the file. */
typedef struct {
    json_t *config;     /* tokenizer_config.json */
    json_t *map;        /* special_tokens_map.json */
    json_t *tokens;     /* added_tokens.json */
    json_t *generation; /* generation_config.json */
    json_t *model;      /* config.json */
} ce_added_files;

/* Adds the tokens that the files list or name, and sets the texts of bos_token and eos_token, all as transformers 5
 * does. To be called after the vocabulary is read. Returns CS_BAD_FILE if two files disagree about the id of a token, or
 * if a token is named and no file defines it. */
cs_status ce_added_read(ce_tokenizer *tokenizer, const ce_added_files *files);

/* Puts the tokens before and behind a text that add_bos_token and add_eos_token ask for. To be called for a vocabulary
 * without a post_processor. */
void ce_added_around(ce_tokenizer *tokenizer, const json_t *config);

#endif
