/* unicode.h - UTF-8 repair, normalization form C (NFC) and two character classes, by means of utf8proc. */
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

/* Appends valid UTF-8 `text` in normalization form C. */
void ce_unicode_compose(ce_text *to, const char *text, size_t size);

/* True if the character that ends before `place` (ce_unicode_word_before) or begins at it (ce_unicode_word_at) belongs
 * to a word. */
bool ce_unicode_word_before(const char *text, size_t place);
bool ce_unicode_word_at(const char *text, size_t size, size_t place);
/* Offset at which the white space before `place` begins, or at which the white space at `place` ends. */
size_t ce_unicode_space_before(const char *text, size_t place);
size_t ce_unicode_space_after(const char *text, size_t size, size_t place);
/* Like Python's str.strip() for valid UTF-8: returns where the rest begins, and its length in *left. */
const char *ce_unicode_strip(const char *text, size_t size, size_t *left);

/* ---- code points of valid UTF-8 ---- */

/* The code point at `place`; *width is the number of its bytes. */
int32_t ce_unicode_point(const char *text, size_t size, size_t place, size_t *width);
void ce_unicode_append_point(ce_text *to, int32_t point);
size_t ce_unicode_length(const char *text, size_t size); /* in code points */
/* Python's str.isspace, str.isprintable and "has upper and lower case" of one character. */
bool ce_unicode_is_space(int32_t point);
bool ce_unicode_is_printable(int32_t point);
bool ce_unicode_is_cased(int32_t point);

/* CS_CASE_TITLE: every first letter of a run of letters with case is upper case. */
typedef enum { CS_CASE_UPPER, CS_CASE_LOWER, CS_CASE_TITLE } ce_unicode_case;
/* Appends the text in another case, one character for one, but for U+00DF ("SS") and U+0130. */
void ce_unicode_change_case(ce_text *to, const char *text, size_t size, ce_unicode_case which);

#endif
