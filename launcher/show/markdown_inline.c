/* markdown_inline.c - converts the text inside a paragraph, computes widths of characters, and divides text into lines.
 */
#include "show/markdown_inline.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* In converted text, each character of strong text stands between the bytes STRONG and PLAIN. Spaces stand alone. */
enum { STRONG = 1, PLAIN = 2 };

/* ---- characters ---- */

/* Decodes the character at `text`. *bytes receives its length, with the control characters before and after it. A byte
 * that is not UTF-8 counts as a character. */
static unsigned decode(const char *text, int *bytes)
{
    int marks = *text == STRONG ? 1 : 0;
    text += marks;
    unsigned char lead = (unsigned char)*text;
    int length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
    unsigned code = length > 1 ? lead & (0xFFu >> (length + 1)) : lead;
    for (int i = 1; i < length; i++) {
        if ((text[i] & 0xC0) != 0x80)
            length = 1;
        else
            code = code << 6 | (text[i] & 0x3F);
    }
    *bytes = length + 2 * marks;
    return length > 1 ? code : lead;
}

static bool is_wide(unsigned code)
{
    return (code >= 0x1100 && code <= 0x115F) || (code >= 0x2E80 && code <= 0xA4CF) ||
           (code >= 0xAC00 && code <= 0xD7A3) || (code >= 0xF900 && code <= 0xFAFF) ||
           (code >= 0xFE30 && code <= 0xFE6F) || (code >= 0xFF01 && code <= 0xFF60) ||
           (code >= 0xFFE0 && code <= 0xFFE6) || (code >= 0x1F300 && code <= 0x1FAFF) ||
           (code >= 0x20000 && code <= 0x3FFFD);
}

/* Returns true for a punctuation mark that ends a clause or closes a bracket. After a wide character, such a mark must
 * not begin a line. */
static bool ends_clause(unsigned code)
{
    static const unsigned signs[] = { ')',    0x3001, 0x3002, 0x300B, 0x300D, 0x300F, 0x3011,
                                      0xFF01, 0xFF09, 0xFF0C, 0xFF1A, 0xFF1B, 0xFF1F };
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
        if (signs[i] == code)
            return true;
    return false;
}

int cl_markdown_inline_width(const char *text, const char *end)
{
    int width = 0, bytes;
    for (; end ? text < end : *text != 0; text += bytes)
        width += 1 + is_wide(decode(text, &bytes));
    return width;
}

/* ---- conversion ---- */

typedef struct {
    FILE *to;
    bool strong;
    /* space: white space was read and is not written yet; line_feed: this white space has a line feed */
    bool space, line_feed;
    bool begun, wide; /* begun: some text is written; wide: the last character that was written is wide */
} converter;

static void put(converter *made, const char *character, int bytes, unsigned code)
{
    /* there is no space between Chinese words, so a line feed there is dropped */
    bool joined = made->line_feed && made->wide && is_wide(code);
    if (made->space && made->begun && !joined)
        fputc(' ', made->to);
    if (made->space || !made->begun)
        made->space = made->line_feed = false;
    made->begun = true;
    made->wide = is_wide(code);
    if (made->strong)
        fputc(STRONG, made->to);
    fwrite(character, 1, (size_t)bytes, made->to);
    if (made->strong)
        fputc(PLAIN, made->to);
}

static void put_text(converter *made, const char *text)
{
    int bytes;
    for (; *text; text += bytes) {
        unsigned code = decode(text, &bytes);
        if (code == ' ')
            made->space = true;
        else
            put(made, text, bytes, code);
    }
}

static void convert(converter *made, const char *text, const char *end);

/* Converts the link [name](target) at `text`. Returns the position behind the link; NULL: there is no link at `text`.
 */
