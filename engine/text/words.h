/* words.h - pre-tokenization: cuts a text into the words that are encoded one by one. */
#ifndef CS_TEXT_WORDS_H
#define CS_TEXT_WORDS_H

#include "text/pattern.h"
#include "text/span.h"

typedef struct ce_words ce_words;
typedef struct ce_cutters ce_cutters; /* working memory of one thread */

ce_words *ce_words_open(void);
void ce_words_close(ce_words *words); /* accepts NULL */

/* What becomes of each match of a pattern. The text between two matches is a piece. */
typedef enum {
    CS_WORDS_ISOLATED,      /* the match is a piece */
    CS_WORDS_REMOVED,       /* the match is dropped */
    CS_WORDS_CONTIGUOUS,    /* adjacent matches together are a piece */
    CS_WORDS_WITH_PREVIOUS, /* the match is a part of the piece before it */
    CS_WORDS_WITH_NEXT      /* the match is a part of the piece after it */
} ce_words_behavior;

typedef enum { CS_WORDS_PREFIX_NEVER, CS_WORDS_PREFIX_FIRST, CS_WORDS_PREFIX_ALWAYS } ce_words_prefix;

/* Each of these functions adds a round, which cuts or changes each piece that the rounds before it have made.
 * CS_UNSUPPORTED: there are too many rounds.
 * - split: cuts at a pattern, of which it takes ownership. `invert`: the texts between matches count as the matches.
 * - fixed: cuts into pieces of `length` characters.
 * - replaced: replaces each space by `mark` (one character). `prefix` says which pieces also get a `mark` in front,
 *   unless they begin with it or with a space: none, only the piece at the beginning of the text, or all. */
cs_status ce_words_add_split(ce_words *words, ce_pattern *pattern, ce_words_behavior behavior, bool invert);
cs_status ce_words_add_fixed(ce_words *words, size_t length);
cs_status ce_words_add_replaced(ce_words *words, const char *mark, ce_words_prefix prefix);

/* ce_words_add_regex adds a split at a pattern of the tokenizer, and ce_words_add_own one at a pattern of this
 * program. */
cs_status ce_words_add_regex(ce_words *words, const char *pattern);
cs_status ce_words_add_own(ce_words *words, const char *pattern, ce_words_behavior behavior, bool invert);

extern const char ce_words_gpt2[], ce_words_qwen2[];

/* Tells whether a text may be cut after a line that ends in a letter or digit and before a line that begins with a
 * letter, so that the two parts, cut into words separately, give the same words. NO_CUTS: it may not. CUTS: it may,
 * because a word ends there. CUTS_IF_TOKENS_DO: it may if no token spans the place. */
typedef enum { CS_WORDS_NO_CUTS, CS_WORDS_CUTS, CS_WORDS_CUTS_IF_TOKENS_DO } ce_words_lines;
ce_words_lines ce_words_lines_part(const ce_words *words);

ce_cutters *ce_words_cutters(const ce_words *words);
void ce_words_release(ce_cutters *cutters); /* accepts NULL */

/* Calls `visit` for each piece, in order. `continued`: the text begins in the middle of a document, and its first piece
 * gets no prefix. */
typedef void (*ce_words_visit)(void *context, ce_span word);
void ce_words_each(ce_cutters *cutters, ce_span text, bool continued, ce_words_visit visit, void *context);

#endif
