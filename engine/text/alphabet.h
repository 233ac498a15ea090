/* alphabet.h - the byte-to-character map of byte-level BPE: 256 characters that stand for the 256 bytes in a
 * vocabulary. */
#ifndef CS_TEXT_ALPHABET_H
#define CS_TEXT_ALPHABET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes `size` bytes of UTF-8 at `token` to the bytes that its characters stand for. `bytes` must have room for
 * `size` bytes. Returns the number of bytes, or -1 if a character is not in the map. */
int64_t cs_alphabet_read(const char *token, size_t size, char *bytes);

#endif
