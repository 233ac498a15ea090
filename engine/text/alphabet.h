/* alphabet.h - the 256 characters by which byte-level vocabularies spell bytes. */
#ifndef CS_TEXT_ALPHABET_H
#define CS_TEXT_ALPHABET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes that `size` bytes of UTF-8 at `token` spell, into `bytes` (room: size); how many, or -1 when a character is
 * none of the alphabet's. */
int64_t cs_alphabet_read(const char *token, size_t size, char *bytes);

#endif
