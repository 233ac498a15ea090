/* words.h - pre-tokenization: cuts a text into the words that are encoded one by one. */
#ifndef CE_TEXT_WORDS_H
#define CE_TEXT_WORDS_H

#include "text/pattern.h"
#include "text/span.h"

typedef struct ce_words ce_words;
typedef struct ce_cutters ce_cutters; /* working memory of one thread */

ce_words *ce_words_open(void);
void ce_words_close(ce_words *words); /* accepts NULL */

/* What is done with each match of a pattern. The text between two matches is a piece. */
typedef enum {
    CE_WORDS_ISOLATED,      /* The match is a piece. */
    CE_WORDS_REMOVED,       /* The match is dropped. */
    CE_WORDS_CONTIGUOUS,    /* Adjacent matches together are a piece. */
    CE_WORDS_WITH_PREVIOUS, /* The match is a part of the piece before it. */
    CE_WORDS_WITH_NEXT      /* The match is a part of the piece after it. */
} ce_words_behavior;

typedef enum { CE_WORDS_PREFIX_NEVER, CE_WORDS_PREFIX_FIRST, CE_WORDS_PREFIX_ALWAYS } ce_words_prefix;

/* Each of these functions adds a round. A round cuts or changes each piece that the earlier rounds have made. The
 * functions return CS_UNSUPPORTED if there are too many rounds.
 * - split: cuts at the matches of `pattern`, and takes ownership of `pattern`, even if the call fails. With `invert`,
 *   the texts between the matches count as the matches.
 * - fixed: cuts into pieces of `length` characters.
 * - replaced: replaces each space by the character `mark`. `prefix` says which pieces also get a `mark` in front unless
 *   they begin with it or with a space: none, only the piece at the beginning of the text, or all pieces.
 * - bytes: writes each byte as its character of the alphabet of bytes (alphabet.h), so that later rounds cut at these
 *   characters. The pieces that are visited are the bytes again. No later round may be `replaced`. */
cs_status ce_words_add_split(ce_words *words, ce_pattern *pattern, ce_words_behavior behavior, bool invert);
cs_status ce_words_add_fixed(ce_words *words, size_t length);
cs_status ce_words_add_bytes(ce_words *words);
cs_status ce_words_add_replaced(ce_words *words, const char *mark, ce_words_prefix prefix);

/* ce_words_add_regex adds a split at an expression from the tokenizer's file, ce_words_add_own a split at an expression
 * of this program. */
cs_status ce_words_add_regex(ce_words *words, const char *pattern);
cs_status ce_words_add_own(ce_words *words, const char *pattern, ce_words_behavior behavior, bool invert);

extern const char ce_words_gpt2[], ce_words_qwen2[];

/* Tells whether a text may be cut between a line that ends in a letter or digit and a line that begins with a letter.
 * After such a cut the words of the two parts must be the words of the whole text. NO_CUTS: no cut is allowed. CUTS:
 * cuts are allowed, because a word ends there. CUTS_IF_TOKENS_DO: a cut is allowed if no token reaches across the line
 * break. */
typedef enum { CE_WORDS_NO_CUTS, CE_WORDS_CUTS, CE_WORDS_CUTS_IF_TOKENS_DO } ce_words_lines;
ce_words_lines ce_words_lines_part(const ce_words *words);

ce_cutters *ce_words_cutters(const ce_words *words);
void ce_words_release(ce_cutters *cutters); /* accepts NULL */

/* Calls `visit` for each piece, in order. If `continued` is true, the text is a later part of a document, so the first
 * piece gets no prefix. */
typedef void (*ce_words_visit)(void *context, ce_span word);
void ce_words_each(ce_cutters *cutters, ce_span text, bool continued, ce_words_visit visit, void *context);

#endif
