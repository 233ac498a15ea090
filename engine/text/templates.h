/* templates.h - chat templates that are recognised by their SHA-256 digest, and the shape of text/chat.h that writes
 * the same text. */
#ifndef CS_TEXT_TEMPLATES_H
#define CS_TEXT_TEMPLATES_H

#include "base/mac.h"

enum { CS_TEMPLATES_DIGEST = CS_MAC_DIGEST };

/* Name of the shape that writes the same text as `template`; NULL: none is known. Sets `digest` to the SHA-256 of the
 * template's text as it is in tokenizer_config.json or chat_template.jinja, without one newline at its end, which Jinja
 * removes too. */
const char *cs_templates_shape(const char *template, char digest[CS_TEMPLATES_DIGEST]);

#endif
