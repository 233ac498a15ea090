/* words.h - the words of a command line: adds them one by one, splits a line of shell words (--ssh_cmd,
 * --launcher_args), and quotes arbitrary bytes as one shell word. */
#ifndef CL_WORDS_H
#define CL_WORDS_H

#include <stdbool.h>
#include <stddef.h>

/* A struct whose bytes are all zero has no words. */
typedef struct {
    char **list; /* malloc'ed words; NULL-terminated once a word was added */
    int count, capacity;
} cl_words;

void cl_words_add(cl_words *words, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cl_words_add_all(cl_words *words, const char *const *list); /* a NULL-terminated list, or NULL */
void cl_words_print(const cl_words *words); /* prints the command line to stderr, without the values of secrets */
void cl_words_free(cl_words *words);

/* Adds the words of a line, which it splits as the POSIX shell does: blanks separate words, '...' is literal, in "..."
 * a backslash quotes " \ $ and `, and outside quotes a backslash quotes any byte. Nothing is expanded. If `text` is
 * NULL, there are no words. Returns 0, or CL_CODE_USAGE for an unclosed quote, with `flag` in the message. */
int cl_words_split(cl_words *words, const char *flag, const char *text);

/* Writes `from` in single quotes. Returns false if `capacity` is too small for the text. */
bool cl_words_quote(char *to, size_t capacity, const char *from);

#endif
