/* template.h - a chat template that is open: the programs it consists of, and what it has not read. */
#ifndef CE_CHAT_TEMPLATE_H
#define CE_CHAT_TEMPLATE_H

#include "chat/chat.h"
#include "chat/messages.h"
#include "jinja/jinja.h"

#include <pthread.h>

typedef struct {
    ce_jinja *compiled; /* NULL if there is no such program */
    char *source;
    bool parts; /* true if the program writes a content that is a list of parts */
} ce_template;

struct ce_chat {
    const char *name;         /* name of a built-in template; NULL if it comes from the tokenizer or from a file */
    ce_template plain, tools; /* `tools` writes conversations with tools, if there is such a program */
    const ce_tokenizer *tokenizer;
    time_t now;
    pthread_mutex_t lock;
    int64_t parted, samples; /* conversations that became one sample for each answer, and these samples */
    json_t *unread; /* for each key or variable that no program reads: in how many conversations it was given */
};

/* Renders the first `count` messages. */
cs_status ce_template_render(const ce_chat *chat, const ce_messages *messages, size_t count, bool prompt,
                             ce_jinja_output *output);
/* Adds the keys of messages and the variables that the template does not read to the object `unread`. */
void ce_template_unread(const ce_chat *chat, const ce_messages *messages, json_t *unread);
/* Counts a conversation that became `samples` samples, one for each answer. */
void ce_template_count(ce_chat *chat, int64_t samples);
/* Returns the program that writes a document. */
const ce_template *ce_template_for(const ce_chat *chat, const json_t *tools);

#endif
