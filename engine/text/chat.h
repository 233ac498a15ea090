/* chat.h - writes conversations as a model's chat template does, and marks which bytes are answers to learn.
 *
 * Templates are programs (Jinja), which are not run here. Instead there is a list of known shapes; a tokenizer's
 * template is handled if text/templates_known.h says that it writes the same text as one of them. */
#ifndef CS_TEXT_CHAT_H
#define CS_TEXT_CHAT_H

#include "base/json.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

typedef struct cs_chat_shape cs_chat_shape;

/* Finds the shape named `name` (cspeed.data.template lists the names), or with "auto" the one that the tokenizer's
 * chat_template corresponds to; CS_BAD_CONFIG if it corresponds to none. A shape with control words that the tokenizer
 * lacks is refused. */
cs_status cs_chat_find(const cs_chat_shape **shape, const char *name, const cs_tokenizer *tokenizer);

typedef struct {
    int64_t from, to;
} cs_chat_span;

typedef struct {
    cs_text text;
    cs_chat_span *answers; /* (count) byte ranges of the text that are learnt */
    int64_t count, room;
} cs_chat_lines;

/* Writes a conversation: {"messages": [{"role": "user", "content": "..."}, ...]}, or "conversations" with a list of
 * {"from": "human", "value": "..."}. Replaces the previous contents of `lines`. */
cs_status cs_chat_write(const cs_chat_shape *shape, const cs_tokenizer *tokenizer, const json_t *document,
                        cs_chat_lines *lines);
/* The same for generation: the text ends where the next answer, which the conversation does not contain yet, begins. */
cs_status cs_chat_prompt(const cs_chat_shape *shape, const cs_tokenizer *tokenizer, const json_t *document,
                         cs_chat_lines *lines);
/* Sets *text to the NUL-terminated text that ends an answer; it is one token or several. */
void cs_chat_stop(const cs_chat_shape *shape, const cs_tokenizer *tokenizer, cs_text *text);
void cs_chat_free(cs_chat_lines *lines);

#endif
