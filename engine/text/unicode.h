/* unicode.h - UTF-8 repair, normalization forms and character classes, by means of utf8proc. */
#ifndef CE_TEXT_UNICODE_H
#define CE_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing byte buffer. If memory cannot be allocated, the process ends. */
typedef struct {
    char *bytes;
    size_t size, capacity;
} ce_text;

void ce_unicode_append(ce_text *text, const char *bytes, size_t size);
void ce_unicode_free(ce_text *text);

/* Returns the length of the longest prefix of `text` that is valid UTF-8. */
size_t ce_unicode_valid(const char *text, size_t size);
/* Appends `text`, in which one U+FFFD replaces each maximal invalid part of a character. Returns the number of
 * replacements. */
int64_t ce_unicode_repair(ce_text *to, const char *text, size_t size);

typedef enum { CE_FORM_NFC, CE_FORM_NFD, CE_FORM_NFKC, CE_FORM_NFKD } ce_unicode_form;
/* Appends `text`, which must be valid UTF-8, in a normalization form. */
void ce_unicode_normalize(ce_text *to, ce_unicode_form form, const char *text, size_t size);
/* Tests quickly whether a text is in a normalization form. False means that this is not known. The result is true for
 * ASCII. */
bool ce_unicode_is_normal(ce_unicode_form form, const char *text, size_t size);

/* ce_unicode_word_before is true if the character that ends before `place` belongs to a word; ce_unicode_word_at is
 * true if the character that begins at `place` does. */
bool ce_unicode_word_before(const char *text, size_t place);
bool ce_unicode_word_at(const char *text, size_t size, size_t place);
/* ce_unicode_space_before returns the offset where the white space before `place` begins, and ce_unicode_space_after
 * the offset where the white space at `place` ends. */
size_t ce_unicode_space_before(const char *text, size_t place);
size_t ce_unicode_space_after(const char *text, size_t size, size_t place);
/* Removes white space at both ends of valid UTF-8 as Python's str.strip() does. Returns the address at which the
 * remaining text begins, and sets *left to its length. */
const char *ce_unicode_strip(const char *text, size_t size, size_t *left);

/* ---- code points of valid UTF-8 ---- */

/* Returns the code point at `place`, and sets *width to the number of its bytes. */
int32_t ce_unicode_point(const char *text, size_t size, size_t place, size_t *width);
void ce_unicode_append_point(ce_text *to, int32_t point);
size_t ce_unicode_length(const char *text, size_t size); /* Returns the length in code points. */
/* ce_unicode_is_space and ce_unicode_is_printable return what Python's str.isspace and str.isprintable return.
 * ce_unicode_is_cased is true for letters of the categories Lu, Ll and Lt. */
bool ce_unicode_is_space(int32_t point);
bool ce_unicode_is_printable(int32_t point);
bool ce_unicode_is_cased(int32_t point);
/* ce_unicode_is_white is true for characters with Unicode's property White_Space, ce_unicode_is_mark for those of the
 * categories M (or only Mn), and ce_unicode_is_control for those of Cc, Cf, Cs and Co. */
bool ce_unicode_is_white(int32_t point);
bool ce_unicode_is_mark(int32_t point, bool only_nonspacing);
bool ce_unicode_is_control(int32_t point);
/* Appends one character in lower case. The result may be several characters. */
void ce_unicode_append_lower(ce_text *to, int32_t point);
/* Returns the end of the grapheme cluster that begins at `place`. */
size_t ce_unicode_grapheme(const char *text, size_t size, size_t place);

/* CE_CASE_TITLE writes the first letter of each run of letters that have case in upper case, and the others in lower
 * case. */
typedef enum { CE_CASE_UPPER, CE_CASE_LOWER, CE_CASE_TITLE } ce_unicode_case;
/* Appends the text in another case. Each character becomes one character, except U+00DF ("SS") and U+0130. */
void ce_unicode_change_case(ce_text *to, const char *text, size_t size, ce_unicode_case which);

#endif
