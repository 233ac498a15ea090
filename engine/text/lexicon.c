/* lexicon.c - vocabulary and merge table of a tokenizer: the text of each token, and which two tokens merge into which.
 */
#include "text/lexicon.h"
#include "base/must.h"
#include "text/alphabet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LARGEST_ID = 1 << 24, LONGEST_TOKEN = 1 << 16 };

/* ---- hashing ---- */

/* Computes a hash value, with one multiplication for each eight bytes. At the end the high bits are mixed into the low
 * bits, because hash tables use the low bits. */
uint64_t ce_lexicon_hash(const char *bytes, size_t size)
{
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    uint64_t hash = size * odd, part;
    for (; size >= sizeof part; bytes += sizeof part, size -= sizeof part) {
        memcpy(&part, bytes, sizeof part);
        hash = (hash ^ part) * odd;
        hash ^= hash >> 32;
    }
    part = 0;
    memcpy(&part, bytes, size);
    hash = (hash ^ part) * odd;
    return hash ^ hash >> 29;
}

static size_t capacity_for(size_t count)
{
    size_t capacity = 64;
    while (capacity < 2 * count)
        capacity *= 2;
    return capacity;
}

/* ---- tokens ---- */

static void grow(ce_lexicon *lexicon, int64_t size)
{
    if (size <= lexicon->size)
        return;
    size_t more = (size_t)(size - lexicon->size);
    lexicon->names = ce_must_resize(lexicon->names, (size_t)size * sizeof *lexicon->names);
    lexicon->pieces = ce_must_resize(lexicon->pieces, (size_t)size * sizeof *lexicon->pieces);
    memset(lexicon->names + lexicon->size, 0, more * sizeof *lexicon->names);
    memset(lexicon->pieces + lexicon->size, 0, more * sizeof *lexicon->pieces);
    lexicon->size = size;
}

static ce_lexicon_piece put_text(ce_lexicon *lexicon, const char *text, size_t size)
{
    ce_lexicon_piece piece = { (uint32_t)lexicon->text.size, (uint32_t)size };
    ce_unicode_append(&lexicon->text, text, size);
    return piece;
}

cs_status ce_lexicon_set(ce_lexicon *lexicon, int64_t id, const char *text, size_t size)
{
    if (id < 0 || id >= LARGEST_ID)
        return ce_fail(CS_BAD_FILE, "the id %lld of token %.60s is not from 0 to %d", (long long)id, text,
                       LARGEST_ID - 1);
    if (size == 0 || size > LONGEST_TOKEN)
        return ce_fail(CS_BAD_FILE, "token %lld has %zu bytes, not 1 to %d", (long long)id, size, LONGEST_TOKEN);
    grow(lexicon, id + 1);
    lexicon->names[id] = put_text(lexicon, text, size);
    if (lexicon->pieces[id].size == 0)
        lexicon->pieces[id] = lexicon->names[id];
    return CS_OK;
}

const char *ce_lexicon_name(const ce_lexicon *lexicon, int64_t id, size_t *size)
{
    *size = id >= 0 && id < lexicon->size ? lexicon->names[id].size : 0;
    return *size > 0 ? lexicon->text.bytes + lexicon->names[id].from : "";
}

int64_t ce_lexicon_named(const ce_lexicon *lexicon, const char *text, size_t size)
{
    for (int64_t id = 0; id < lexicon->size; id++)
        if (lexicon->names[id].size == size && memcmp(lexicon->text.bytes + lexicon->names[id].from, text, size) == 0)
            return id;
    return -1;
}

/* Returns the slot of a token in the index, or the free slot for it if the index does not contain it. */
static size_t place_of(const ce_lexicon *lexicon, const char *bytes, size_t size)
{
    size_t place = ce_lexicon_hash(bytes, size) & (lexicon->index_capacity - 1);
    for (; lexicon->index[place] >= 0; place = (place + 1) & (lexicon->index_capacity - 1)) {
        const ce_lexicon_piece *piece = &lexicon->pieces[lexicon->index[place]];
        if (piece->size == size && memcmp(lexicon->text.bytes + piece->from, bytes, size) == 0)
            break;
    }
    return place;
}

