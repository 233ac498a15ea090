/* base64.h - decodes base64 text in the standard and in the URL-safe alphabet. */
#ifndef CE_BASE_BASE64_H
#define CE_BASE_BASE64_H

#include <stddef.h>

/* Decodes a base64 text. Returns the decoded bytes, followed by a zero byte that *length does not count; the caller
 * frees them. The padding "=" may be missing. Returns NULL if the text is not base64. */
char *ce_base64_decode(const char *text, size_t *length);

#endif
