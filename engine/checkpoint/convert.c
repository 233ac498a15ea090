/* convert.c - converts arrays of elements between data types. */
#include "checkpoint/convert.h"
#include "base/half.h"

#include <string.h>

static bool is_float(cs_dtype dtype)
{
    return dtype == CS_F32 || dtype == CS_BF16 || dtype == CS_F16;
}

bool ce_convert_can(cs_dtype to, cs_dtype from)
{
    return to == from || (is_float(to) && is_float(from));
}

static float widen(const char *from, cs_dtype dtype)
{
    uint16_t half;
    float value;
    if (dtype == CS_F32) {
        memcpy(&value, from, sizeof value);
        return value;
    }
    memcpy(&half, from, sizeof half);
    return dtype == CS_BF16 ? ce_bf16_to_float(half) : ce_f16_to_float(half);
}

static void narrow(char *to, cs_dtype dtype, float value)
{
    if (dtype == CS_F32) {
        memcpy(to, &value, sizeof value);
        return;
    }
    uint16_t half = dtype == CS_BF16 ? ce_float_to_bf16(value) : ce_float_to_f16(value);
    memcpy(to, &half, sizeof half);
}

void ce_convert_elements(void *to, cs_dtype to_dtype, const void *from, cs_dtype from_dtype, int64_t count)
{
    size_t to_bytes = cs_dtype_bytes(to_dtype), from_bytes = cs_dtype_bytes(from_dtype);
    if (to_dtype == from_dtype) {
        memcpy(to, from, (size_t)count * to_bytes);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        narrow((char *)to + (size_t)i * to_bytes, to_dtype,
               widen((const char *)from + (size_t)i * from_bytes, from_dtype));
}
