/* generate.h - what the files of the program generate share. */
#ifndef GENERATE_GENERATE_H
#define GENERATE_GENERATE_H

#include "chat/chat.h"
#include "cspeed/cspeed.h"
#include "cspeed/options.h"

/* ---- files.c: finds the tokenizer and the chat template in the folders of a model ---- */

/* Returns the tokenizer of the training if it is not that of the model's folder, or else that of the adapter's folder,
 * or else that of the model's folder; NULL if there is none. */
const char *files_tokenizer(const cs_config *config);
/* Returns the path of chat_template.jinja in the adapter's folder or the model's, malloc'ed, or NULL. A folder of a
 * model whose tokens are bytes has no tokenizer, but may have a template. */
char *files_template(const cs_config *config);

/* ---- prompts.c: the file of --prompts: JSON lines {"prompt": ...} or conversations, or texts ---- */

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

/* ---- stop.c: strings before which a generated answer ends ---- */

/* Looks for stop strings that end after `from`. Returns the position at which the first of these begins, or the size of
 * the text if there is none. */
size_t stop_find(const cs_option_list *stop, const ce_text *text, size_t from);
/* Returns the number of bytes at the end of the text that may be the beginning of a stop string. */
size_t stop_held_back(const cs_option_list *stop, const ce_text *text);

#endif
