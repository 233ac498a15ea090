/* words_read.h - reads the section "pre_tokenizer" of a tokenizer.json. */
#ifndef CE_TEXT_WORDS_READ_H
#define CE_TEXT_WORDS_READ_H

#include "json/json.h"
#include "text/words.h"

/* True if the section has a ByteLevel, so that the model reads bytes, not characters. */
bool ce_words_reads_bytes(const json_t *part);
cs_status ce_words_read(ce_words *words, const json_t *part);

#endif
