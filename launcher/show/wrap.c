/* wrap.c - divides text into lines that fit the terminal. */
#include "show/wrap.h"

#include <stdbool.h>
#include <string.h>

/* Returns true if a character of this first byte takes two columns: in UTF-8, those from U+3000 on. */
static bool is_wide(char lead)
{
    return (unsigned char)lead >= 0xE3;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n';
}

/* Returns the number of bytes of the word at `text`. A wide character is a word of its own. */
static size_t word_size(const char *text, size_t length)
{
    size_t size = 1;
    while (size < length &&
           (is_wide(*text) ? (text[size] & 0xC0) == 0x80 : !is_space(text[size]) && !is_wide(text[size])))
        size++;
    return size;
}

/* Returns the number of columns: it counts the bytes that begin a character. */
static int width_of(const char *text, size_t length)
{
    int width = is_wide(*text);
    for (size_t i = 0; i < length; i++)
        width += (text[i] & 0xC0) != 0x80;
    return width;
}

void cl_wrap_flow(FILE *file, const char *text, size_t length, int columns, int used, int indent)
{
    bool begun = false;
    for (size_t at = 0, size; at < length; at += size) {
        size_t gap = at;
        while (at < length && is_space(text[at]))
            at++;
        if (at == length)
            break;
        size = word_size(text + at, length - at);
        /* Chinese words have no space between them, so lines that end and begin with one are joined without a space. */
        bool joined = gap > 0 && is_wide(text[at]) && memchr(text + gap, '\n', at - gap) && (text[gap - 1] & 0x80);
        int space = begun && at > gap && !joined, width = width_of(text + at, size);
        if (begun && used + space + width > columns) {
            fprintf(file, "\n%*s", indent, "");
            used = indent;
            space = 0;
        }
        fprintf(file, "%*s%.*s", space, "", (int)size, text + at);
        used += space + width;
        begun = true;
    }
    fputc('\n', file);
}

void cl_wrap_print(FILE *file, const char *text, int columns)
{
    for (size_t length; *text; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        if (length == 0 || *text == ' ') {
            fprintf(file, "%.*s\n", (int)length, text);
            continue;
        }
        while (text[length] && !strchr("\n ", text[length + 1]))
            length += 1 + strcspn(text + length + 1, "\n");
        cl_wrap_flow(file, text, length, columns, 0, 0);
    }
}
