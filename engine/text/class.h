/* class.h - the tokenizer class that transformers 5.24 uses for a folder. */
#ifndef CE_TEXT_CLASS_H
#define CE_TEXT_CLASS_H

#include "json/json.h"

/* Returns the name of the class, without "Fast". `config` is tokenizer_config.json and `model` is config.json; either
 * may be NULL. If they name neither a class nor a known type of model, returns `otherwise`. */
enum { CE_CLASS_NAME = 64 };
const char *ce_class_name(char name[CE_CLASS_NAME], const json_t *config, const json_t *model, const char *otherwise);

/* Checks what tokenizer_config.json says of code and files that are not read. Returns CS_UNSUPPORTED if they would make
 * other tokens; warns if they would not. */
cs_status ce_class_check(const json_t *config);

#endif
