/* onig.h - translates the regular expressions of tokenizer.json, which are written for Oniguruma, to PCRE2.
 *
 * The syntax is the one that tokenizers uses (Ruby's). Where PCRE2 reads a construct differently, it is written in
 * another way with the same meaning. A construct that has no translation is refused, and the message names it. */
#ifndef CE_TEXT_ONIG_H
#define CE_TEXT_ONIG_H

#include "base/status.h"
#include "text/unicode.h"

/* Appends the translation and a NUL to `to`. Returns CS_UNSUPPORTED for a construct that is not translated. */
cs_status ce_onig_translate(ce_text *to, const char *pattern);

#endif