int32_t ce_lexicon_find(const ce_lexicon *lexicon, const char *bytes, size_t size)
{
    return lexicon->index ? lexicon->index[place_of(lexicon, bytes, size)] : -1;
}

cs_status ce_lexicon_add(ce_lexicon *lexicon, int64_t id, const char *text, size_t size)
{
    char bytes[LONGEST_TOKEN];
    int64_t count = lexicon->is_bytes && size <= LONGEST_TOKEN ? ce_alphabet_read(text, size, bytes) : 0;
    if (count < 0) /* A token with characters outside the alphabet of bytes never occurs in a word. */
        return ce_lexicon_set(lexicon, id, text, size);
    if (id >= 0 && id < lexicon->size && lexicon->pieces[id].size > 0)
        return ce_fail(CS_BAD_FILE, "two tokens have the id %lld; one is %.60s", (long long)id, text);
    CE_TRY(ce_lexicon_set(lexicon, id, text, size));
    if (count > 0)
        lexicon->pieces[id] = put_text(lexicon, bytes, (size_t)count);
    const ce_lexicon_piece *piece = &lexicon->pieces[id];
    lexicon->index[place_of(lexicon, lexicon->text.bytes + piece->from, piece->size)] = (int32_t)id;
    return CS_OK;
}

static cs_status add_tokens(ce_lexicon *lexicon, const json_t *ids)
{
    const char *token;
    json_t *id;
    /* The cast is safe, because json_object_foreach only reads. */
    json_object_foreach ((json_t *)(uintptr_t)ids, token, id) {
        size_t size = strlen(token);
        if (size == 0 && json_is_integer(id)) /* No text contains an empty token. */
            continue;
        CE_TRY(ce_lexicon_add(lexicon, json_is_integer(id) ? json_integer_value(id) : -1, token, size));
    }
    return CS_OK;
}

void ce_lexicon_find_bytes(ce_lexicon *lexicon)
{
    for (int byte = 0; byte < 256; byte++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned)byte);
        lexicon->bytes[byte] = lexicon->is_bytes ? ce_lexicon_find(lexicon, (const char[]){ (char)byte }, 1)
                                                 : ce_lexicon_find(lexicon, name, strlen(name));
    }
}

/* ---- merges ---- */

static size_t merge_place(const ce_lexicon *lexicon, uint64_t pair)
{
    uint64_t hash = pair * 0x9e3779b97f4a7c15u;
    size_t place = (hash ^ hash >> 32) & (lexicon->merge_capacity - 1);
    while (lexicon->merges[place].pair && lexicon->merges[place].pair != pair)
        place = (place + 1) & (lexicon->merge_capacity - 1);
    return place;
}

static uint64_t pair_of(int32_t left, int32_t right)
{
    return ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) + 1;
}

const ce_merge *ce_lexicon_merge(const ce_lexicon *lexicon, int32_t left, int32_t right)
{
    if ((left | right) < 0)
        return NULL;
    const ce_merge *found = &lexicon->merges[merge_place(lexicon, pair_of(left, right))];
    return found->pair ? found : NULL;
}

/* Splits a merge into its two halves: "a b" at the space, or the two members of a list. */
static bool read_halves(const json_t *merge, const char *half[2], size_t size[2])
{
    const char *text = json_string_value(merge), *space = text ? strchr(text, ' ') : NULL;
    for (size_t i = 0; i < 2; i++) {
        const json_t *member = json_array_get(merge, i);
        half[i] = text ? i && space ? space + 1 : text : json_string_value(member);
        if (!half[i])
            return false;
        size[i] = text && space && i == 0 ? (size_t)(space - text) : strlen(half[i]);
    }
    return text ? space && !strchr(space + 1, ' ') : json_array_size(merge) == 2;
}

void ce_lexicon_add_merge(ce_lexicon *lexicon, int32_t left, int32_t right, int32_t rank, int32_t id)
{
    uint64_t pair = pair_of(left, right);
    lexicon->merges[merge_place(lexicon, pair)] = (ce_merge){ pair, rank, id };
    lexicon->results[rank] = id;
}

/* Writes one half of a merge to `bytes`. If `is_bytes` is true, the characters are decoded to the bytes that they
 * represent; otherwise they are copied. Sets *id to the token of this half, or to -1 if there is no such token. Returns
 * the number of written bytes. */
