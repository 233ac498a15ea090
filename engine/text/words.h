/* words.h - text cut into words by a tokenizer's patterns: PCRE2's one door.
 *
 * The patterns are those of tokenizer.json, written for another engine (Oniguruma). Those of their parts that both
 * engines understand alike are taken, the white space of \s made the same, and the rest is refused by name. */
#ifndef CS_TEXT_WORDS_H
#define CS_TEXT_WORDS_H

#include "base/status.h"

typedef struct cs_words cs_words;
typedef struct cs_cutters cs_cutters; /* what one thread needs to use them */

cs_words *cs_words_open(void);
void cs_words_close(cs_words *words); /* accepts NULL */

/* One more round: the pieces so far are cut at each match of the pattern, which is a piece of its own; what lies
 * between matches is another. `drop_between`: it is left out. */
typedef enum { CS_WORDS_REGEX, CS_WORDS_LITERAL, CS_WORDS_REGEX_DROPPING } cs_words_kind;
cs_status cs_words_add(cs_words *words, const char *pattern, cs_words_kind kind);

extern const char cs_words_gpt2[], cs_words_qwen2[];

/* Whether a text may be cut where a line ends in a letter or digit and the next begins with a letter, and its parts
 * be cut into words alone, with the same outcome. True of the patterns known here. */
bool cs_words_lines_part(const cs_words *words);

cs_cutters *cs_words_cutters(const cs_words *words);
void cs_words_release(cs_cutters *cutters); /* accepts NULL */

/* Calls `visit` for each piece, in order. */
typedef void (*cs_words_visit)(void *context, const char *word, size_t size);
void cs_words_each(cs_cutters *cutters, const char *text, size_t size, cs_words_visit visit, void *context);

#endif
