/* chat.h - conversations written out as a model's chat template has them, and which bytes of that are answers.
 *
 * Templates are programs (Jinja) that are not run here. The shapes below are known, and a tokenizer's template is one of
 * them where text/templates.h knows it to write the same text. */
#ifndef CS_TEXT_CHAT_H
#define CS_TEXT_CHAT_H

#include "base/json.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

typedef struct cs_chat_shape cs_chat_shape;

/* The shape of that name (cspeed.data.template lists them); or "auto": the one that the tokenizer's chat_template is
 * known to be, CS_BAD_CONFIG if it is known to be none. A shape whose words the tokenizer does not have is refused. */
cs_status cs_chat_find(const cs_chat_shape **shape, const char *name, const cs_tokenizer *tokenizer);

typedef struct {
    int64_t from, to;
} cs_chat_span;

typedef struct {
    cs_text text;
    cs_chat_span *answers; /* (count) bytes of the text to learn */
    int64_t count, room;
} cs_chat_lines;

/* {"messages": [{"role": "user", "content": "..."}, ...]}, or "conversations" of {"from": "human", "value": "..."}.
 * Replaces what `lines` held. */
cs_status cs_chat_write(const cs_chat_shape *shape, const cs_tokenizer *tokenizer, const json_t *document,
                        cs_chat_lines *lines);
/* The same up to where the next answer begins, which is no message of it yet. */
cs_status cs_chat_prompt(const cs_chat_shape *shape, const cs_tokenizer *tokenizer, const json_t *document,
                         cs_chat_lines *lines);
/* What stands behind an answer, with a NUL: the text of one token, or of several. */
void cs_chat_stop(const cs_chat_shape *shape, const cs_tokenizer *tokenizer, cs_text *text);
void cs_chat_free(cs_chat_lines *lines);

#endif
