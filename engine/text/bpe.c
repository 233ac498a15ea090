/* bpe.c - byte-pair encoding (BPE) of one word: merges neighbouring tokens until no merge applies.
 *
 * The merge with the lowest rank is applied first, and among merges with equal ranks the leftmost. A heap holds the
 * pairs of neighbouring tokens, so a word of n bytes takes time O(n log n). Results are cached by word, because most
 * words of a text occur again. */
#include "text/bpe.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

/* The cache has a slot for each BYTES_PER_SLOT bytes of its words. */
enum {
    BYTES_PER_SLOT = 16,
    LONGEST_REMEMBERED = 64,
    MIN_REMEMBERED = 1 << 12,
    MAX_REMEMBERED = 1 << 20,
    NOTHING = INT32_MAX
};

typedef struct {
    int32_t id, size, previous, next; /* A size of 0 means that the symbol was merged into the previous one. */
    /* Rank and result of the merge of this symbol and the next; the rank is NOTHING if the two do not merge. */
    int32_t rank, merged;
} symbol;

typedef struct {
    uint64_t hash;
    uint32_t word, tokens; /* offsets in the cache's arrays `words` and `tokens` */
    int32_t size, count;   /* A size of 0 means that the slot is free. */
} slot;

struct ce_bpe {
    const ce_lexicon *lexicon;
    symbol *symbols;
    uint64_t *heap; /* Each entry is rank << 32 | index of the pair's first token. */
    ce_bpe_token *found;
    ce_text written; /* scratch memory of find_character: the lexicon's prefix, a character, the lexicon's suffix */
    size_t capacity;
    int64_t heap_count;
    slot *slots;
    char *words;
    ce_bpe_token *tokens;
    uint32_t room, word_count, token_count; /* `room`: how many bytes of words the cache can hold */
};

/* Empties the cache, and gives it room for so many bytes of words. */
static void empty(ce_bpe *bpe, uint32_t room)
{
    if (room != bpe->room) {
        bpe->slots = ce_must_resize(bpe->slots, room / BYTES_PER_SLOT * sizeof *bpe->slots);
        bpe->words = ce_must_resize(bpe->words, room);
        bpe->tokens = ce_must_resize(bpe->tokens, room * sizeof *bpe->tokens);
    }
    memset(bpe->slots, 0, room / BYTES_PER_SLOT * sizeof *bpe->slots);
    bpe->room = room;
    bpe->word_count = bpe->token_count = 0;
}

ce_bpe *ce_bpe_open(const ce_lexicon *lexicon)
{
    ce_bpe *bpe = ce_must_alloc(sizeof *bpe);
    bpe->lexicon = lexicon;
    empty(bpe, MIN_REMEMBERED);
    return bpe;
}

void ce_bpe_close(ce_bpe *bpe)
{
    if (!bpe)
        return;
    ce_unicode_free(&bpe->written);
    free(bpe->symbols);
    free(bpe->heap);
    free(bpe->found);
    free(bpe->slots);
    free(bpe->words);
    free(bpe->tokens);
    free(bpe);
}

static void make_room(ce_bpe *bpe, size_t size)
{
    if (size <= bpe->capacity)
        return;
    bpe->capacity = 2 * size;
    bpe->symbols = ce_must_resize(bpe->symbols, bpe->capacity * sizeof *bpe->symbols);
    /* The heap gets one pair for each token, and at most two more after each merge. */
    bpe->heap = ce_must_resize(bpe->heap, 3 * bpe->capacity * sizeof *bpe->heap);
    bpe->found = ce_must_resize(bpe->found, bpe->capacity * sizeof *bpe->found);
}

/* ---- the heap ---- */

static void push(ce_bpe *bpe, uint64_t value)
{
    int64_t place = bpe->heap_count++;
    for (int64_t above; place > 0 && bpe->heap[above = (place - 1) / 2] > value; place = above)
        bpe->heap[place] = bpe->heap[above];
    bpe->heap[place] = value;
}

static uint64_t pop(ce_bpe *bpe)
{
    uint64_t *heap = bpe->heap, min = heap[0], last = heap[--bpe->heap_count];
    int64_t place = 0;
    for (int64_t below; (below = 2 * place + 1) < bpe->heap_count; place = below) {
        below += below + 1 < bpe->heap_count && heap[below + 1] < heap[below];
        if (heap[below] >= last)
            break;
        heap[place] = heap[below];
    }
    heap[place] = last;
    return min;
}

/* ---- merging ---- */

