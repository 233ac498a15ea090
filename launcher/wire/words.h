/* words.h - a line of shell words to an argv (--ssh_cmd, --launcher_args), and any bytes to one word of a shell. */
#ifndef CL_WORDS_H
#define CL_WORDS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char **list; /* NULL-terminated, malloc'ed in one piece with the words */
    int count;
} cl_words;

/* Splits as POSIX's shell would: blanks part words, '...' is literal, in "..." a backslash quotes " \ $ and `,
 * elsewhere any byte. Nothing is expanded. NULL is no words. 0, or CL_CODE_USAGE for an open quote; `flag` stands in
 * the sentence. */
int cl_words_split(cl_words *words, const char *flag, const char *text);
void cl_words_free(cl_words *words);

/* Writes `from` in single quotes; false when there is no room. */
bool cl_words_quote(char *to, size_t room, const char *from);

#endif
