/* seams.c - finds places (seams) at which a word may be cut without changing its tokens.
 *
 * A place is a seam if no merge has both a left token that can end there and a right token that can begin there. The
 * merges on the two sides of the place are then independent of each other. */
#include "text/parts.h"

#include <string.h>

#define MARK "\xe2\x96\x81"
enum { MARK_SIZE = 3 };

static bool is_letter(char c)
{
    return (c | 32) >= 'a' && (c | 32) <= 'z';
}

static bool is_of_marks(const char *text, size_t size)
{
    for (; size >= MARK_SIZE && memcmp(text, MARK, MARK_SIZE) == 0; size -= MARK_SIZE)
        text += MARK_SIZE;
    return size == 0;
}

static bool begins_with_mark(const char *text, size_t size)
{
    return size >= MARK_SIZE && memcmp(text, MARK, MARK_SIZE) == 0;
}

/* False if a cut beside the character could change tokens: the character has no token, and fuse_unknown joins it with
 * unknown neighbours into one token. */
static bool is_known(const ce_lexicon *lexicon, const char *character)
{
    return lexicon->unknown < 0 || !lexicon->fuse_unknown ||
           ce_lexicon_find(lexicon, character, strlen(character)) >= 0;
}

static bool has_all_bytes(const ce_lexicon *lexicon)
{
    for (int byte = 0; byte < 256; byte++)
        if (lexicon->bytes[byte] < 0)
            return false;
    return lexicon->is_bytes || lexicon->byte_fallback;
}

ce_seams ce_seams_find(const ce_lexicon *lexicon)
{
    bool plain = !lexicon->prefix && !lexicon->suffix;
    ce_seams seams = { .marks = plain && !lexicon->is_bytes && !lexicon->whole_words &&
                                ce_lexicon_find(lexicon, MARK, MARK_SIZE) >= 0,
                       .lines = plain && (is_known(lexicon, "\n") || has_all_bytes(lexicon)) };
    for (size_t i = 0; i < lexicon->merge_capacity && (seams.marks || seams.lines); i++) {
        if (!lexicon->merges[i].pair)
            continue;
        uint64_t pair = lexicon->merges[i].pair - 1;
        ce_lexicon_piece left = lexicon->pieces[pair >> 32], right = lexicon->pieces[(uint32_t)pair];
        const char *before = lexicon->text.bytes + left.from, *behind = lexicon->text.bytes + right.from;
        if (begins_with_mark(behind, right.size) && !is_of_marks(before, left.size))
            seams.marks = false;
        if (before[left.size - 1] == '\n' && is_letter(*behind))
            seams.lines = false;
    }
    return seams;
}

size_t ce_seams_next(const char *word, size_t size)
{
    size_t place = 0;
    while (begins_with_mark(word + place, size - place))
        place += MARK_SIZE;
    while (place < size && (word[place] != *MARK || !begins_with_mark(word + place, size - place)))
        place++; /* This loop is faster than memmem, because words are short. */
    return place;
}
