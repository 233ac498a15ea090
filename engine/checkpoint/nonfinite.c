/* nonfinite.c - parameters that hold an infinity or a NaN are not saved: a float is neither unless all bits of its
 * exponent are ones. */
#include "checkpoint/nonfinite.h"
#include "base/status.h"

#include <string.h>

/* No early end, so that compilers use vectors. */
static bool holds_wide(const char *data, int64_t count)
{
    uint32_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, data + (size_t)i * sizeof bits, sizeof bits);
        found |= (bits & 0x7f800000u) == 0x7f800000u;
    }
    return found != 0;
}

static bool holds_half(const char *data, int64_t count, uint16_t exponent)
{
    uint16_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        uint16_t bits;
        memcpy(&bits, data + (size_t)i * sizeof bits, sizeof bits);
        found = (uint16_t)(found | ((bits & exponent) == exponent));
    }
    return found != 0;
}

static bool holds(const cs_outline_chunk *chunk)
{
    switch (chunk->piece->dtype) {
    case CS_F32:
        return holds_wide(chunk->data, chunk->count);
    case CS_BF16:
        return holds_half(chunk->data, chunk->count, 0x7f80);
    case CS_F16:
        return holds_half(chunk->data, chunk->count, 0x7c00);
    default:
        return false;
    }
}

cs_status cs_nonfinite_refuse(const cs_outline_file *file)
{
    for (int64_t i = 0; i < file->count && file->folder == CS_OUTLINE_WEIGHTS; i++)
        if (holds(&file->chunks[i]))
            return cs_fail(CS_NOT_FINITE, "parameter %s holds an infinity or a NaN, and such a state is not saved",
                           file->chunks[i].piece->name);
    return CS_OK;
}
