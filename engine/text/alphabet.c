/* alphabet.c - the byte-to-character map of byte-level BPE: 256 characters that stand for the 256 bytes in a
 * vocabulary.
 *
 * Printable bytes of Latin-1 are represented by themselves; the other 68, in ascending order, by U+0100 to U+0143.
 * Therefore no byte is written as a space, and a vocabulary is readable text. */
#include "text/alphabet.h"

static bool is_printable(int byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

static int byte_of(int point)
{
    if (point < 0x100)
        return is_printable(point) ? point : -1;
    for (int byte = 0, next = 0x100; byte < 0x100; byte++)
        if (!is_printable(byte) && next++ == point)
            return byte;
    return -1;
}

int64_t cs_alphabet_read(const char *token, size_t size, char *bytes)
{
    int64_t count = 0;
    for (size_t i = 0; i < size; i++) {
        int point = (unsigned char)token[i];
        if (point >= 0x80) { /* every character of the map beyond ASCII has two bytes in UTF-8 */
            if ((point & 0xe0) != 0xc0 || i + 1 == size)
                return -1;
            point = (point & 0x1f) << 6 | ((unsigned char)token[++i] & 0x3f);
        }
        int byte = byte_of(point);
        if (byte < 0)
            return -1;
        bytes[count++] = (char)byte;
    }
    return count;
}
