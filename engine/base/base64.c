/* base64.c - bytes from their base64 text, in the usual and in the URL-safe alphabet. */
#include "base/base64.h"
#include "base/must.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int value_of(char c)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    c = c == '-' ? '+' : c == '_' ? '/' : c;
    const char *found = c ? strchr(alphabet, c) : NULL;
    return found ? (int)(found - alphabet) : -1;
}

char *cs_base64_decode(const char *text, size_t *length)
{
    size_t count = strlen(text), used = 0;
    uint32_t bits = 0;
    while (count > 0 && text[count - 1] == '=')
        count--;
    if (count == 0 || count % 4 == 1)
        return NULL;
    char *bytes = malloc(count / 4 * 3 + 3);
    CS_ASSERT(bytes);
    for (size_t i = 0; i < count; i++) {
        int value = value_of(text[i]);
        if (value < 0) {
            free(bytes);
            return NULL;
        }
        bits = bits << 6 | (uint32_t)value;
        if (i % 4 > 0)
            bytes[used++] = (char)(bits >> (6 - 2 * (i % 4)) & 255);
    }
    bytes[used] = 0;
    *length = used;
    return bytes;
}
