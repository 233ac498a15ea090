/* normalizer.h - changes a text before it is cut into words: the normalizers of tokenizer.json, and SentencePiece's. */
#ifndef CS_TEXT_NORMALIZER_H
#define CS_TEXT_NORMALIZER_H

#include "base/json.h"
#include "text/charsmap.h"
#include "text/pattern.h"
#include "text/span.h"
#include "text/special.h"

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
    CS_NORMAL_PREPEND,
    CS_NORMAL_REPLACE,
    CS_NORMAL_FORM,
    CS_NORMAL_LOWERCASE,
    CS_NORMAL_STRIP,
    CS_NORMAL_DROP_MARKS,
    CS_NORMAL_NMT,
    CS_NORMAL_BYTES,
    CS_NORMAL_PRECOMPILED,
    CS_NORMAL_CLEAN,
    CS_NORMAL_CHINESE,
    CS_NORMAL_SENTENCE,
} ce_normal_kind;

typedef struct {
    ce_normal_kind kind;
    ce_pattern *pattern; /* for CS_NORMAL_REPLACE */
    char *content;       /* for CS_NORMAL_REPLACE and CS_NORMAL_PREPEND */
    ce_charsmap map;     /* for CS_NORMAL_PRECOMPILED and CS_NORMAL_SENTENCE */
    ce_unicode_form form;
    bool left, right; /* for CS_NORMAL_STRIP: which ends are stripped */
    bool nonspacing;  /* for CS_NORMAL_DROP_MARKS: true if only marks of the category Mn are dropped */
    ce_sentence_rules sentence;
} ce_normal_step;

enum { CS_NORMAL_MAX = 16 };

typedef struct {
    ce_normal_step steps[CS_NORMAL_MAX];
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
