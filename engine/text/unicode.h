/* unicode.h - UTF-8 repair, normalization forms and character classes, by means of utf8proc. */
#ifndef CS_TEXT_UNICODE_H
#define CS_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing byte buffer. If memory cannot be allocated, the process ends. */
typedef struct {
    char *bytes;
    size_t size, room;
} ce_text;

void ce_unicode_append(ce_text *text, const char *bytes, size_t size);
void ce_unicode_free(ce_text *text);

/* Length of the longest prefix of `text` that is valid UTF-8. */
size_t ce_unicode_valid(const char *text, size_t size);
/* Appends `text`, with each maximal invalid part of a character replaced by one U+FFFD; returns the number of
 * replacements. */
int64_t ce_unicode_repair(ce_text *to, const char *text, size_t size);

typedef enum { CS_FORM_NFC, CS_FORM_NFD, CS_FORM_NFKC, CS_FORM_NFKD } ce_unicode_form;
/* Appends valid UTF-8 `text` in a normalization form. */
void ce_unicode_normalize(ce_text *to, ce_unicode_form form, const char *text, size_t size);
/* A quick test: true means that the text is in that form, false that this is not known. True for ASCII. */
bool ce_unicode_is_normal(ce_unicode_form form, const char *text, size_t size);

/* True if the character that ends before `place` (ce_unicode_word_before) or begins at it (ce_unicode_word_at) belongs
 * to a word. */
bool ce_unicode_word_before(const char *text, size_t place);
bool ce_unicode_word_at(const char *text, size_t size, size_t place);
/* Offset at which the white space before `place` begins, or at which the white space at `place` ends. */
size_t ce_unicode_space_before(const char *text, size_t place);
size_t ce_unicode_space_after(const char *text, size_t size, size_t place);
/* Like Python's str.strip() for valid UTF-8: returns the address at which the rest begins, and sets *left to the length
 * of the rest. */
const char *ce_unicode_strip(const char *text, size_t size, size_t *left);

/* ---- code points of valid UTF-8 ---- */

/* The code point at `place`; *width is the number of its bytes. */
int32_t ce_unicode_point(const char *text, size_t size, size_t place, size_t *width);
void ce_unicode_append_point(ce_text *to, int32_t point);
size_t ce_unicode_length(const char *text, size_t size); /* in code points */
/* Python's str.isspace, str.isprintable, and whether the character has upper and lower case, respectively. */
bool ce_unicode_is_space(int32_t point);
bool ce_unicode_is_printable(int32_t point);
bool ce_unicode_is_cased(int32_t point);
/* True for Unicode's property White_Space; for the categories M, or only Mn; and for the categories Cc, Cf, Cs and Co,
 * respectively. */
bool ce_unicode_is_white(int32_t point);
bool ce_unicode_is_mark(int32_t point, bool only_nonspacing);
bool ce_unicode_is_control(int32_t point);
/* Appends the lower case of one character. */
void ce_unicode_append_lower(ce_text *to, int32_t point);
/* End of the grapheme cluster that begins at `place`. */
size_t ce_unicode_grapheme(const char *text, size_t size, size_t place);

/* CS_CASE_TITLE: the first letter of each run of letters with case is upper case, and the others are lower case. */
typedef enum { CS_CASE_UPPER, CS_CASE_LOWER, CS_CASE_TITLE } ce_unicode_case;
/* Appends the text in another case. Each character becomes one character; the exceptions are U+00DF ("SS") and
 * U+0130. */
void ce_unicode_change_case(ce_text *to, const char *text, size_t size, ce_unicode_case which);

#endif
