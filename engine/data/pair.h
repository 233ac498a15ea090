/* pair.h - reads one line of preference data: a prompt with a chosen and a rejected answer.
 *
 * A line is {"prompt": ..., "chosen": ..., "rejected": ...}. The answers are two texts, or two lists of messages, which
 * a chat template formats (as in TRL's DPOTrainer). If the prompt is of the same form as the answers, it stands before
 * both answers. If there is no prompt, each answer includes the prompt: the prompt is the beginning that the answers
 * have in common. The same holds if the answers are lists of messages and the prompt is a text; this text is
 * ignored. */
#ifndef CE_DATA_PAIR_H
#define CE_DATA_PAIR_H

#include "chat/chat.h"
#include "data/columns.h"

enum { CE_PAIR_ANSWERS = 2 };

typedef struct {
    ce_text prompt;           /* the prompt; if a template formats it, it ends with the text that asks for an answer */
    ce_text chosen, rejected; /* the whole texts: prompt, answer and, at the end, the text of the end token */
    /* True if a template has formatted the texts. Then the tokenizer's post_processor adds no tokens to them. */
    bool rendered;
    /* True if the row has a prompt and both answers begin with it, so that it is written twice (as TRL does). */
    bool repeated;
    ce_columns_used used;
} ce_pair;

/* Reads a pair from `document` and replaces the contents of *pair. `chat` is NULL if there is no template. `end` is the
 * text of the end token. `end` is appended to each answer that is a text, unless the answer already ends with `end`. If
 * `end` is NULL, nothing is appended. */
cs_status ce_pair_read(ce_pair *pair, ce_chat *chat, const char *end, const json_t *document);
void ce_pair_free(ce_pair *pair);

/* Fills a list with all keys that ce_pair_read may look at. The last element is NULL. */
enum { CE_PAIR_NAMES = 20 };
void ce_pair_names(const char *names[CE_PAIR_NAMES]);

#endif
