/* base64.h - bytes from their base64 text, in the usual and in the URL-safe alphabet. */
#ifndef CS_BASE_BASE64_H
#define CS_BASE_BASE64_H

#include <stddef.h>

/* malloc'ed, with a 0 behind; padding may be missing. NULL: this is not base64. */
char *cs_base64_decode(const char *text, size_t *length);

#endif
