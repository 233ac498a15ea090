/* words.h - pre-tokenization: cuts text into words with a tokenizer's regular expressions, by means of PCRE2.
 *
 * The patterns of tokenizer.json are written for another engine (Oniguruma). Constructs with the same meaning in both
 * engines are accepted, the white space of \s is adapted, and everything else is refused by name. */
#ifndef CS_TEXT_WORDS_H
#define CS_TEXT_WORDS_H

#include "base/status.h"

typedef struct ce_words ce_words;
typedef struct ce_cutters ce_cutters; /* working memory of one thread */

ce_words *ce_words_open(void);
void ce_words_close(ce_words *words); /* accepts NULL */

/* Adds a round of cutting: each piece so far is cut at the matches of the pattern. Each match becomes a piece, and so
 * does the text between matches, unless the kind is CS_WORDS_REGEX_DROPPING, which drops it. */
typedef enum { CS_WORDS_REGEX, CS_WORDS_LITERAL, CS_WORDS_REGEX_DROPPING } ce_words_kind;
cs_status ce_words_add(ce_words *words, const char *pattern, ce_words_kind kind);

extern const char ce_words_gpt2[], ce_words_qwen2[];

/* True if a text may be cut after a line that ends in a letter or digit and before a line that begins with a letter, so
 * that its parts, cut into words separately, give the same words. This holds for the patterns known here. */
bool ce_words_lines_part(const ce_words *words);

ce_cutters *ce_words_cutters(const ce_words *words);
void ce_words_release(ce_cutters *cutters); /* accepts NULL */

/* Calls `visit` for each piece, in order. */
typedef void (*ce_words_visit)(void *context, const char *word, size_t size);
void ce_words_each(ce_cutters *cutters, const char *text, size_t size, ce_words_visit visit, void *context);

#endif
