/* words.c - pre-tokenization: cuts a text into the words that are encoded one by one. */
#include "text/words.h"
#include "base/must.h"
#include "text/alphabet.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ROUNDS = 16, MARK_BYTES = 8 };

typedef enum { SPLIT, FIXED, REPLACED, BYTES } round_kind;

typedef struct {
    round_kind kind;
    ce_pattern *pattern;
    ce_words_behavior behavior;
    bool invert;
    size_t length;
    char mark[MARK_BYTES];
    ce_words_prefix prefix;
} cut_round;

struct ce_words {
    cut_round rounds[MAX_ROUNDS];
    int count;
    /* True if a text that is cut between two lines may get other words than the whole text, because of one of the
     * rounds. */
    bool strange;
    bool has_bytes; /* True if one of the rounds is BYTES. */
    /* True if a round splits by a pattern that always ends a word before a line that begins with a letter. */
    bool known;
};

struct ce_cutters {
    const ce_words *words;
    ce_matcher *matcher;
    /* The text of the current piece, for each round that changes text; and the bytes of the piece that is visited, if a
     * round is BYTES. */
    ce_made made[MAX_ROUNDS + 1];
    ce_words_visit visit;
    void *visit_argument;
    bool continued;
};

const char ce_words_gpt2[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
#define QWEN2_LIKE(digits)                                                                                             \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                                               \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
const char ce_words_qwen2[] = QWEN2_LIKE("\\p{N}");

static bool is_known(const char *pattern)
{
    static const char *const known[] = { ce_words_gpt2, ce_words_qwen2, QWEN2_LIKE("\\p{N}{1,3}") };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], pattern) == 0)
            return true;
    return false;
}

/* True for patterns that match only digits. Their matches do not reach across lines. */
static bool is_of_digits(const char *pattern)
{
    static const char *const known[] = { "\\p{N}", "\\p{N}+", "\\p{N}{1,3}" };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], pattern) == 0)
            return true;
    return false;
}

/* ---- rounds ---- */

ce_words *ce_words_open(void)
{
    ce_words *words = ce_must_alloc(sizeof *words);
    return words;
}

void ce_words_close(ce_words *words)
{
    for (int i = 0; words && i < words->count; i++)
        ce_pattern_close(words->rounds[i].pattern);
    free(words);
}

static cs_status add(ce_words *words, cut_round round)
{
    if (words->count == MAX_ROUNDS) {
        ce_pattern_close(round.pattern);
        return ce_fail(CS_UNSUPPORTED, "not supported: more than %d steps of a pre_tokenizer", MAX_ROUNDS);
    }
    words->rounds[words->count++] = round;
    return CS_OK;
}

cs_status ce_words_add_split(ce_words *words, ce_pattern *pattern, ce_words_behavior behavior, bool invert)
{
    const char *literal = ce_pattern_literal(pattern);
    words->strange |= !literal || strchr(literal, '\n');
    return add(words, (cut_round){ .kind = SPLIT, .pattern = pattern, .behavior = behavior, .invert = invert });
}

cs_status ce_words_add_fixed(ce_words *words, size_t length)
{
    words->strange = true;
    return add(words, (cut_round){ .kind = FIXED, .length = length });
}

cs_status ce_words_add_bytes(ce_words *words)
{
    words->strange = words->has_bytes = true;
    return add(words, (cut_round){ .kind = BYTES });
}

cs_status ce_words_add_replaced(ce_words *words, const char *mark, ce_words_prefix prefix)
{
    cut_round round = { .kind = REPLACED, .prefix = prefix };
    CE_ASSERT(strlen(mark) < sizeof round.mark);
    strcpy(round.mark, mark);
    return add(words, round);
}

static cs_status add_known(ce_words *words, const char *text, ce_pattern_kind kind, ce_words_behavior behavior,
                           bool invert)
{
    ce_pattern *pattern;
    bool strange = words->strange;
    cs_status status = ce_pattern_open(&pattern, text, kind);
    if (status == CS_OK)
        status = ce_words_add_split(words, pattern, behavior, invert);
    if (!invert && behavior == CE_WORDS_ISOLATED && (is_known(text) || is_of_digits(text))) {
        words->known |= is_known(text);
        words->strange = strange;
    }
    return status;
}

cs_status ce_words_add_regex(ce_words *words, const char *pattern)
{
    return add_known(words, pattern, CE_PATTERN_REGEX, CE_WORDS_ISOLATED, false);
}

cs_status ce_words_add_own(ce_words *words, const char *pattern, ce_words_behavior behavior, bool invert)
{
    return add_known(words, pattern, CE_PATTERN_OWN, behavior, invert);
}

ce_words_lines ce_words_lines_part(const ce_words *words)
{
    return words->strange ? CE_WORDS_NO_CUTS : words->known ? CE_WORDS_CUTS : CE_WORDS_CUTS_IF_TOKENS_DO;
}

/* ---- cutting ---- */

ce_cutters *ce_words_cutters(const ce_words *words)
{
    ce_cutters *cutters = ce_must_alloc(sizeof *cutters);
    cutters->words = words;
    cutters->matcher = ce_matcher_open();
    return cutters;
}

void ce_words_release(ce_cutters *cutters)
{
    if (!cutters)
        return;
    for (int i = 0; i <= MAX_ROUNDS; i++)
        ce_made_free(&cutters->made[i]);
    ce_matcher_close(cutters->matcher);
    free(cutters);
}

static void cut(ce_cutters *cutters, int number, ce_span text);

static void emit(ce_cutters *cutters, int number, ce_span text, size_t from, size_t to)
{
    if (to > from)
        cut(cutters, number + 1, ce_span_part(text, from, to - from));
}

