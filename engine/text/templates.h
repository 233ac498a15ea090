/* templates.h - chat templates that are known by their digest to write what a shape of text/chat.h writes. */
#ifndef CS_TEXT_TEMPLATES_H
#define CS_TEXT_TEMPLATES_H

#include "base/mac.h"

enum { CS_TEMPLATES_DIGEST = CS_MAC_DIGEST };

/* The name of the shape that writes what `template` writes; NULL: no such shape is known. `digest` becomes the
 * SHA-256 of the template's text as it stands in tokenizer_config.json or chat_template.jinja, less one newline at
 * its end, which Jinja drops too. */
const char *cs_templates_shape(const char *template, char digest[CS_TEMPLATES_DIGEST]);

#endif
