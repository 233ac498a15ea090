/* pair.h - reads one line of preference data: a prompt with a chosen and a rejected answer.
 *
 * A line is {"prompt": ..., "chosen": ..., "rejected": ...}. All three are texts, or all are lists of messages, which a
 * chat template writes (as TRL's DPOTrainer does). If there is no "prompt", or if it is a text and the answers are
 * lists of messages, each answer includes the prompt, which is the beginning that the answers have in common. */
#ifndef CS_DATA_PAIR_H
#define CS_DATA_PAIR_H

#include "chat/chat.h"

enum { CS_PAIR_ANSWERS = 2 };

typedef struct {
    ce_text prompt;           /* text before an answer, including the template's text that asks for an answer */
    ce_text chosen, rejected; /* the whole texts: prompt, answer and, at the end, the text of the end token */
    bool rendered;            /* True if a template has formatted the texts. Then no tokens are added around them. */
} ce_pair;

/* Reads a pair from `document` and replaces the contents of *pair. `chat` is NULL if there is no template. `end` is the
 * text of the end token. It is appended to each answer that is a text and does not end with it. If `end` is NULL,
 * nothing is appended. */
cs_status ce_pair_read(ce_pair *pair, const ce_chat *chat, const char *end, const json_t *document);
void ce_pair_free(ce_pair *pair);

/* The keys that ce_pair_read looks at; the last element is NULL. */
extern const char *const ce_pair_names[];

#endif
