/* blocks.c - the elements of a GGUF file: numbers of 16 and 32 bits, and blocks of 32 or 256 with common scales. */
#include "gguf/blocks.h"
#include "base/half.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static float half_at(const uint8_t *from)
{
    uint16_t half;
    memcpy(&half, from, sizeof half);
    return ce_f16_to_float(half);
}

/* ---- blocks of 32 ----
 *
 * A block begins with an fp16 scale d. Types whose names end in 1 have an fp16 minimum m then, and those of 5 bits have
 * the fifth bits of all numbers in 4 bytes then. The lower halves of 16 bytes are the numbers 0 to 15, and the upper
 * halves the numbers 16 to 31. */

static unsigned nibble(const uint8_t *codes, int i)
{
    return i < CE_GGUF_BLOCK / 2 ? codes[i] & 15u : codes[i - CE_GGUF_BLOCK / 2] >> 4;
}

static unsigned fifth(const uint8_t *bits, int i)
{
    return ((unsigned)bits[i / 8] >> (i % 8) & 1u) << 4;
}

static void decode_f32(float *to, const uint8_t *from)
{
    memcpy(to, from, CE_GGUF_BLOCK * sizeof *to);
}

static void decode_f16(float *to, const uint8_t *from)
{
    for (int i = 0; i < CE_GGUF_BLOCK; i++)
        to[i] = half_at(from + 2 * i);
}

static void decode_bf16(float *to, const uint8_t *from)
{
    uint16_t half;
    for (int i = 0; i < CE_GGUF_BLOCK; i++) {
        memcpy(&half, from + 2 * i, sizeof half);
        to[i] = ce_bf16_to_float(half);
    }
}

static void decode_q8_0(float *to, const uint8_t *from)
{
    const float d = half_at(from);
    for (int i = 0; i < CE_GGUF_BLOCK; i++)
        to[i] = d * (float)(int8_t)from[2 + i];
}

static void decode_q4_0(float *to, const uint8_t *from)
{
    const float d = half_at(from);
    for (int i = 0; i < CE_GGUF_BLOCK; i++)
        to[i] = d * (float)((int)nibble(from + 2, i) - 8);
}

static void decode_q4_1(float *to, const uint8_t *from)
{
    const float d = half_at(from), m = half_at(from + 2);
    for (int i = 0; i < CE_GGUF_BLOCK; i++)
        to[i] = d * (float)nibble(from + 4, i) + m;
}

static void decode_q5_0(float *to, const uint8_t *from)
{
    const float d = half_at(from);
    for (int i = 0; i < CE_GGUF_BLOCK; i++)
        to[i] = d * (float)((int)(nibble(from + 6, i) | fifth(from + 2, i)) - 16);
}

static void decode_q5_1(float *to, const uint8_t *from)
{
    const float d = half_at(from), m = half_at(from + 2);
    for (int i = 0; i < CE_GGUF_BLOCK; i++)
        to[i] = d * (float)(nibble(from + 8, i) | fifth(from + 4, i)) + m;
}

/* ---- blocks of 256 ---- */

/* Q4_K and Q5_K: fp16 factors of scales and of minima, then 12 bytes with a scale and a minimum of 6 bits for each 32
 * numbers. Those of the first four parts are the lower bits of bytes 0 to 7; of the other four, bytes 8 to 11 have the
 * lower 4 bits, and the upper bits of bytes 0 to 7 the rest. Q5_K then has 32 bytes, whose bit p is the fifth bit of part
 * p. Each 32 bytes of codes are two parts: their lower halves, then their upper halves. */
static void decode_parts(float *to, const uint8_t *from, const uint8_t *fifths, const uint8_t *codes)
{
    const uint8_t *packed = from + 4;
    for (int part = 0; part < 8; part++) {
        const uint8_t *low = packed + part % 4, *joined = packed + 8 + part % 4;
        int scale = part < 4 ? low[0] & 63 : (*joined & 15) | (low[0] >> 2 & 48);
        int least = part < 4 ? low[4] & 63 : (*joined >> 4) | (low[4] >> 2 & 48);
        float d = half_at(from) * (float)scale, m = half_at(from + 2) * (float)least;
        for (int i = 0; i < 32; i++) {
            int code = codes[part / 2 * 32 + i] >> (part % 2 * 4) & 15;
            code |= fifths ? (fifths[i] >> part & 1) << 4 : 0;
            to[part * 32 + i] = d * (float)code - m;
        }
    }
}

static void decode_q4_k(float *to, const uint8_t *from)
{
    decode_parts(to, from, NULL, from + 16);
}

static void decode_q5_k(float *to, const uint8_t *from)
{
    decode_parts(to, from, from + 16, from + 48);
}

/* Q6_K: 128 bytes with the lower 4 bits of the numbers, 64 bytes with the upper 2 bits, a scale of 8 bits for each 16
 * numbers, and their fp16 factor. */
