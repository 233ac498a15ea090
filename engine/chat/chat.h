/* chat.h - renders conversations with a chat template, and marks the bytes of the assistant's answers, from which the
 * model learns.
 *
 * A template is a Jinja program: the tokenizer's own, or one of the built-in ones (templates.h). The template gets the
 * variables that transformers' apply_chat_template passes: messages, tools, documents, add_generation_prompt,
 * bos_token, eos_token. */
#ifndef CE_CHAT_CHAT_H
#define CE_CHAT_CHAT_H

#include "json/json.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

/* A template, opened for one tokenizer. Threads may share a ce_chat. */
typedef struct ce_chat ce_chat;

/* Opens a template. `name` is the name of a built-in template (the key cspeed.data.template lists the names), a file
 * whose name ends with ".jinja", or "auto" for the tokenizer's chat_template ("auto:NAME" for the one of this name). In the template, strftime_now gives the
 * time of this call, or the time SOURCE_DATE_EPOCH if that is set. Returns CS_BAD_CONFIG if there is no such template,
 * if the template of a file or of the tokenizer does not compile, or if a built-in template has control words that the
 * tokenizer lacks. Returns CS_NOT_FOUND or CS_IO_ERROR if a file cannot be read. The tokenizer must stay open until
 * ce_chat_close. */
cs_status ce_chat_open(ce_chat **chat, const char *name, const ce_tokenizer *tokenizer);
void ce_chat_close(ce_chat *chat); /* frees the template; `chat` may be NULL */

bool ce_chat_is_file(const char *name); /* returns true if this name of a template is the name of a file */

/* Returns true if the message is from the assistant: its "role" is "assistant", or its "from" is "gpt". */
bool ce_chat_is_answer(const json_t *message);
/* The keys that say whether an answer, or a row, is learnt. */
#define CE_CHAT_WISHES(KEY)                                                                                            \
    KEY("loss") KEY("train") KEY("training") KEY("weight") KEY("trainable") KEY("learn") KEY("loss_weight")
/* Returns the key of the message that says that it is not learnt, such as "train" with the value false, or NULL. */
const char *ce_chat_unlearnt(const json_t *message);

typedef struct {
    int64_t from, to;
} ce_chat_span;

typedef struct {
    ce_chat_span *list;
    int64_t count, capacity;
} ce_chat_spans;

typedef struct {
    ce_text text;          /* the samples of a conversation, one after the other */
    ce_chat_spans samples; /* each sample, as a byte range of `text` */
    ce_chat_spans answers; /* the answers, as byte ranges of `text`; the model learns only these ranges */
} ce_chat_lines;

/* Which samples a conversation becomes (cspeed.data.turns). AUTO: one sample with all answers, or, if the template
 * writes earlier messages differently when others follow, one sample for each answer: the messages up to this answer,
 * as the template writes them then. ALL: always one sample for each answer. LAST: one sample, for the last answer. */
typedef enum { CE_TURNS_AUTO, CE_TURNS_ALL, CE_TURNS_LAST } ce_chat_turns;

/* Writes a conversation: {"messages": [{"role": "user", "content": "..."}, ...], "tools": [...]}, or "conversations"
 * with a list of {"from": "human", "value": "..."}. messages.h says which messages are known. Replaces the previous
 * contents of `lines`. Answers are the parts that the template's {% generation %} blocks write. If the template has no
 * such blocks, each answer is found by writing two beginnings of the conversation: the messages before the answer, and
 * the messages up to the answer. Returns CS_UNSUPPORTED if an answer cannot be found in this way. Returns CS_NOT_FOUND if
 * the conversation has no answer that is learnt, and CS_BAD_FILE if it is malformed. */
cs_status ce_chat_write(ce_chat *chat, const json_t *document, ce_chat_turns turns, ce_chat_lines *lines);
/* Appends the text that the template writes for a list of messages, without looking for answers. If `asks` is true, the
 * text ends with the prompt for the next answer. Everything but the messages is read from `document`. Adds what the
 * template does not read to the object `unread`. */
cs_status ce_chat_messages(ce_chat *chat, const json_t *document, const json_t *list, bool asks, json_t *unread,
                           ce_text *to);
/* Counts a row, with the keys of `unread`, for ce_chat_report. */
void ce_chat_note(ce_chat *chat, json_t *unread);
/* Writes a conversation for generation, in the forms that ce_chat_write reads. The text ends with the prompt for the
 * next answer, which the conversation does not contain yet. Replaces the previous contents of `to`. */
cs_status ce_chat_prompt(ce_chat *chat, const json_t *document, ce_text *to);
/* Logs what the conversations had and the template did not read, and how many conversations became one sample for each
 * answer; then counts anew. */
void ce_chat_report(ce_chat *chat);
/* Sets *text to the NUL-terminated text with which the template ends an answer; this text may be several tokens. If the
 * template does not give such a text, sets *text to "". */
void ce_chat_stop(ce_chat *chat, ce_text *text);
/* Returns what an export needs of a template: {"template": its text unless it is the tokenizer's own, "ends": the ids of the tokens that end an answer}.
 * Returns NULL if `name` is NULL, or if the template or the tokenizer `path` (NULL: bytes) cannot be opened. */
json_t *ce_chat_record(const char *name, const char *path);
void ce_chat_lines_free(ce_chat_lines *lines);

#endif
