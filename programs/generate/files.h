/* files.h - finds the tokenizer and the chat template in the folders of a model. */
#ifndef GENERATE_FILES_H
#define GENERATE_FILES_H

#include "cspeed/cspeed.h"

/* Returns the tokenizer of the training if it is not that of the model's folder, or else that of the adapter's folder,
 * or else that of the model's folder; NULL if there is none. */
const char *files_tokenizer(const cs_config *config);
/* Returns the path of chat_template.jinja in the adapter's folder or the model's, malloc'ed, or NULL. A folder of a
 * model whose tokens are bytes has no tokenizer, but may have a template. */
char *files_template(const cs_config *config);

#endif
