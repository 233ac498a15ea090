/* base64.h - decodes base64 text in the standard and in the URL-safe alphabet. */
#ifndef CS_BASE_BASE64_H
#define CS_BASE_BASE64_H

#include <stddef.h>

/* Returns the bytes, followed by a 0 that *length does not count; the caller frees them. The padding "=" may be
 * missing. NULL: the text is not base64. */
char *ce_base64_decode(const char *text, size_t *length);

#endif
