/* jsonpart.h - functions that the readers of tokenizer.json's sections have in common. `path` is the place of a section
 * in the file ("normalizer.normalizers[1]"), for messages. */
#ifndef CE_TEXT_JSONPART_H
#define CE_TEXT_JSONPART_H

#include "json/json.h"
#include "text/pattern.h"

enum { CE_JSONPART_PATH = 256 };

/* Returns the value of the key "type". If there is none, returns "of no type", for messages. */
const char *ce_jsonpart_type(const json_t *part);
bool ce_jsonpart_flag(const json_t *part, const char *key, bool otherwise);
/* Writes the path of a member of a list into `text`, for messages, and returns `text`. */
const char *ce_jsonpart_member(char text[CE_JSONPART_PATH], const char *path, const char *list, size_t index);

/* Copies the text of a key that must be present. The caller frees the copy. */
cs_status ce_jsonpart_text(char **text, const json_t *part, const char *key, const char *path);
/* Opens the pattern {"String": …} or {"Regex": …} of the key "pattern". An empty text is refused. */
cs_status ce_jsonpart_pattern(ce_pattern **pattern, const json_t *part, const char *path);

/* Returns CS_UNSUPPORTED, with a message that refuses a section of the type `type`. */
cs_status ce_jsonpart_refuse(const char *path, const char *type, const char *why);

#endif