static void put_symbol(ce_bpe *bpe, int32_t *count, int32_t id, size_t size)
{
    bpe->symbols[(*count)++] = (symbol){ .id = id, .size = (int32_t)size };
}

static int32_t spell_bytes(ce_bpe *bpe, const char *word, size_t size)
{
    const ce_lexicon *lexicon = bpe->lexicon;
    int32_t count = 0;
    for (size_t i = 0; i < size; i++) {
        int32_t id = lexicon->bytes[(unsigned char)word[i]];
        bool unknown = id < 0;
        if (unknown)
            id = lexicon->unknown;
        if (count > 0 && unknown && (id < 0 || (lexicon->fuse_unknown && bpe->symbols[count - 1].id == id)))
            bpe->symbols[count - 1].size++;
        else if (id >= 0)
            put_symbol(bpe, &count, id, 1);
    }
    return count;
}

/* Returns the id of the token of one character, or -1 if there is no such token. For the search, the lexicon's prefix
 * is put before a character that is not the first of its word, and the lexicon's suffix behind a character that is the
 * last of its word. */
static int32_t find_character(ce_bpe *bpe, const char *character, size_t width, bool first, bool last)
{
    const ce_lexicon *lexicon = bpe->lexicon;
    if ((first || !lexicon->prefix) && (!last || !lexicon->suffix))
        return ce_lexicon_find(lexicon, character, width);
    bpe->written.size = 0;
    if (!first && lexicon->prefix)
        ce_unicode_append(&bpe->written, lexicon->prefix, strlen(lexicon->prefix));
    ce_unicode_append(&bpe->written, character, width);
    if (last && lexicon->suffix)
        ce_unicode_append(&bpe->written, lexicon->suffix, strlen(lexicon->suffix));
    return ce_lexicon_find(lexicon, bpe->written.bytes, bpe->written.size);
}

/* Writes a character as the tokens of its bytes. Returns false if the vocabulary lacks one of these tokens. */
static bool put_fallback(ce_bpe *bpe, int32_t *count, const char *character, size_t width)
{
    const int32_t *bytes = bpe->lexicon->bytes;
    for (size_t i = 0; i < width; i++)
        if (!bpe->lexicon->byte_fallback || bytes[(unsigned char)character[i]] < 0)
            return false;
    for (size_t i = 0; i < width; i++)
        put_symbol(bpe, count, bytes[(unsigned char)character[i]], 1);
    return true;
}

/* Writes a word as the tokens of its characters. As in Hugging Face's library, the token of an unknown character is
 * written late: before the next character that has a token of its own, or at the end of the word. Without fuse_unknown,
 * it is also written before the next unknown character. It is not written before a character that becomes the tokens of
 * its bytes. So the tokens of these bytes may come before the token of an earlier unknown character. */
static int32_t spell_characters(ce_bpe *bpe, const char *word, size_t size)
{
    const ce_lexicon *lexicon = bpe->lexicon;
    int32_t count = 0;
    size_t unknown = 0; /* number of bytes of the unknown characters whose token is not written yet */
    for (size_t place = 0, width; place < size; place += width) {
        width = 1;
        while (place + width < size && ((unsigned char)word[place + width] & 0xc0) == 0x80)
            width++;
        int32_t id = find_character(bpe, word + place, width, place == 0, place + width == size);
        if (id < 0 && put_fallback(bpe, &count, word + place, width))
            continue;
        if (unknown > 0 && (id >= 0 || !lexicon->fuse_unknown)) {
            put_symbol(bpe, &count, lexicon->unknown, unknown);
            unknown = 0;
        }
        if (id >= 0)
            put_symbol(bpe, &count, id, width);
        else if (lexicon->unknown >= 0)
            unknown += width;
        else if (count > 0)
            /* The character is dropped. */
            bpe->symbols[count - 1].size += (int32_t)width;
    }
    if (unknown > 0)
        put_symbol(bpe, &count, lexicon->unknown, unknown);
    return count;
}

static int32_t spell(ce_bpe *bpe, const char *word, size_t size)
{
    int32_t count = bpe->lexicon->is_bytes ? spell_bytes(bpe, word, size) : spell_characters(bpe, word, size);
    for (int32_t i = 0; i < count; i++) {
        bpe->symbols[i].previous = i - 1;
        bpe->symbols[i].next = i + 1 < count ? i + 1 : -1;
    }
    return count;
}

