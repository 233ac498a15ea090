/* base64.c - decodes base64 text with libcrypto. */
#include "base/base64.h"
#include "base/must.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_";

char *ce_base64_decode(const char *text, size_t *length)
{
    size_t count = strspn(text, ALPHABET), whole = (count + 3) / 4 * 4;
    if (count == 0 || count % 4 == 1 || text[count + strspn(text + count, "=")])
        return NULL;
    CE_FREED char *standard = ce_must_alloc(whole);
    char *bytes = ce_must_alloc(whole / 4 * 3 + 1);
    /* If the last group has fewer than four characters, it is filled with "A", which means zero bits. *length does not
     * count the bytes that come from these characters. */
    for (size_t i = 0; i < whole; i++)
        standard[i] = i >= count ? 'A' : text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
    CE_ASSERT(EVP_DecodeBlock((unsigned char *)bytes, (unsigned char *)standard, (int)whole) >= 0);
    *length = count * 3 / 4;
    bytes[*length] = 0;
    return bytes;
}
