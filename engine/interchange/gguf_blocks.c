/* gguf_blocks.c - the elements of a GGUF file: numbers of 16 and 32 bits, and blocks of 32 with a common scale. */
#include "base/half.h"
#include "interchange/gguf_parts.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    ce_gguf_type type;
    int bytes; /* of a block of CE_GGUF_BLOCK elements */
} types[] = { { "f32", CE_GGUF_F32, 128 },
              { "f16", CE_GGUF_F16, 64 },
              { "bf16", CE_GGUF_BF16, 64 },
              { "q8_0", CE_GGUF_Q8_0, 2 + 32 },
              { "q4_0", CE_GGUF_Q4_0, 2 + 16 } };
enum { TYPES = sizeof types / sizeof *types };

bool ce_gguf_type_find(ce_gguf_type *type, const char *name)
{
    for (int i = 0; i < TYPES; i++)
        if (strcmp(types[i].name, name) == 0) {
            *type = types[i].type;
            return true;
        }
    return false;
}

int64_t ce_gguf_row_bytes(ce_gguf_type type, int64_t columns)
{
    int i = 0;
    while (types[i].type != type)
        i++;
    return columns * types[i].bytes / CE_GGUF_BLOCK;
}

/* Q8_0: fp16 scale d = max |x| / 127, then 32 bytes round(x / d). */
static void encode_q8(uint8_t *to, const float *x)
{
    float most = 0;
    int8_t q[CE_GGUF_BLOCK];
    for (int i = 0; i < CE_GGUF_BLOCK; i++)
        most = fmaxf(most, fabsf(x[i]));
    float scale = most / 127, inverse = scale > 0 ? 1 / scale : 0;
    for (int i = 0; i < CE_GGUF_BLOCK; i++)
        q[i] = (int8_t)roundf(x[i] * inverse);
    uint16_t half = ce_float_to_f16(scale);
    memcpy(to, &half, 2);
    memcpy(to + 2, q, sizeof q);
}

/* Q4_0: fp16 scale d = the element of greatest magnitude / -8, then 16 bytes; byte i has element i in its lower half and
 * element i + 16 in its upper half, each as x / d + 8, rounded, at most 15. */
static void encode_q4(uint8_t *to, const float *x)
{
    float most = 0;
    uint8_t q[CE_GGUF_BLOCK];
    for (int i = 0; i < CE_GGUF_BLOCK; i++)
        most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    float scale = most / -8, inverse = most != 0 ? 1 / scale : 0;
    for (int i = 0; i < CE_GGUF_BLOCK; i++)
        q[i] = (uint8_t)fminf(15, x[i] * inverse + 8.5F);
    uint16_t half = ce_float_to_f16(scale);
    memcpy(to, &half, 2);
    for (int i = 0; i < CE_GGUF_BLOCK / 2; i++)
        to[2 + i] = (uint8_t)(q[i] | q[i + CE_GGUF_BLOCK / 2] << 4);
}

void ce_gguf_encode(ce_gguf_type type, void *to, const float *from, int64_t count)
{
    uint8_t *out = to;
    float block[CE_GGUF_BLOCK];
    uint16_t half;
    if (type == CE_GGUF_F32 && to != from)
        memmove(to, from, (size_t)count * sizeof *from);
    for (int64_t i = 0; i < count && (type == CE_GGUF_F16 || type == CE_GGUF_BF16); i++) {
        half = type == CE_GGUF_F16 ? ce_float_to_f16(from[i]) : ce_float_to_bf16(from[i]);
        memcpy(out + 2 * i, &half, 2);
    }
    for (int64_t i = 0; i < count && (type == CE_GGUF_Q8_0 || type == CE_GGUF_Q4_0); i += CE_GGUF_BLOCK) {
        memcpy(block, from + i, sizeof block); /* The output may overwrite the input. */
        (type == CE_GGUF_Q8_0 ? encode_q8 : encode_q4)(out, block);
        out += ce_gguf_row_bytes(type, CE_GGUF_BLOCK);
    }
}
