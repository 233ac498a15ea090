/* messages.h - the variables of a chat template: the messages of a conversation, its tools, documents and settings.
 *
 * The messages are as transformers 5.24 gives them to a template. */
#ifndef CE_CHAT_MESSAGES_H
#define CE_CHAT_MESSAGES_H

#include "json/json.h"

typedef struct {
    json_t *list;      /* the messages: {"role", "content", ...} */
    json_t *variables; /* tools, documents, and what the row's chat_template_kwargs say */
    bool more;         /* true if chat_template_kwargs say something */
    bool *learnt;      /* for each message: true if it is an answer that the model learns */
    size_t count;
} ce_messages;

/* Reads the messages `list` of `document`. A key whose value is null counts as missing. "from" and "value" become
 * "role" and "content". A content is a text; parts of type "text" are joined, or stay a list if `parts` is true (for a
 * document with tools: `tool_parts`).
 * "reasoning_content", "thinking" and "reasoning" fill one another. The keys of CE_CHAT_WISHES say whether an answer is
 * learnt; the template does not get them. Returns CS_BAD_FILE or CS_UNSUPPORTED if a message has
 * no role, a content that is no text, or a key that asks for something else; the error names message and role. */
cs_status ce_messages_open(ce_messages *messages, const json_t *document, const json_t *list, bool parts,
                           bool tool_parts);
void ce_messages_close(ce_messages *messages);

/* The names under which a message may have its reasoning; the last element is NULL. */
extern const char *const ce_messages_reasoning[];

/* Appends the roles of a list of messages to a sentence: `the roles here are "user" and "bot"`. */
const char *ce_messages_roles(const json_t *list, char *text, size_t capacity);

#endif
