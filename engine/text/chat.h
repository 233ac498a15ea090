/* chat.h - writes conversations as a model's chat template does, and marks which bytes are answers to learn.
 *
 * Templates are programs (Jinja), which are not run here. Instead there is a list of known shapes; a tokenizer's
 * template is handled if text/templates_known.h says that it writes the same text as one of them. */
#ifndef CS_TEXT_CHAT_H
#define CS_TEXT_CHAT_H

#include "base/json.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

typedef struct ce_chat_shape ce_chat_shape;

/* Finds the shape named `name` (cspeed.data.template lists the names), or with "auto" the one that the tokenizer's
 * chat_template corresponds to; CS_BAD_CONFIG if it corresponds to none. A shape with control words that the tokenizer
 * lacks is refused. */
cs_status ce_chat_find(const ce_chat_shape **shape, const char *name, const ce_tokenizer *tokenizer);

typedef struct {
    int64_t from, to;
} ce_chat_span;

typedef struct {
    ce_text text;
    ce_chat_span *answers; /* (count) byte ranges of the text that are learnt */
    int64_t count, room;
} ce_chat_lines;

/* Writes a conversation: {"messages": [{"role": "user", "content": "..."}, ...]}, or "conversations" with a list of
 * {"from": "human", "value": "..."}. Replaces the previous contents of `lines`. */
cs_status ce_chat_write(const ce_chat_shape *shape, const ce_tokenizer *tokenizer, const json_t *document,
                        ce_chat_lines *lines);
/* The same for generation: the text ends where the next answer, which the conversation does not contain yet, begins. */
cs_status ce_chat_prompt(const ce_chat_shape *shape, const ce_tokenizer *tokenizer, const json_t *document,
                         ce_chat_lines *lines);
/* Sets *text to the NUL-terminated text that ends an answer; it is one token or several. */
void ce_chat_stop(const ce_chat_shape *shape, const ce_tokenizer *tokenizer, ce_text *text);
void ce_chat_free(ce_chat_lines *lines);

#endif
