/* lexicon.c - vocabulary and merge table of a tokenizer: the bytes of each token, and which two tokens merge into
 * which. */
#include "text/lexicon.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

enum { LARGEST_ID = 1 << 24, LONGEST_TOKEN = 1 << 16 };

/* ---- the byte-to-character map ----
 * Byte-level BPE writes the 256 bytes as 256 characters in a vocabulary. Printable bytes of Latin-1 are represented by
 * themselves; the other 68, in ascending order, by U+0100 to U+0143. Therefore no byte is written as a space, and a
 * vocabulary is readable text. */

static bool is_printable(int byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
}

static int byte_of(int point)
{
    if (point < 0x100)
        return is_printable(point) ? point : -1;
    for (int byte = 0, next = 0x100; byte < 0x100; byte++)
        if (!is_printable(byte) && next++ == point)
            return byte;
    return -1;
}

/* Decodes `size` bytes of UTF-8 at `token` to the bytes that its characters stand for. `bytes` must have room for
 * `size` bytes. Returns the number of bytes, or -1 if a character is not in the map. */
static int64_t read_token(const char *token, size_t size, char *bytes)
{
    int64_t count = 0;
    for (size_t i = 0; i < size; i++) {
        int point = (unsigned char)token[i];
        if (point >= 0x80) { /* every character of the map beyond ASCII has two bytes in UTF-8 */
            if ((point & 0xe0) != 0xc0 || i + 1 == size)
                return -1;
            point = (point & 0x1f) << 6 | ((unsigned char)token[++i] & 0x3f);
        }
        int byte = byte_of(point);
        if (byte < 0)
            return -1;
        bytes[count++] = (char)byte;
    }
    return count;
}

/* ---- hashing ---- */

/* Hashes eight bytes with each multiplication. The high bits are mixed into the low bits at the end, because hash
 * tables use the low ones. */
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

static size_t room_for(size_t count)
{
    size_t room = 64;
    while (room < 2 * count)
        room *= 2;
    return room;
}

/* ---- tokens ---- */

static void grow(ce_lexicon *lexicon, int64_t size)
{
    if (size <= lexicon->size)
        return;
    lexicon->pieces = realloc(lexicon->pieces, (size_t)size * sizeof *lexicon->pieces);
    CS_ASSERT(lexicon->pieces);
    memset(lexicon->pieces + lexicon->size, 0, (size_t)(size - lexicon->size) * sizeof *lexicon->pieces);
    lexicon->size = size;
}

cs_status ce_lexicon_set(ce_lexicon *lexicon, int64_t id, const char *text, size_t size)
{
    if (id < 0 || id >= LARGEST_ID)
        return ce_fail(CS_BAD_FILE, "the id %lld of token %.60s is not from 0 to %d", (long long)id, text,
                       LARGEST_ID - 1);
    if (size == 0 || size > LONGEST_TOKEN)
        return ce_fail(CS_BAD_FILE, "token %lld has %zu bytes, not 1 to %d", (long long)id, size, LONGEST_TOKEN);
    grow(lexicon, id + 1);
    lexicon->pieces[id] = (ce_lexicon_piece){ (uint32_t)lexicon->text.size, (uint32_t)size };
    ce_unicode_append(&lexicon->text, text, size);
    return CS_OK;
}

