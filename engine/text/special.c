/* special.c - finds special tokens, which are matched literally in a text before it is cut into words. */
#include "text/special.h"
#include "base/must.h"
#include "text/unicode.h"

#include <stdlib.h>
#include <string.h>

void ce_special_add(ce_specials *specials, ce_special token)
{
    specials->tokens = ce_must_resize(specials->tokens, (size_t)(specials->count + 1) * sizeof *specials->tokens);
    specials->tokens[specials->count++] = token;
    if (token.size > 0)
        specials->begins[(unsigned char)token.text[0]] = true;
}

static int compare(const void *one, const void *other)
{
    const ce_special *a = one, *b = other;
    int order = memcmp(a->text, b->text, a->size < b->size ? a->size : b->size);
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

void ce_special_sort(ce_specials *specials)
{
    if (specials->count > 1)
        qsort(specials->tokens, (size_t)specials->count, sizeof *specials->tokens, compare);
}

static void free_texts(ce_special *token)
{
    free(token->text);
    free(token->content);
}

void ce_special_remove(ce_specials *specials, int32_t id)
{
    for (int64_t i = 0; i < specials->count; i++)
        if (specials->tokens[i].id == id) {
            free_texts(&specials->tokens[i]);
            specials->tokens[i--] = specials->tokens[--specials->count];
        }
}

void ce_special_free(ce_specials *specials)
{
    for (int64_t i = 0; i < specials->count; i++)
        free_texts(&specials->tokens[i]);
    free(specials->tokens);
    *specials = (ce_specials){ 0 };
}

/* Returns, by binary search, the first token in [low, high) whose byte at the offset `depth` is at least `byte`. The
 * tokens of this range are equal in all bytes before that offset. */
static int64_t first_from(const ce_specials *specials, int64_t low, int64_t high, size_t depth, int byte)
{
    while (low < high) {
        int64_t middle = (low + high) / 2;
        const ce_special *token = &specials->tokens[middle];
        if (token->size > depth && (unsigned char)token->text[depth] >= byte)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Returns the longest token at the beginning of `text`. The tokens that begin with the bytes compared so far form a
 * range of the sorted list, and each further byte makes this range smaller. */
static const ce_special *longest(const ce_specials *specials, const char *text, size_t size)
{
    const ce_special *best = NULL;
    int64_t low = 0, high = specials->count;
    for (size_t depth = 0; depth < size && low < high; depth++) {
        int byte = (unsigned char)text[depth];
        low = first_from(specials, low, high, depth, byte);
        high = first_from(specials, low, high, depth, byte + 1);
        if (low < high && specials->tokens[low].size == depth + 1)
            best = &specials->tokens[low];
    }
    return best;
}

const ce_special *ce_special_at(const ce_specials *specials, const char *text, size_t size)
{
    return size > 0 && specials->begins[(unsigned char)*text] ? longest(specials, text, size) : NULL;
}

const ce_special *ce_special_next(const ce_specials *specials, const char *text, size_t size, ce_special_match *match)
{
    for (size_t place = match->search; specials->count > 0 && place < size; place++) {
        while (place < size && !specials->begins[(unsigned char)text[place]])
            place++;
        const ce_special *token = ce_special_at(specials, text + place, size - place);
        if (!token)
            continue;
        size_t end = place + token->size;
        if (token->single_word && (ce_unicode_word_before(text, place) || ce_unicode_word_at(text, size, end))) {
            /* The token is no match, because it is a part of a word. The search continues behind the token. */
            place = end - 1;
            continue;
        }
        size_t first = token->strip_left ? ce_unicode_space_before(text, place) : place;
        match->search = end;
        match->from = token->strip_left && first < match->to ? match->to : first;
        match->to = token->strip_right ? ce_unicode_space_after(text, size, end) : end;
        return token;
    }
    return NULL;
}
