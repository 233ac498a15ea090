/* normalizer.h - changes a text before it is cut into words: the normalizers of tokenizer.json, and SentencePiece's. */
#ifndef CE_TEXT_NORMALIZER_H
#define CE_TEXT_NORMALIZER_H

#include "json/json.h"
#include "text/pattern.h"
#include "text/span.h"
#include "text/special.h"

/* SentencePiece's table of characters and their replacements (precompiled_charsmap, charsmap.c): a double array that
 * finds the bytes of a rule, and the texts of the replacements. */
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

/* The rules of SentencePiece's normalizer_spec. */
typedef struct {
    bool add_prefix; /* add_dummy_prefix: a space is added before the text, or after it if `at_end` is true */
    /* True if the space is added only where the original text begins, not after each special token. */
    bool only_first;
    bool once;               /* True if no space is added before a text that begins with a space. */
    bool at_end;             /* value of treat_whitespace_as_suffix */
    bool remove_extra;       /* value of remove_extra_whitespaces */
    bool escape;             /* escape_whitespaces: a space is written as U+2581 */
    const ce_specials *kept; /* user-defined symbols, which the rules leave unchanged */
} ce_sentence_rules;

typedef enum {
    CE_NORMAL_PREPEND,
    CE_NORMAL_REPLACE,
    CE_NORMAL_FORM,
    CE_NORMAL_LOWERCASE,
    CE_NORMAL_STRIP,
    CE_NORMAL_DROP_MARKS,
    CE_NORMAL_NMT,
    CE_NORMAL_BYTES,
    CE_NORMAL_PRECOMPILED,
    CE_NORMAL_CLEAN,
    CE_NORMAL_CHINESE,
    CE_NORMAL_SENTENCE,
} ce_normal_kind;

typedef struct {
    ce_normal_kind kind;
    ce_pattern *pattern; /* for CE_NORMAL_REPLACE */
    char *content;       /* for CE_NORMAL_REPLACE and CE_NORMAL_PREPEND */
    ce_charsmap map;     /* for CE_NORMAL_PRECOMPILED and CE_NORMAL_SENTENCE */
    ce_unicode_form form;
    bool left, right; /* for CE_NORMAL_STRIP: which ends are stripped */
    bool nonspacing;  /* for CE_NORMAL_DROP_MARKS: true if only marks of the category Mn are dropped */
    ce_sentence_rules sentence;
} ce_normal_step;

enum { CE_NORMAL_MAX = 16 };

typedef struct {
    ce_normal_step steps[CE_NORMAL_MAX];
    int count;
} ce_normalizer;

/* Reads the value of "normalizer" in tokenizer.json. `path` is its place in the file, for messages. */
cs_status ce_normalizer_read(ce_normalizer *normalizer, const json_t *part, const char *path);
/* Adds an empty step of a kind. Returns CS_UNSUPPORTED if there are too many steps. */
cs_status ce_normalizer_add(ce_normalizer *normalizer, ce_normal_kind kind, ce_normal_step **step);
void ce_normalizer_free(ce_normalizer *normalizer);

/* True if a text may be divided at the beginnings of its lines. The normalized parts, one after the other, are then
 * equal to the normalized whole text. */
bool ce_normalizer_lines_part(const ce_normalizer *normalizer);

/* Working memory of one thread. */
typedef struct {
    ce_made made[2];
    ce_text scratch;
    ce_matcher *matcher;
    bool continued; /* True if the original text is a later part of a document. Such a text gets no prefix. */
} ce_normal_work;

/* Returns the normalized text, which is valid until the next call. */
ce_span ce_normalizer_apply(const ce_normalizer *normalizer, ce_normal_work *work, ce_span text);
void ce_normal_work_free(ce_normal_work *work);

#endif
