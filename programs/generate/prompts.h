/* prompts.h - the file of --prompts: JSON lines {"prompt": ...}, or texts. */
#ifndef GENERATE_PROMPTS_H
#define GENERATE_PROMPTS_H

#include "base/json.h"

/* Reads the lines of a file (formats/plain.h), "-" for standard input. *list becomes a list of JSON objects that the
 * caller owns, one for each line that is not empty. In a file NAME.txt a line that does not begin with a brace is the
 * prompt itself. CS_BAD_FILE: a line has no prompt, or standard input is empty; also
 * all errors of ce_plain_open. */
cs_status prompts_read(json_t **list, const char *path);

#endif
