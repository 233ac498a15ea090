/* words.h - pre-tokenization: cuts a text into the words that are encoded one by one. */
#ifndef CS_TEXT_WORDS_H
#define CS_TEXT_WORDS_H

#include "text/pattern.h"
#include "text/span.h"

typedef struct ce_words ce_words;
typedef struct ce_cutters ce_cutters; /* working memory of one thread */

ce_words *ce_words_open(void);
void ce_words_close(ce_words *words); /* accepts NULL */

/* What becomes of the matches of a pattern: a piece each, dropped, one piece with the matches beside it, or a part of
 * the piece before or after it. What lies between matches is a piece. */
typedef enum {
    CS_WORDS_ISOLATED,
    CS_WORDS_REMOVED,
    CS_WORDS_CONTIGUOUS,
    CS_WORDS_WITH_PREVIOUS,
    CS_WORDS_WITH_NEXT
} ce_words_behavior;

typedef enum { CS_WORDS_PREFIX_NEVER, CS_WORDS_PREFIX_FIRST, CS_WORDS_PREFIX_ALWAYS } ce_words_prefix;

/* Each of these adds a round, which cuts or changes each piece so far. CS_UNSUPPORTED: there are too many.
 * - split: at a pattern, whose ownership is taken; `invert`: what lies between matches counts as matches.
 * - fixed: into pieces of so many characters.
 * - replaced: a space becomes `mark` (one character), which is also put in front of a piece that does not begin with
 *   it: of none, of the one with which the text begins, or of all. */
cs_status ce_words_add_split(ce_words *words, ce_pattern *pattern, ce_words_behavior behavior, bool invert);
cs_status ce_words_add_fixed(ce_words *words, size_t length);
cs_status ce_words_add_replaced(ce_words *words, const char *mark, ce_words_prefix prefix);

/* Adds a split at a pattern of the tokenizer's, or at one of ours. */
cs_status ce_words_add_regex(ce_words *words, const char *pattern);
cs_status ce_words_add_own(ce_words *words, const char *pattern, ce_words_behavior behavior, bool invert);

extern const char ce_words_gpt2[], ce_words_qwen2[];

/* Whether a text may be cut after a line that ends in a letter or digit and before a line that begins with a letter, so
 * that its parts, cut into words separately, give the same words: it may not; it may, because a word ends there; it may
 * if no token spans the place. */
typedef enum { CS_WORDS_NO_CUTS, CS_WORDS_CUTS, CS_WORDS_CUTS_IF_TOKENS_DO } ce_words_lines;
ce_words_lines ce_words_lines_part(const ce_words *words);

/* `continued` of a call: the text begins in the middle of a document, and its first piece gets no prefix. */
ce_cutters *ce_words_cutters(const ce_words *words);
void ce_words_release(ce_cutters *cutters); /* accepts NULL */

/* Calls `visit` for each piece, in order. */
typedef void (*ce_words_visit)(void *context, ce_span word);
void ce_words_each(ce_cutters *cutters, ce_span text, bool continued, ce_words_visit visit, void *context);

#endif
