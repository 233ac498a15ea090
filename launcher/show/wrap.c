/* wrap.c - divides text into lines that fit the terminal. */
#include "show/wrap.h"

#include <stdbool.h>
#include <string.h>

/* Returns the number of characters of UTF-8 text: it counts the bytes that begin a character. */
static int width_of(const char *text, size_t length)
{
    int width = 0;
    for (size_t i = 0; i < length; i++)
        width += ((unsigned char)text[i] & 0xC0) != 0x80;
    return width;
}

/* Prints the words of a line. *used is the number of columns that are used already; it is 0 at the beginning of a line.
 */
static void put_words(FILE *file, const char *line, size_t length, int columns, int *used)
{
    for (size_t at = 0, size; at < length; at += size + (at + size < length)) {
        size = strcspn(line + at, " \n");
        int width = width_of(line + at, size);
        if (*used > 0 && *used + 1 + width > columns) {
            fputc('\n', file);
            *used = 0;
        }
        fprintf(file, "%s%.*s", *used > 0 ? " " : "", (int)size, line + at);
        *used += (*used > 0) + width;
    }
}

void cl_wrap_print(FILE *file, const char *text, int columns)
{
    int used = 0;
    for (size_t length; *text; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        bool kept = length == 0 || *text == ' ';
        if (kept && used > 0) {
            fputc('\n', file);
            used = 0;
        }
        if (kept)
            fprintf(file, "%.*s\n", (int)length, text);
        else
            put_words(file, text, length, columns, &used);
    }
    if (used > 0)
        fputc('\n', file);
}