static const char *convert_link(converter *made, const char *text, const char *end)
{
    const char *close = memchr(text, ']', (size_t)(end - text));
    const char *target = close && end - close > 2 && close[1] == '(' ? close + 2 : NULL;
    const char *after = target ? memchr(target, ')', (size_t)(end - target)) : NULL;
    if (!after)
        return NULL;
    size_t length = (size_t)(after - target);
    const char *section = memchr(target, '#', length);
    size_t path = section ? (size_t)(section - target) : length;
    bool is_page = path > 3 && memcmp(target + path - 3, ".md", 3) == 0 && !memchr(target, '/', path);
    char command[128];
    convert(made, text + 1, close);
    if (is_page) {
        snprintf(command, sizeof command, " (`cspeed help %.*s`)", (int)path - 3, target);
        put_text(made, command);
    }
    return after + 1;
}

static void convert(converter *made, const char *text, const char *end)
{
    bool code = false;
    for (int bytes; text < end; text += bytes) {
        unsigned character = decode(text, &bytes);
        const char *after = character == '[' && !code ? convert_link(made, text, end) : NULL;
        if (after) {
            bytes = (int)(after - text);
        } else if (character < 128 && isspace((int)character)) {
            made->space = true;
            made->line_feed |= character == '\n';
        } else if (!code && character == '*' && end - text > 1 && text[1] == '*') {
            made->strong = !made->strong;
            bytes = 2;
        } else if (!code && character == '\\' && end - text > 1 && ispunct((unsigned char)text[1])) {
            put(made, text + 1, 1, (unsigned char)text[1]);
            bytes = 2;
        } else {
            code ^= character == '`';
            put(made, text, bytes, character);
        }
    }
}

char *cl_markdown_inline_convert(const char *markdown, size_t length)
{
    char *text = NULL;
    size_t size;
    converter made = { .to = open_memstream(&text, &size) };
    if (!made.to)
        return NULL;
    convert(&made, markdown, markdown + length);
    return fclose(made.to) == 0 ? text : NULL;
}

/* ---- lines ---- */

enum { MIN_WIDTH = 20 };

/* Returns the end of the word at `text`. A wide character is a word of its own, together with the punctuation marks
 * behind it that must not begin a line. */
static const char *word_end(const char *text)
{
    bool wide = false, first = true;
    for (int bytes; *text && *text != ' '; text += bytes) {
        unsigned code = decode(text, &bytes);
        if (!first && (wide || is_wide(code)) && !ends_clause(code))
            break;
        wide = is_wide(code);
        first = false;
    }
    return text;
}

int cl_markdown_inline_longest(const char *text)
{
    int longest = 0;
    while (*text) {
        const char *end = word_end(text);
        int width = cl_markdown_inline_width(text, end);
        longest = width > longest ? width : longest;
        text = *end == ' ' ? end + 1 : end;
    }
    return longest;
}

const char *cl_markdown_inline_fit(const char *text, int width)
{
    const char *fit = text, *next = text;
    while (*next) {
        const char *end = word_end(next);
        if (cl_markdown_inline_width(text, end) > width)
            break;
        fit = end;
        next = *end == ' ' ? end + 1 : end;
    }
    int bytes;
    /* if the first word is wider than the line, it is divided */
    while (fit == text && *next && cl_markdown_inline_width(text, next) < width) {
        decode(next, &bytes);
        next += bytes;
    }
    return fit == text ? next : fit;
}

const char *cl_markdown_inline_put(const cl_markdown *out, const char *text, const char *end, int width)
{
    bool strong = false;
    int used = cl_markdown_inline_width(text, end);
    for (; text < end; text++) {
        if (*text != STRONG && *text != PLAIN)
            fputc(*text, out->file);
        else if (out->styled && (*text == STRONG) != strong && !(*text == PLAIN && text + 1 < end && text[1] == STRONG))
            fputs((strong = *text == STRONG) ? "\033[1m" : "\033[0m", out->file);
    }
    fprintf(out->file, "%*s", width > used ? width - used : 0, "");
    return *end == ' ' ? end + 1 : end;
}

void cl_markdown_inline_flow(const cl_markdown *out, const char *text, int indent)
{
    int width = out->columns - indent < MIN_WIDTH ? MIN_WIDTH : out->columns - indent;
    do {
        text = cl_markdown_inline_put(out, text, cl_markdown_inline_fit(text, width), 0);
        fprintf(out->file, "\n%*s", *text ? indent : 0, "");
    } while (*text);
}
