/* span.h - a span is a part of a text; for each of its bytes, the offset in the original text can be found.
 *
 * Normalizers and pre-tokenizers change a text step by step. Each step reads a span and writes a new text, together
 * with the offsets in the original text (after the repair of UTF-8). The targets of a chat and the prefix of a text's
 * first word depend on these offsets. */
#ifndef CE_TEXT_SPAN_H
#define CE_TEXT_SPAN_H

#include "text/unicode.h"

typedef struct {
    /* The byte at the offset `at` + i comes from the offset `from` + i of the original text, up to the next entry. */
    size_t at, from;
} ce_origin;

/* A text that a step has written. `cursor` is the index of the entry that was found last, because offsets are looked up
 * in ascending order. */
typedef struct {
    ce_text text;
    ce_origin *entries;
    size_t count, capacity, cursor;
} ce_made;

typedef struct {
    const char *bytes;
    size_t size;
    ce_made *made; /* text that contains the span, or NULL if that is the original text */
    size_t place;  /* offset of the span in the text that contains it */
} ce_span;

ce_span ce_span_part(ce_span span, size_t from, size_t size);
/* Returns the offset in the original text of the span's byte `at`. */
size_t ce_span_origin(ce_span span, size_t at);

/* ce_made_begin begins an empty text. ce_made_keep appends a copy of bytes of a span. ce_made_put appends new bytes
 * that replace the span's bytes from `at` on. If memory cannot be allocated, the process ends. */
void ce_made_begin(ce_made *made);
void ce_made_keep(ce_made *made, ce_span from, size_t at, size_t size);
void ce_made_put(ce_made *made, ce_span from, size_t at, const char *bytes, size_t size);
void ce_made_shorten(ce_made *made, size_t size); /* Drops all but the first `size` bytes. */
ce_span ce_made_span(ce_made *made);              /* Returns the whole text as a span. */
void ce_made_free(ce_made *made);

#endif
