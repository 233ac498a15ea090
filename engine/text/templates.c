/* templates.c - chat templates that are known by their digest to write what a shape of text/chat.h writes.
 *
 * tests/peers/chat_same.py makes the table: it runs each template with Jinja2 on conversations of many sorts and keeps
 * those whose text is a shape's every time. */
#include "text/templates.h"

#include <string.h>

static const struct {
    const char *digest, *shape;
} known[] = {
#include "text/templates_known.h"
};

const char *cs_templates_shape(const char *template, char digest[CS_TEMPLATES_DIGEST])
{
    size_t size = strlen(template);
    cs_mac_digest(digest, template, size - (size > 0 && template[size - 1] == '\n'));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].digest, digest) == 0)
            return known[i].shape;
    return NULL;
}
