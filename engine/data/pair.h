/* pair.h - reads one line of preference data: a prompt with a chosen and a rejected answer.
 *
 * {"prompt": ..., "chosen": ..., "rejected": ...}. All three are texts, or all are lists of messages, which a chat
 * template writes (as TRL's DPOTrainer does). Without "prompt", or if it is a text and the answers are lists of
 * messages, both answers begin with the prompt, which is the beginning that they have in common. */
#ifndef CS_DATA_PAIR_H
#define CS_DATA_PAIR_H

#include "chat/chat.h"

enum { CS_PAIR_ANSWERS = 2 };

typedef struct {
    ce_text prompt;           /* the text before an answer, with what a template writes to ask for an answer */
    ce_text chosen, rejected; /* each is the prompt, the answer, and the token that ends a text */
    bool rendered;            /* written by a template, so no tokens are added around the text */
} ce_pair;

/* Replaces the contents of *pair. `chat` NULL: there is no template. `end`: the text of the token that is appended to
 * answers that are texts and do not end with it; NULL: none. */
cs_status ce_pair_read(ce_pair *pair, const ce_chat *chat, const char *end, const json_t *document);
void ce_pair_free(ce_pair *pair);

/* The keys that ce_pair_read looks at, ended by NULL. */
extern const char *const ce_pair_names[];

#endif
