/* words.c - splits a line of shell words into an argv. */
#include "wire/words.h"

#include "ground/codes.h"

#include <stdlib.h>
#include <string.h>

static int is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

/* Copies the quoted text that follows *from. Returns false if the closing quote is missing. */
static int take_quoted(const char **from, char **to)
{
    char quote = *(*from)++;
    const char *at = *from;
    for (; *at && *at != quote; at++) {
        if (quote == '"' && *at == '\\' && at[1] && strchr("\"\\$`", at[1]))
            at++;
        *(*to)++ = *at;
    }
    *from = at + (*at != 0);
    return *at != 0;
}

/* Reads one word, whose first byte is at *from. */
static int take_word(const char **from, char **to)
{
    int closed = 1;
    while (closed && **from && !is_blank(**from)) {
        if (**from == '\'' || **from == '"') {
            closed = take_quoted(from, to);
            continue;
        }
        if (**from == '\\' && (*from)[1])
            (*from)++;
        *(*to)++ = *(*from)++;
    }
    *(*to)++ = '\0';
    return closed;
}

int cl_words_split(cl_words *words, const char *flag, const char *text)
{
    size_t length = text ? strlen(text) : 0, max = length / 2 + 2;
    *words = (cl_words){ .list = malloc(max * sizeof *words->list + length + 2) };
    if (!words->list)
        return cl_codes_fail(CL_CODE_SYSTEM, "%s: no memory for %zu bytes", flag, length);
    char *to = (char *)(words->list + max);
    for (const char *from = text ? text : ""; *from;) {
        if (is_blank(*from)) {
            from++;
            continue;
        }
        words->list[words->count++] = to;
        if (!take_word(&from, &to)) {
            cl_words_free(words);
            return cl_codes_fail(CL_CODE_USAGE, "%s: a quote is not closed in: %s", flag, text);
        }
    }
    words->list[words->count] = NULL;
    return 0;
}

void cl_words_free(cl_words *words)
{
    free(words->list);
    *words = (cl_words){ 0 };
}

bool cl_words_quote(char *to, size_t capacity, const char *from)
{
    size_t count = 0;
    for (to[count++] = '\''; *from && count + 6 < capacity; from++) {
        const char *piece = *from == '\'' ? "'\\''" : (char[]){ *from, 0 };
        memcpy(to + count, piece, strlen(piece));
        count += strlen(piece);
    }
    memcpy(to + count, "'", 2);
    return *from == '\0';
}