static void look(ce_bpe *bpe, int32_t place)
{
    symbol *left = &bpe->symbols[place];
    const ce_merge *merge =
        left->next < 0 ? NULL : ce_lexicon_merge(bpe->lexicon, left->id, bpe->symbols[left->next].id);
    left->rank = merge ? merge->rank : NOTHING;
    if (!merge)
        return;
    left->merged = merge->id;
    push(bpe, (uint64_t)(uint32_t)merge->rank << 32 | (uint32_t)place);
}

static void merge_next(ce_bpe *bpe, int32_t place)
{
    symbol *left = &bpe->symbols[place], *right = &bpe->symbols[left->next];
    left->id = left->merged;
    left->size += right->size;
    left->next = right->next;
    right->size = 0;
    if (left->next >= 0)
        bpe->symbols[left->next].previous = place;
    look(bpe, place);
    if (left->previous >= 0)
        look(bpe, left->previous);
}

/* True if the pair at `place` may be merged now. `rank` is the rank that the pair had when it was pushed. If the pair
 * has another rank now, it is merged only if its merge makes the same token as the merge number `rank`, as in Hugging
 * Face's library. */
static bool is_due(const ce_bpe *bpe, int32_t place, int32_t rank)
{
    const symbol *left = &bpe->symbols[place];
    if (left->size == 0 || left->rank == NOTHING)
        return false;
    return left->rank == rank || left->merged == bpe->lexicon->results[rank];
}

static int32_t merge_all(ce_bpe *bpe, const char *word, size_t size)
{
    int32_t whole = bpe->lexicon->whole_words ? ce_lexicon_find(bpe->lexicon, word, size) : -1;
    make_room(bpe, size);
    if (whole >= 0) {
        bpe->found[0] = (ce_bpe_token){ whole, (int32_t)size };
        return 1;
    }
    int32_t count = spell(bpe, word, size), kept = 0;
    bpe->heap_count = 0;
    for (int32_t i = 0; i < count; i++)
        look(bpe, i);
    while (bpe->heap_count > 0) {
        uint64_t min = pop(bpe);
        int32_t place = (int32_t)(uint32_t)min;
        if (is_due(bpe, place, (int32_t)(min >> 32)))
            merge_next(bpe, place);
    }
    for (int32_t i = 0; i >= 0 && i < count; i = bpe->symbols[i].next)
        bpe->found[kept++] = (ce_bpe_token){ bpe->symbols[i].id, bpe->symbols[i].size };
    return kept;
}

/* ---- the word cache ---- */

static void remember(ce_bpe *bpe, slot *free_slot, uint64_t hash, const char *word, size_t size, int32_t count)
{
    memcpy(bpe->words + bpe->word_count, word, size);
    memcpy(bpe->tokens + bpe->token_count, bpe->found, (size_t)count * sizeof *bpe->tokens);
    *free_slot = (slot){ hash, bpe->word_count, bpe->token_count, (int32_t)size, count };
    bpe->word_count += (uint32_t)size;
    bpe->token_count += (uint32_t)count;
}

/* Returns the cache slot of a word, or a free slot if the word is not cached. A full cache is emptied first, and
 * grows up to MAX_REMEMBERED. */
static slot *find_slot(ce_bpe *bpe, uint64_t hash, const char *word, size_t size)
{
    enum { TRIES = 8 };
    if (bpe->word_count + LONGEST_REMEMBERED > bpe->room)
        empty(bpe, bpe->room < MAX_REMEMBERED ? 4 * bpe->room : bpe->room);
    slot *last = NULL;
    for (uint64_t i = 0; i < TRIES; i++) {
        last = &bpe->slots[(hash + i) & (bpe->room / BYTES_PER_SLOT - 1)];
        if (last->size == 0 ||
            (last->hash == hash && last->size == (int32_t)size && memcmp(bpe->words + last->word, word, size) == 0))
            return last;
    }
    last->size = 0;
    return last;
}

const ce_bpe_token *ce_bpe_word(ce_bpe *bpe, const char *word, size_t size, int32_t *count)
{
    CE_ASSERT(size < INT32_MAX);
    if (size > LONGEST_REMEMBERED) {
        *count = merge_all(bpe, word, size);
        return bpe->found;
    }
    uint64_t hash = ce_lexicon_hash(word, size);
    slot *held = find_slot(bpe, hash, word, size);
    if (held->size == 0)
        remember(bpe, held, hash, word, size, merge_all(bpe, word, size));
    *count = held->count;
    return bpe->tokens + held->tokens;
}
