/* nonfinite.c - checks for infinities and NaNs in parameters. A floating-point number is one of these exactly if all
 * bits of its exponent are ones. */
#include "checkpoint/nonfinite.h"
#include "base/status.h"

#include <string.h>

/* No early exit, so that compilers vectorize the loop. */
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

static bool holds(const char *data, int64_t bytes, cs_dtype dtype)
{
    switch (dtype) {
    case CS_F32:
        return holds_wide(data, bytes / 4);
    case CS_BF16:
        return holds_half(data, bytes / 2, 0x7f80);
    case CS_F16:
        return holds_half(data, bytes / 2, 0x7c00);
    default:
        return false;
    }
}

cs_status cs_nonfinite_refuse(const cs_piece *piece, const char *data, int64_t bytes)
{
    if (!holds(data, bytes, piece->dtype))
        return CS_OK;
    return cs_fail(CS_NOT_FINITE, "parameter %s holds an infinity or a NaN, and such a state is not saved",
                   piece->name);
}
