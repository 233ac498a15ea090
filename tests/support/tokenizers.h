/* tokenizers.h - small tokenizers for tests, and what Hugging Face's library encodes with them. */
#ifndef CS_TESTS_TOKENIZERS_H
#define CS_TESTS_TOKENIZERS_H

#include "json/json.h"

/* Returns the content of tokenizer.golden: [{"name", "tokenizer", "cases": [{"text", "ids"}]}]. The caller releases
 * it. */
json_t *tokenizers_golden(void);
void tokenizers_write(const char *name, const char *path); /* writes the tokenizer of this name to a tokenizer.json */

/* Returns the content of golden/chat.golden: {"templates", "conversations", "shapes"}. The caller releases it. */
json_t *tokenizers_chats(void);
/* Writes a tokenizer_config.json. `template` is the name of a template in chat.golden; `begin` is the bos_token, or
 * NULL, and `end` the eos_token. */
void tokenizers_configure(const char *path, const char *begin, const char *end, const char *template);

#endif
