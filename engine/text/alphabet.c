/* alphabet.c - the characters with which byte-level BPE writes the 256 bytes. */
#include "text/alphabet.h"

#include <stdbool.h>

static bool is_printable(int byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

int32_t ce_alphabet_point(unsigned char byte)
{
    int32_t next = 0x100;
    for (int other = 0; other < byte; other++)
        next += !is_printable(other);
    return is_printable(byte) ? byte : next;
}

/* Returns the byte that a character represents, or -1 if the character is not in the alphabet. */
static int byte_of(int32_t point)
{
    if (point < 0x100)
        return is_printable(point) ? point : -1;
    for (int byte = 0, next = 0x100; byte < 0x100; byte++)
        if (!is_printable(byte) && next++ == point)
            return byte;
    return -1;
}

int64_t ce_alphabet_read(const char *token, size_t size, char *bytes)
{
    int64_t count = 0;
    for (size_t i = 0; i < size; i++) {
        int point = (unsigned char)token[i];
        if (point >= 0x80) { /* A character of the alphabet that is not ASCII has two bytes in UTF-8. */
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
