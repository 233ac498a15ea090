/* span.h - a stretch of text that remembers where in the original text each of its bytes comes from.
 *
 * Normalizers and pre-tokenizers change a text step by step. Each step reads a span and writes a new text; the places
 * in the original text (after the repair of UTF-8) go with it, because the targets of a chat and the prefix of a text's
 * first word depend on them. */
#ifndef CS_TEXT_SPAN_H
#define CS_TEXT_SPAN_H

#include "text/unicode.h"

typedef struct {
    size_t at, from; /* the bytes from `at` on come from `from` on, up to the next entry */
} ce_origin;

/* A text made by a step. `cursor` is the entry that was found last, because places are looked up in ascending order. */
typedef struct {
    ce_text text;
    ce_origin *entries;
    size_t count, room, cursor;
} ce_made;

typedef struct {
    const char *bytes;
    size_t size;
    ce_made *made; /* the text that contains the span; NULL: the original text */
    size_t place;  /* offset in that text */
} ce_span;

ce_span ce_span_part(ce_span span, size_t from, size_t size);
/* Offset in the original text of byte `at` of the span. */
size_t ce_span_origin(ce_span span, size_t at);

/* ce_made_begin begins an empty text, and the next two functions append to it. ce_made_keep copies bytes of a span;
 * ce_made_put appends new bytes that replace those of the span from `at` on. If memory cannot be allocated, the process
 * ends. */
void ce_made_begin(ce_made *made);
void ce_made_keep(ce_made *made, ce_span from, size_t at, size_t size);
void ce_made_put(ce_made *made, ce_span from, size_t at, const char *bytes, size_t size);
void ce_made_shorten(ce_made *made, size_t size); /* keeps the first `size` bytes */
ce_span ce_made_span(ce_made *made);              /* the whole text */
void ce_made_free(ce_made *made);

#endif
