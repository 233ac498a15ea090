/* tokenizers.h - the small tokenizers of golden/tokenizer.golden, and what Hugging Face's library makes of texts with
 * them. */
#ifndef CS_TESTS_TOKENIZERS_H
#define CS_TESTS_TOKENIZERS_H

#include "base/json.h"

json_t *tokenizers_golden(void); /* [{"name", "tokenizer", "cases": [{"text", "ids"}]}], to be released */
void tokenizers_write(const char *name, const char *path); /* a tokenizer.json */

json_t *tokenizers_chats(void); /* golden/chat.golden: {"templates", "conversations", "shapes"}, to be released */
/* A tokenizer_config.json; `template`: one of chat.golden's by its name; `begin`: bos_token, or NULL. */
void tokenizers_configure(const char *path, const char *begin, const char *end, const char *template);

#endif
