/* tokenizers.h - small tokenizers for tests, with the results of Hugging Face's library for them. */
#ifndef CS_TESTS_TOKENIZERS_H
#define CS_TESTS_TOKENIZERS_H

#include "base/json.h"

json_t *tokenizers_golden(void); /* [{"name", "tokenizer", "cases": [{"text", "ids"}]}]; the caller releases it */
void tokenizers_write(const char *name, const char *path); /* writes a tokenizer.json */

/* golden/chat.golden: {"templates", "conversations", "shapes"}; the caller releases it */
json_t *tokenizers_chats(void);
/* Writes a tokenizer_config.json. `template` is the name of a template in chat.golden; `begin` is the bos_token, or
 * NULL. */
void tokenizers_configure(const char *path, const char *begin, const char *end, const char *template);

#endif