static size_t read_half(const ce_lexicon *lexicon, const char *half, size_t size, char *bytes, int32_t *id)
{
    int64_t count = size > 0 && size <= LONGEST_TOKEN ? (int64_t)size : -1;
    if (count > 0 && lexicon->is_bytes)
        count = ce_alphabet_read(half, size, bytes);
    else if (count > 0)
        memcpy(bytes, half, size);
    *id = count > 0 ? ce_lexicon_find(lexicon, bytes, (size_t)count) : -1;
    return count > 0 ? (size_t)count : 0;
}

/* Reads one merge. If the vocabulary has a prefix, a token begins with the prefix unless it is the first token of a
 * word. The result of a merge is the left half, followed by the right half without the prefix. */
static cs_status read_merge(ce_lexicon *lexicon, const json_t *merge, size_t rank)
{
    const char *half[2];
    size_t size[2], prefix = lexicon->prefix ? strlen(lexicon->prefix) : 0;
    int32_t left, right, whole = -1;
    char bytes[2 * LONGEST_TOKEN];
    if (!read_halves(merge, half, size))
        return ce_fail(CS_BAD_FILE, "merges: entry %zu is not two tokens separated by a space", rank);
    size_t first = read_half(lexicon, half[0], size[0], bytes, &left);
    size_t second = read_half(lexicon, half[1], size[1], bytes + first, &right);
    if (left >= 0 && right >= 0 && second >= prefix) {
        memmove(bytes + first, bytes + first + prefix, second - prefix);
        whole = ce_lexicon_find(lexicon, bytes, first + second - prefix);
    }
    if (whole < 0)
        return ce_fail(CS_BAD_FILE,
                       "merges: entry %zu, '%.*s' and '%.*s': one of these tokens, or the token that they form, is "
                       "not in the vocabulary",
                       rank, (int)(size[0] < 60 ? size[0] : 60), half[0], (int)(size[1] < 60 ? size[1] : 60), half[1]);
    ce_lexicon_add_merge(lexicon, left, right, (int32_t)rank, whole);
    return CS_OK;
}

void ce_lexicon_reserve_tokens(ce_lexicon *lexicon, size_t tokens)
{
    lexicon->index_capacity = capacity_for(tokens);
    lexicon->index = ce_must_alloc(lexicon->index_capacity * sizeof *lexicon->index);
    memset(lexicon->index, -1, lexicon->index_capacity * sizeof *lexicon->index);
}

void ce_lexicon_reserve_merges(ce_lexicon *lexicon, size_t merges, size_t ranks)
{
    lexicon->merge_capacity = capacity_for(merges);
    lexicon->merges = ce_must_alloc(lexicon->merge_capacity * sizeof *lexicon->merges);
    lexicon->results = ce_must_alloc((ranks + 1) * sizeof *lexicon->results);
}

cs_status ce_lexicon_fill(ce_lexicon *lexicon, const json_t *ids, const json_t *merges)
{
    size_t rank;
    json_t *merge;
    if (!json_is_object(ids) || json_object_size(ids) == 0)
        return ce_fail(CS_BAD_FILE, "vocab is not an object of tokens and their ids");
    if (!json_is_array(merges) || json_array_size(merges) > INT32_MAX)
        return ce_fail(CS_BAD_FILE, "merges is not a list");
    ce_lexicon_reserve_tokens(lexicon, json_object_size(ids));
    ce_lexicon_reserve_merges(lexicon, json_array_size(merges), json_array_size(merges));
    CE_TRY(add_tokens(lexicon, ids));
    ce_lexicon_find_bytes(lexicon);
    json_array_foreach (merges, rank, merge)
        CE_TRY(read_merge(lexicon, merge, rank));
    return CS_OK;
}

void ce_lexicon_free(ce_lexicon *lexicon)
{
    ce_unicode_free(&lexicon->text);
    free(lexicon->names);
    free(lexicon->pieces);
    free(lexicon->index);
    free(lexicon->merges);
    free(lexicon->results);
    free(lexicon->prefix);
    free(lexicon->suffix);
    *lexicon = (ce_lexicon){ 0 };
}
