/* unicode.h - repair, normalization form C, and two classes of characters: utf8proc's one door. */
#ifndef CS_TEXT_UNICODE_H
#define CS_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A growing row of bytes; memory that is not there ends the process. */
typedef struct {
    char *bytes;
    size_t size, room;
} cs_text;

void cs_unicode_append(cs_text *text, const char *bytes, size_t size);
void cs_unicode_free(cs_text *text);

/* The length of the longest valid beginning of `text`. */
size_t cs_unicode_valid(const char *text, size_t size);
/* Appends `text`, each longest broken beginning of a character as one U+FFFD; how many those were. */
int64_t cs_unicode_repair(cs_text *to, const char *text, size_t size);

/* Appends valid `text` in normalization form C. */
void cs_unicode_compose(cs_text *to, const char *text, size_t size);

/* The character that ends before, or begins at, `text + place` is of a word. */
bool cs_unicode_word_before(const char *text, size_t place);
bool cs_unicode_word_at(const char *text, size_t size, size_t place);
/* The white space before `place` begins here; that at `place` ends here. */
size_t cs_unicode_space_before(const char *text, size_t place);
size_t cs_unicode_space_after(const char *text, size_t size, size_t place);
/* What Python's str.strip() leaves of `text`, valid UTF-8: where it begins, and its length in *left. */
const char *cs_unicode_strip(const char *text, size_t size, size_t *left);

#endif