/* The last piece, which is held back because the next part of the text may still be joined to it. `is_match` is true if
 * the piece ends in a match. If `there` is false, no piece is held back. */
typedef struct {
    size_t from, to;
    bool is_match, there;
} held_piece;

/* `next` is the next part of the text: a match, or the text between two matches. Joins `next` to the piece `held`; or
 * passes `held` on to the next round, and begins a new piece with `next`. */
static void take(ce_cutters *cutters, int number, ce_span text, held_piece *held, held_piece next)
{
    ce_words_behavior behavior = cutters->words->rounds[number].behavior;
    bool joins = held->there && ((behavior == CE_WORDS_CONTIGUOUS && held->is_match == next.is_match) ||
                                 (behavior == CE_WORDS_WITH_PREVIOUS && !held->is_match && next.is_match) ||
                                 (behavior == CE_WORDS_WITH_NEXT && held->is_match && !next.is_match));
    if (joins) {
        held->to = next.to;
        held->is_match = next.is_match;
        return;
    }
    if (held->there)
        emit(cutters, number, text, held->from, held->to);
    *held = next;
    held->there = behavior != CE_WORDS_REMOVED || !next.is_match;
}

static void split(ce_cutters *cutters, int number, ce_span text)
{
    const cut_round *round = &cutters->words->rounds[number];
    held_piece held = { 0 };
    size_t done = 0;
    for (ce_match match = { 0 }; ce_pattern_next(round->pattern, cutters->matcher, text.bytes, text.size, &match);) {
        if (match.from > done)
            take(cutters, number, text, &held, (held_piece){ done, match.from, round->invert, true });
        take(cutters, number, text, &held, (held_piece){ match.from, match.to, !round->invert, true });
        done = match.to;
    }
    if (done < text.size)
        take(cutters, number, text, &held, (held_piece){ done, text.size, round->invert, true });
    if (held.there)
        emit(cutters, number, text, held.from, held.to);
}

static void cut_fixed(ce_cutters *cutters, int number, ce_span text)
{
    size_t length = cutters->words->rounds[number].length, from = 0, points = 0;
    for (size_t place = 0, width; place < text.size; place += width) {
        ce_unicode_point(text.bytes, text.size, place, &width);
        if (points++ == length) {
            emit(cutters, number, text, from, place);
            from = place;
            points = 1;
        }
    }
    emit(cutters, number, text, from, text.size);
}

static void replace_spaces(ce_cutters *cutters, int number, ce_span text)
{
    const cut_round *round = &cutters->words->rounds[number];
    ce_made *made = &cutters->made[number];
    size_t size = strlen(round->mark), done = 0;
    bool begins = *text.bytes == ' ' || (text.size >= size && memcmp(text.bytes, round->mark, size) == 0);
    bool first = ce_span_origin(text, 0) == 0;
    ce_made_begin(made);
    if (!begins && !(first && cutters->continued) &&
        (round->prefix == CE_WORDS_PREFIX_ALWAYS || (round->prefix == CE_WORDS_PREFIX_FIRST && first)))
        ce_made_put(made, text, 0, round->mark, size);
    for (const char *space; (space = memchr(text.bytes + done, ' ', text.size - done)) != NULL;) {
        size_t at = (size_t)(space - text.bytes);
        ce_made_keep(made, text, done, at - done);
        ce_made_put(made, text, at, round->mark, size);
        done = at + 1;
    }
    ce_made_keep(made, text, done, text.size - done);
    cut(cutters, number + 1, ce_made_span(made));
}

static void write_bytes(ce_cutters *cutters, int number, ce_span text)
{
    ce_made *made = &cutters->made[number];
    CE_CLOSED(ce_unicode_free) ce_text character = { 0 };
    ce_made_begin(made);
    for (size_t at = 0; at < text.size; at++) {
        character.size = 0;
        ce_unicode_append_point(&character, ce_alphabet_point((unsigned char)text.bytes[at]));
        ce_made_put(made, text, at, character.bytes, character.size);
    }
    cut(cutters, number + 1, ce_made_span(made));
}

/* Returns the bytes that the characters of `word` represent. */
static ce_span read_bytes(ce_cutters *cutters, ce_span word)
{
    char byte[2];
    ce_made *made = &cutters->made[MAX_ROUNDS];
    ce_made_begin(made);
    for (size_t at = 0, width; at < word.size; at += width) {
        width = (unsigned char)word.bytes[at] < 0x80 ? 1 : 2; /* The widths of the alphabet's characters in UTF-8. */
        CE_ASSERT(ce_alphabet_read(word.bytes + at, width, byte) == 1);
        ce_made_put(made, word, at, byte, 1);
    }
    return ce_made_span(made);
}

static void cut(ce_cutters *cutters, int number, ce_span text)
{
    if (number == cutters->words->count) {
        cutters->visit(cutters->visit_argument, cutters->words->has_bytes ? read_bytes(cutters, text) : text);
        return;
    }
    switch (cutters->words->rounds[number].kind) {
    case SPLIT:
        split(cutters, number, text);
        break;
    case FIXED:
        cut_fixed(cutters, number, text);
        break;
    case REPLACED:
        replace_spaces(cutters, number, text);
        break;
    case BYTES:
        write_bytes(cutters, number, text);
        break;
    }
}

void ce_words_each(ce_cutters *cutters, ce_span text, bool continued, ce_words_visit visit, void *context)
{
    cutters->visit = visit;
    cutters->visit_argument = context;
    cutters->continued = continued;
    if (text.size > 0)
        cut(cutters, 0, text);
}
