/* alphabet.h - the characters with which byte-level BPE writes the 256 bytes.
 *
 * Each printable byte of Latin-1 is represented by its own character; the other 68 bytes, in ascending order, are
 * represented by U+0100 to U+0143. Therefore no byte is written as a space, and a vocabulary is readable text. */
#ifndef CE_TEXT_ALPHABET_H
#define CE_TEXT_ALPHABET_H

#include <stddef.h>
#include <stdint.h>

int32_t ce_alphabet_point(unsigned char byte); /* Returns the character that represents a byte. */

/* Decodes `size` bytes of UTF-8 at `token` to the bytes that its characters represent. `bytes` must have room for
 * `size` bytes. Returns the number of decoded bytes, or -1 if a character is not in the alphabet. */
int64_t ce_alphabet_read(const char *token, size_t size, char *bytes);

#endif
