/* pattern.h - searches texts for the literal texts and regular expressions of a tokenizer, by means of PCRE2.
 *
 * The expressions of tokenizer.json are written for another engine (Oniguruma) and are translated (onig.c). */
#ifndef CE_TEXT_PATTERN_H
#define CE_TEXT_PATTERN_H

#include "base/status.h"
#include "text/unicode.h"

typedef struct ce_pattern ce_pattern; /* a pattern; it is read-only, so threads may share it */
typedef struct ce_matcher ce_matcher; /* working memory of one thread, for searches with any pattern */

/* CE_PATTERN_OWN: the expression is written in this program's own code, for PCRE2. */
typedef enum { CE_PATTERN_REGEX, CE_PATTERN_LITERAL, CE_PATTERN_OWN } ce_pattern_kind;

/* *pattern is NULL if the call fails. */
cs_status ce_pattern_open(ce_pattern **pattern, const char *text, ce_pattern_kind kind);
/* True if the expression, which is written for PCRE2, has no fault. */
bool ce_pattern_compiles(const char *pattern);
void ce_pattern_close(ce_pattern *pattern); /* accepts NULL */
/* Returns the text of a literal pattern, or NULL if the pattern is an expression. */
const char *ce_pattern_literal(const ce_pattern *pattern);

ce_matcher *ce_matcher_open(void);
void ce_matcher_close(ce_matcher *matcher); /* accepts NULL */

/* The state of the searches in one text. The caller zeroes the state before the first search. Matches do not overlap.
 * An empty match is not found where the match before it ends. */
typedef struct {
    size_t from, to;
    size_t search; /* offset where the next search begins */
    bool found;    /* True if an earlier search has found a match. */
} ce_match;
bool ce_pattern_next(const ce_pattern *pattern, ce_matcher *matcher, const char *text, size_t size, ce_match *match);

/* Translates an expression that is written for Oniguruma to PCRE2. The syntax is the one that tokenizers uses (Ruby's).
 * Where PCRE2 reads a construct differently, it is written in another way with the same meaning. Appends the translation
 * and a NUL to `to`. Returns CS_UNSUPPORTED, with its name in the message, for a construct that has no translation. */
cs_status ce_onig_translate(ce_text *to, const char *pattern);

#endif
