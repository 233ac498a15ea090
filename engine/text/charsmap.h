/* charsmap.h - SentencePiece's table of characters and their replacements (precompiled_charsmap): a double array that
 * finds the bytes of a rule, and the texts of the replacements. */
#ifndef CE_TEXT_CHARSMAP_H
#define CE_TEXT_CHARSMAP_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t *units;
    size_t count;
    char *texts; /* Each text ends in a NUL. */
    size_t size;
} ce_charsmap;

/* Copies a table. Returns CS_BAD_FILE if it is damaged. */
cs_status ce_charsmap_open(ce_charsmap *map, const char *blob, size_t size);
void ce_charsmap_close(ce_charsmap *map);

/* Finds the longest rule that matches the beginning of the text, or the shortest if `longest` is false. Returns the
 * replacement and sets *length to the number of bytes that match. Returns NULL if no rule matches. */
const char *ce_charsmap_find(const ce_charsmap *map, const char *text, size_t size, bool longest, size_t *length);

#endif