static void decode_q6_k(float *to, const uint8_t *from)
{
    const uint8_t *low = from, *high = from + 128, *scales = from + 192;
    const float d = half_at(from + 208);
    for (int i = 0; i < CE_GGUF_SUPERBLOCK; i++) {
        int half = i / 128, at = i % 128;
        int code = low[half * 64 + at % 64] >> (at / 64 * 4) & 15;
        code |= (high[half * 32 + at % 32] >> (at / 32 * 2) & 3) << 4;
        to[i] = d * (float)(int8_t)scales[i / 16] * (float)(code - 32);
    }
}

/* ---- the types ---- */

static const struct {
    const char *name; /* NULL: the type is not written */
    ce_gguf_type type;
    int elements, bytes; /* of what `decode` converts */
    void (*decode)(float *to, const uint8_t *from);
    int file_type; /* value of general.file_type */
} types[] = {
    { "f32", CE_GGUF_F32, 32, 128, decode_f32, 0 },        { "f16", CE_GGUF_F16, 32, 64, decode_f16, 1 },
    { "bf16", CE_GGUF_BF16, 32, 64, decode_bf16, 32 },     { "q8_0", CE_GGUF_Q8_0, 32, 2 + 32, decode_q8_0, 7 },
    { "q4_0", CE_GGUF_Q4_0, 32, 2 + 16, decode_q4_0, 2 },  { NULL, CE_GGUF_Q4_1, 32, 4 + 16, decode_q4_1, 0 },
    { NULL, CE_GGUF_Q5_0, 32, 6 + 16, decode_q5_0, 0 },    { NULL, CE_GGUF_Q5_1, 32, 8 + 16, decode_q5_1, 0 },
    { NULL, CE_GGUF_Q4_K, 256, 16 + 128, decode_q4_k, 0 }, { NULL, CE_GGUF_Q5_K, 256, 48 + 128, decode_q5_k, 0 },
    { NULL, CE_GGUF_Q6_K, 256, 192 + 18, decode_q6_k, 0 },
};
enum { TYPES = sizeof types / sizeof *types };
const char ce_gguf_types_read[] = "F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K and Q6_K";

/* Names of all types of ggml, by their numbers, for messages. */
static const char *const names[] = { "F32",   "F16",     "Q4_0",    "Q4_1",    "type 4",  "type 5",  "Q5_0",
                                     "Q5_1",  "Q8_0",    "Q8_1",    "Q2_K",    "Q3_K",    "Q4_K",    "Q5_K",
                                     "Q6_K",  "Q8_K",    "IQ2_XXS", "IQ2_XS",  "IQ3_XXS", "IQ1_S",   "IQ4_NL",
                                     "IQ3_S", "IQ2_S",   "IQ4_XS",  "I8",      "I16",     "I32",     "I64",
                                     "F64",   "IQ1_M",   "BF16",    "type 31", "type 32", "type 33", "TQ1_0",
                                     "TQ2_0", "type 36", "type 37", "type 38", "MXFP4",   "NVFP4",   "Q1_0" };

static int find(int64_t number)
{
    for (int i = 0; i < TYPES; i++)
        if ((int64_t)types[i].type == number)
            return i;
    return -1;
}

bool ce_gguf_type_find(ce_gguf_type *type, const char *name)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].name && strcmp(types[i].name, name) == 0) {
            *type = types[i].type;
            return true;
        }
    return false;
}

int64_t ce_gguf_file_type(ce_gguf_type type)
{
    return types[find(type)].file_type;
}

int64_t ce_gguf_block_elements(int64_t number)
{
    int i = find(number);
    bool single = number == CE_GGUF_F32 || number == CE_GGUF_F16 || number == CE_GGUF_BF16;
    return i < 0 ? 0 : single ? 1 : types[i].elements;
}

int64_t ce_gguf_row_bytes(ce_gguf_type type, int64_t columns)
{
    int i = find(type);
    return columns * types[i].bytes / types[i].elements;
}

const char *ce_gguf_type_name(char name[CE_GGUF_TYPE_NAME], int64_t number)
{
    if (number >= 0 && number < (int64_t)(sizeof names / sizeof *names))
        snprintf(name, CE_GGUF_TYPE_NAME, "%s", names[number]);
    else
        snprintf(name, CE_GGUF_TYPE_NAME, "type %lld", (long long)number);
    return name;
}

/* ---- decoding ---- */

void ce_gguf_decode(ce_gguf_type type, float *to, const void *from, int64_t count)
{
    int i = find(type);
    int64_t block = types[i].elements, rest = count % block;
    const uint8_t *bytes = from;
    for (int64_t at = 0; at < count - rest; at += block)
        types[i].decode(to + at, bytes + at / block * types[i].bytes);
    if (rest == 0)
        return;
    /* Numbers of 16 and 32 bits have no blocks: the last ones are fewer than `decode` converts. */
    uint8_t last[128] = { 0 };
    float numbers[CE_GGUF_BLOCK];
    memcpy(last, bytes + ce_gguf_row_bytes(type, count - rest), (size_t)ce_gguf_row_bytes(type, rest));
    types[i].decode(numbers, last);
    memcpy(to + count - rest, numbers, (size_t)rest * sizeof *to);
}

/* ---- encoding ---- */

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