/* Slot of these bytes in the index, or the free slot in which they would be. */
static size_t place_of(const ce_lexicon *lexicon, const char *bytes, size_t size)
{
    size_t place = ce_lexicon_hash(bytes, size) & (lexicon->index_room - 1);
    for (; lexicon->index[place] >= 0; place = (place + 1) & (lexicon->index_room - 1)) {
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

/* Adds a token. Only a token written in the characters of byte-level BPE can result from merges; any other token is
 * only decoded, as its text. */
static cs_status add_token(ce_lexicon *lexicon, const char *token, const json_t *value)
{
    size_t size = strlen(token);
    int64_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (size > LONGEST_TOKEN)
        return ce_fail(CS_BAD_FILE, "a token of %zu bytes is too long", size);
    char bytes[LONGEST_TOKEN];
    int64_t count = read_token(token, size, bytes);
    if (count <= 0)
        return ce_lexicon_set(lexicon, id, token, size);
    if (id >= 0 && id < lexicon->size && lexicon->pieces[id].size > 0)
        return ce_fail(CS_BAD_FILE, "two tokens have the id %lld; one is %.60s", (long long)id, token);
    size_t place = place_of(lexicon, bytes, (size_t)count);
    CS_TRY(ce_lexicon_set(lexicon, id, bytes, (size_t)count));
    lexicon->index[place] = (int32_t)id;
    return CS_OK;
}

static cs_status add_tokens(ce_lexicon *lexicon, const json_t *ids)
{
    const char *token;
    json_t *id;
    lexicon->index_room = room_for(json_object_size(ids));
    lexicon->index = malloc(lexicon->index_room * sizeof *lexicon->index);
    CS_ASSERT(lexicon->index);
    memset(lexicon->index, -1, lexicon->index_room * sizeof *lexicon->index);
    json_object_foreach ((json_t *)(uintptr_t)ids, token, id) /* json_object_foreach only reads */
        CS_TRY(add_token(lexicon, token, id));
    for (int byte = 0; byte < 256; byte++)
        lexicon->bytes[byte] = ce_lexicon_find(lexicon, (const char[]){ (char)byte }, 1);
    return CS_OK;
}

/* ---- merges ---- */

static size_t merge_place(const ce_lexicon *lexicon, uint64_t pair)
{
    uint64_t hash = pair * 0x9e3779b97f4a7c15u;
    size_t place = (hash ^ hash >> 32) & (lexicon->merge_room - 1);
    while (lexicon->merges[place].pair && lexicon->merges[place].pair != pair)
        place = (place + 1) & (lexicon->merge_room - 1);
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

/* Splits a merge into its halves: "a b" at the space, or the two members of a list. */
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

static cs_status add_merge(ce_lexicon *lexicon, const json_t *merge, size_t rank)
{
    const char *half[2];
    size_t size[2], total = 0;
    int32_t id[2] = { -1, -1 };
    char bytes[2 * LONGEST_TOKEN];
    if (!read_halves(merge, half, size))
        return ce_fail(CS_BAD_FILE, "merge %zu is not two tokens", rank);
    for (int i = 0; i < 2; i++) {
        int64_t count = size[i] > 0 && size[i] <= LONGEST_TOKEN ? read_token(half[i], size[i], bytes + total) : -1;
        if (count > 0)
            id[i] = ce_lexicon_find(lexicon, bytes + total, (size_t)count);
        total += count > 0 ? (size_t)count : 0;
    }
    int32_t whole = id[0] >= 0 && id[1] >= 0 ? ce_lexicon_find(lexicon, bytes, total) : -1;
    if (whole < 0)
        return ce_fail(CS_BAD_FILE,
                       "merge %zu, of '%.*s' and '%.*s', is of or into a token that is not in the vocabulary", rank,
                       (int)(size[0] < 60 ? size[0] : 60), half[0], (int)(size[1] < 60 ? size[1] : 60), half[1]);
    uint64_t pair = pair_of(id[0], id[1]);
    size_t place = merge_place(lexicon, pair);
    lexicon->merges[place] = (ce_merge){ pair, (int32_t)rank, whole };
    return CS_OK;
}

cs_status ce_lexicon_fill(ce_lexicon *lexicon, const json_t *ids, const json_t *merges)
{
    size_t rank;
    json_t *merge;
    if (!json_is_object(ids) || json_object_size(ids) == 0)
        return ce_fail(CS_BAD_FILE, "vocab is not an object of tokens and their ids");
    if (!json_is_array(merges) || json_array_size(merges) > INT32_MAX)
        return ce_fail(CS_BAD_FILE, "merges is not a list");
    CS_TRY(add_tokens(lexicon, ids));
    lexicon->merge_room = room_for(json_array_size(merges));
    lexicon->merges = calloc(lexicon->merge_room, sizeof *lexicon->merges);
    CS_ASSERT(lexicon->merges);
    json_array_foreach (merges, rank, merge)
        CS_TRY(add_merge(lexicon, merge, rank));
    return CS_OK;
}

void ce_lexicon_free(ce_lexicon *lexicon)
{
    ce_unicode_free(&lexicon->text);
    free(lexicon->pieces);
    free(lexicon->index);
    free(lexicon->merges);
    *lexicon = (ce_lexicon){ 0 };
}
