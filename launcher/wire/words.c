/* words.c - command lines: built word by word, split from a line of shell words, and printed. */
#include "wire/words.h"

#include "ground/codes.h"
#include "plan/env.h"

#include "base/must.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void cl_words_add(cl_words *words, const char *format, ...)
{
    va_list arguments;
    CE_MUST_HOLD(words->list, words->capacity, words->count + 2);
    va_start(arguments, format);
    if (vasprintf(&words->list[words->count], format, arguments) < 0)
        ce_fatal(CS_NO_MEMORY, "no memory for a command line");
    va_end(arguments);
    words->list[++words->count] = NULL;
}

void cl_words_add_all(cl_words *words, const char *const *list)
{
    for (; list && *list; list++)
        cl_words_add(words, "%s", *list);
}

void cl_words_print(const cl_words *words)
{
    char masked[4096];
    bool hide = false;
    for (int i = 0; i < words->count; i++) {
        fprintf(stderr, "%s%s", cl_env_masked(words->list[i], &hide, masked, sizeof masked),
                i + 1 < words->count ? " " : "\n");
        if (i > 0 && strcmp(words->list[i - 1], "-env") == 0) /* MPICH's -env NAME VALUE: the next word is the value */
            hide = cl_env_is_secret(words->list[i]);
    }
}

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
    CE_FREED char *word = ce_must_alloc(text ? strlen(text) + 1 : 1);
    for (const char *from = text ? text : ""; *from;) {
        char *to = word;
        if (is_blank(*from)) {
            from++;
            continue;
        }
        if (!take_word(&from, &to))
            return cl_codes_fail(CL_CODE_USAGE, "%s: a quote is not closed in: %s", flag, text);
        cl_words_add(words, "%s", word);
    }
    return 0;
}

void cl_words_free(cl_words *words)
{
    for (int i = 0; i < words->count; i++)
        free(words->list[i]);
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
