/* describe.h - a GGUF file as the files of a Hugging Face folder. */
#ifndef CE_GGUF_DESCRIBE_H
#define CE_GGUF_DESCRIBE_H

#include "gguf/gguf.h"

/* Sets *config to the contents of config.json. A key of the file that describes the model and has no place there is
 * refused by name. */
cs_status ce_gguf_config(json_t **config, const ce_gguf_file *file, const char *path);

/* Sets *tokenizer and *settings to the contents of tokenizer.json and tokenizer_config.json, and *generation to that of
 * generation_config.json. If the file has no vocabulary, they are NULL. */
cs_status ce_gguf_vocabulary(json_t **tokenizer, json_t **settings, json_t **generation, const ce_gguf_file *file,
                             const char *path);

enum { CE_GGUF_PATH = 4096 };
#define CE_GGUF_LINK "described.gguf" /* the link to the GGUF file, in the folder that describes it */
/* Writes the folder with these files, and with a link to the GGUF file, in the cache ($XDG_CACHE_HOME/cspeed/gguf, or
 * ~/.cache/cspeed/gguf). Files that are there and differ are written again, so several processes may do this at once. */
cs_status ce_gguf_folder(char folder[CE_GGUF_PATH], const char *path);

#endif
