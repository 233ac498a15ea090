/* chat.h - writes conversations as a chat template does, and marks which bytes are answers to learn.
 *
 * A template is a Jinja program: the tokenizer's own, or one of the built-in ones (templates.h). It sees what
 * transformers' apply_chat_template passes: messages, tools, documents, add_generation_prompt, bos_token, eos_token. */
#ifndef CS_CHAT_CHAT_H
#define CS_CHAT_CHAT_H

#include "base/json.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

typedef struct ce_chat ce_chat; /* a template for one tokenizer; immutable, so threads may share it */

/* Opens the template named `name` (cspeed.data.template lists the names), that of the file `name` if it ends with
 * ".jinja", or with "auto" the tokenizer's chat_template. strftime_now gives the time at which the template was opened,
 * or that of SOURCE_DATE_EPOCH. CS_BAD_CONFIG: there is no such template, a file's or the tokenizer's one does not
 * compile, or a built-in one has control words that the tokenizer lacks. CS_NOT_FOUND, CS_IO_ERROR: a file cannot be
 * read. The tokenizer must live longer. */
cs_status ce_chat_open(ce_chat **chat, const char *name, const ce_tokenizer *tokenizer);
void ce_chat_close(ce_chat *chat); /* accepts NULL */

bool ce_chat_is_file(const char *name); /* whether this name of a template is that of a file */

bool ce_chat_is_answer(const json_t *message); /* whether the assistant says it: "role" is assistant, or "from" gpt */

typedef struct {
    int64_t from, to;
} ce_chat_span;

typedef struct {
    ce_text text;
    ce_chat_span *answers; /* (count) byte ranges of the text that are learnt */
    int64_t count, room;
} ce_chat_lines;

/* Writes a conversation: {"messages": [{"role": "user", "content": "..."}, ...], "tools": [...]}, or "conversations"
 * with a list of {"from": "human", "value": "..."}. Replaces the previous contents of `lines`. Answers are what the
 * template's {% generation %} blocks write. Without such blocks, they are found by writing the conversation up to each
 * answer; a template that writes earlier messages differently then is refused. */
cs_status ce_chat_write(const ce_chat *chat, const json_t *document, ce_chat_lines *lines);
/* The same for generation: the text ends where the next answer, which the conversation does not contain yet, begins. */
cs_status ce_chat_prompt(const ce_chat *chat, const json_t *document, ce_chat_lines *lines);
/* Sets *text to the NUL-terminated text that ends an answer, one token or several; empty if it cannot be found. */
void ce_chat_stop(const ce_chat *chat, ce_text *text);
void ce_chat_lines_free(ce_chat_lines *lines);

#endif
