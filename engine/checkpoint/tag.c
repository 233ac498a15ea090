/* tag.c - converts a tag, which is any string, to a directory name, and back. */
#include "checkpoint/tag.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static bool plain(unsigned char byte)
{
    return (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') ||
           (byte != 0 && strchr("._-", byte) != NULL);
}

cs_status ce_tag_escape(char name[CE_TAG_BYTES], const char *tag)
{
    size_t used = 0;
    if (!tag[0])
        return ce_fail(CS_BAD_CONFIG, "checkpoint tag: \"\" is empty; it needs at least one character");
    bool escape_first = tag[0] == '.' || strcmp(tag, "latest") == 0 || strcmp(tag, "manifest.json") == 0;
    for (size_t i = 0; tag[i]; i++) {
        bool as_is = plain((unsigned char)tag[i]) && !(i == 0 && escape_first);
        size_t bytes = as_is ? 1 : 3;
        if (used + bytes >= CE_TAG_BYTES)
            return ce_fail(CS_BAD_CONFIG,
                           "checkpoint tag \"%.60s...\" is longer than the %d bytes of a directory name (each byte "
                           "other than letters, digits, '.', '_', '-' counts three times); shorten it",
                           tag, CE_TAG_BYTES - 1);
        if (as_is)
            name[used] = tag[i];
        else
            snprintf(name + used, 4, "%%%02X", (unsigned)(unsigned char)tag[i]);
        used += bytes;
    }
    name[used] = 0;
    return CS_OK;
}

static bool is_escape(const char *at)
{
    return at[0] == '%' && isxdigit((unsigned char)at[1]) && isxdigit((unsigned char)at[2]);
}

void ce_tag_unescape(char tag[CE_TAG_BYTES], const char *name)
{
    size_t used = 0;
    for (; *name && used + 1 < CE_TAG_BYTES; used++) {
        unsigned byte = (unsigned char)*name;
        bool more = is_escape(name) && sscanf(name + 1, "%2X", &byte) == 1;
        tag[used] = (char)byte;
        name += more ? 3 : 1;
    }
    tag[used] = 0;
}
