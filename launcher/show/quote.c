/* quote.c - writes JSON strings from arbitrary bytes. */
#include "show/quote.h"

#include <stdbool.h>
#include <string.h>

/* Returns the number of bytes of the UTF-8 character at the beginning of the text. Returns 0 if no valid character is
 * there: overlong forms, surrogates and values above U+10FFFF are not valid. */
static size_t character_bytes(const unsigned char *at, size_t count)
{
    static const struct {
        unsigned char mask, lead;
        size_t bytes;
        unsigned min;
    } forms[] = { { 0x80, 0x00, 1, 0 }, { 0xe0, 0xc0, 2, 0x80 }, { 0xf0, 0xe0, 3, 0x800 }, { 0xf8, 0xf0, 4, 0x10000 } };
    for (size_t form = 0; form < 4; form++) {
        if ((at[0] & forms[form].mask) != forms[form].lead || count < forms[form].bytes)
            continue;
        unsigned value = at[0] & (unsigned char)~forms[form].mask;
        for (size_t i = 1; i < forms[form].bytes; i++) {
            if ((at[i] & 0xc0) != 0x80)
                return 0;
            value = value << 6 | (at[i] & 0x3f);
        }
        return value < forms[form].min || value > 0x10ffff || (value >= 0xd800 && value < 0xe000) ? 0
                                                                                                  : forms[form].bytes;
    }
    return 0;
}

/* Prints a character that must be escaped in JSON. */
static void put_escaped(FILE *out, unsigned char byte)
{
    static const char from[] = "\"\\\n\r\t", to[] = "\"\\nrt";
    const char *found = byte ? strchr(from, byte) : NULL;
    if (found)
        fprintf(out, "\\%c", to[found - from]);
    else
        fprintf(out, "\\u%04x", byte);
}

static bool is_plain(unsigned char byte)
{
    return byte >= ' ' && byte < 0x7f && byte != '"' && byte != '\\';
}

void cl_quote_bytes(FILE *out, const char *bytes, size_t count)
{
    const unsigned char *at = (const unsigned char *)bytes, *end = at + count;
    putc('"', out);
    while (at < end) {
        size_t width = 0;
        while (at + width < end && is_plain(at[width]))
            width++;
        if (width == 0)
            width = character_bytes(at, (size_t)(end - at));
        if (width == 0)
            fprintf(out, "\\\\x%02x", *at);
        else if (width == 1 && !is_plain(*at))
            put_escaped(out, *at);
        else
            fwrite(at, 1, width, out);
        at += width ? width : 1;
    }
    putc('"', out);
}

void cl_quote(FILE *out, const char *text)
{
    cl_quote_bytes(out, text, strlen(text));
}
