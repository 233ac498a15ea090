/* prompts.h - the file of --prompts: JSON lines {"prompt": ...} or conversations, or texts. */
#ifndef GENERATE_PROMPTS_H
#define GENERATE_PROMPTS_H

#include "chat/chat.h"

typedef struct {
    ce_chat *chat; /* NULL if prompts are continued without a template */
    json_t *rows;  /* the JSON objects, one for each line that is not empty */
    json_t *texts; /* for each row the text that is continued */
} prompts_list;

/* Reads the lines of a file (formats/plain.h), "-" for standard input. In a file NAME.txt a line that does not begin
 * with a brace is the prompt itself. CS_BAD_FILE: a line has no prompt, or standard input is empty; also all errors of
 * ce_plain_open and prompts_text. */
cs_status prompts_read(prompts_list *self, ce_chat *chat, const char *path);
void prompts_free(prompts_list *self);

/* Sets *text to the NUL-terminated text with which the template asks for the answer to a row. A row is a conversation as in
 * training (data/shape.h) whose last answer is missing, or {"prompt": ...} with a list of messages or with what a user
 * says. */
cs_status prompts_text(ce_chat *chat, const json_t *row, ce_text *text);

#endif
