/* words.h - a line of shell words to an argv (--ssh_cmd, --launcher_args), and any bytes to one word of a shell. */
#ifndef CS_LAUNCHER_WORDS_H
#define CS_LAUNCHER_WORDS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char **list; /* NULL-terminated, malloc'ed in one piece with the words */
    int    count;
} cs_words;

/* Splits as POSIX's shell would: blanks part words, '...' is literal, in "..." a backslash quotes " \ $ and `,
 * elsewhere any byte. Nothing is expanded. NULL is no words. 0, or CS_CODE_USAGE for an open quote; `flag` stands in
 * the sentence. */
int  cs_words_split(cs_words *words, const char *flag, const char *text);
void cs_words_free(cs_words *words);

/* Writes `from` in single quotes; false when there is no room. */
bool cs_words_quote(char *to, size_t room, const char *from);

#endif
