/* words.h - splits a line of shell words into an argv (--ssh_cmd, --launcher_args), and quotes arbitrary bytes as one
 * shell word. */
#ifndef CL_WORDS_H
#define CL_WORDS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char **list; /* the words, NULL-terminated; the list and its words are one malloc'ed block */
    int count;
} cl_words;

/* Splits a line as the POSIX shell does: blanks separate words, '...' is literal, in "..." a backslash quotes " \ $ and
 * `, and outside quotes a backslash quotes any byte. Nothing is expanded. If `text` is NULL, there are no words.
 * Returns 0, or CL_CODE_USAGE for an unclosed quote, with `flag` in the message. */
int cl_words_split(cl_words *words, const char *flag, const char *text);
void cl_words_free(cl_words *words);

/* Writes `from` in single quotes. Returns false if `capacity` is too small for the text. */
bool cl_words_quote(char *to, size_t capacity, const char *from);

#endif
