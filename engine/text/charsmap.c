/* charsmap.c - SentencePiece's table of characters and their replacements.
 *
 * The table has three parts: a little-endian 32-bit size, a double array of that many bytes in the form of the library
 * Darts-clone, and the texts of the replacements. An element of the double array is a node of a trie: it has a label in
 * bits 0 to 7 and 31, and an offset to its children in bits 10 to 30 (times 256 if bit 9 is set). If bit 8 is set, a
 * rule ends at this node. One of its children is then a leaf, and bits 0 to 30 of the leaf are the offset of the
 * replacement in the texts. */
#include "text/normalizer.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

cs_status ce_charsmap_open(ce_charsmap *map, const char *blob, size_t size)
{
    uint32_t bytes = 0;
    for (size_t i = 0; i < 4 && i < size; i++)
        bytes |= (uint32_t)(unsigned char)blob[i] << 8 * i;
    if (size < 4 || bytes > size - 4 || bytes < 4 || bytes % 4 != 0)
        return ce_fail(CS_BAD_FILE, "precompiled_charsmap is damaged: a table of %u bytes in %zu bytes", bytes, size);
    map->count = bytes / 4;
    map->size = size - 4 - bytes;
    map->units = ce_must_alloc(bytes);
    map->texts = ce_must_alloc(map->size + 1);
    for (size_t i = 0; i < map->count; i++) {
        const unsigned char *from = (const unsigned char *)blob + 4 + 4 * i;
        map->units[i] = from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
    }
    memcpy(map->texts, blob + 4 + bytes, map->size);
    return CS_OK;
}

void ce_charsmap_close(ce_charsmap *map)
{
    free(map->units);
    free(map->texts);
    *map = (ce_charsmap){ 0 };
}

static size_t children(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 1u << 9) >> 6);
}

const char *ce_charsmap_find(const ce_charsmap *map, const char *text, size_t size, bool longest, size_t *length)
{
    const char *found = NULL;
    size_t place = map->count > 0 ? children(map->units[0]) : 0;
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)text[i];
        place ^= byte;
        if (place >= map->count || (map->units[place] & (1u << 31 | 0xff)) != byte)
            break;
        bool ends = map->units[place] >> 8 & 1;
        place ^= children(map->units[place]);
        if (!ends || place >= map->count)
            continue;
        uint32_t where = map->units[place] & ~(1u << 31);
        if (where > map->size)
            break;
        found = map->texts + where;
        *length = i + 1;
        if (!longest)
            break;
    }
    return found;
}
