/* blocks.c - encodes and decodes optimizer state in blocks. With AVX-512 the tables are permuted in registers; otherwise the
 * compiler vectorizes the loops with gathers. */
#include "device/cpu/blocks.h"
#include "device/cpu/lanes.h"
#include "optim/optim.h"

static int64_t block_at(int64_t at, int64_t count)
{
    return count - at < CE_OPTIM_BLOCK ? count - at : CE_OPTIM_BLOCK;
}

#ifdef __AVX512F__

typedef __m512 lanes;
typedef __m512i places;

/* look_up_N returns table[at[i]] for each i; the table has N elements, and higher bits of at[i] have no effect. */
static inline lanes look_up_16(const float *table, places at)
{
    return _mm512_permutexvar_ps(at, _mm512_loadu_ps(table));
}

static inline lanes look_up_32(const float *table, places at)
{
    return _mm512_permutex2var_ps(_mm512_loadu_ps(table), at, _mm512_loadu_ps(table + 16));
}

#define LOOK_UP(both, half)                                                                                            \
    static inline lanes look_up_##both(const float *table, places at)                                                  \
    {                                                                                                                  \
        __mmask16 high = _mm512_test_epi32_mask(at, _mm512_set1_epi32(half));                                          \
        return _mm512_mask_mov_ps(look_up_##half(table, at), high, look_up_##half(table + half, at));                  \
    }
LOOK_UP(64, 32)
LOOK_UP(128, 64)
LOOK_UP(256, 128)

static void decode_block(float *restrict to, const uint8_t *restrict codes, float scale, const ce_dynamic_map *map)
{
    for (int i = 0; i < CE_OPTIM_BLOCK; i += CE_LANES) {
        places at = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(codes + i)));
        lanes values = look_up_256(map->value, at);
        _mm512_storeu_ps(to + i, _mm512_mul_ps(values, _mm512_set1_ps(scale)));
    }
}

/* Takes one step of the search in a level of `nodes` nodes. */
static inline places descend(places at, lanes size, lanes middles)
{
    __mmask16 right = _mm512_cmp_ps_mask(size, middles, _CMP_GT_OQ);
    places twice = _mm512_add_epi32(at, at);
    return _mm512_mask_add_epi32(twice, right, twice, _mm512_set1_epi32(1));
}

/* As ce_dynamic_code. The first levels have 16 nodes together, of which node 0 is not used. */
static void encode_block(uint8_t *restrict codes, const float *restrict from, float divisor, const ce_dynamic_map *map)
{
    const places zero = _mm512_set1_epi32(map->zero);
    for (int i = 0; i < CE_OPTIM_BLOCK; i += CE_LANES) {
        places bits = _mm512_castps_si512(_mm512_div_ps(_mm512_loadu_ps(from + i), _mm512_set1_ps(divisor)));
        __mmask16 sign = _mm512_movepi32_mask(bits);
        places magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff)), at = _mm512_set1_epi32(1);
        magnitude = _mm512_mask_add_epi32(magnitude, sign, magnitude, _mm512_set1_epi32(1));
        lanes size = _mm512_castsi512_ps(magnitude);
        for (int level = 0; level < 4; level++)
            at = descend(at, size, look_up_16(map->tree, at));
        at = descend(at, size, look_up_16(map->tree + 16, at));
        at = descend(at, size, look_up_32(map->tree + 32, at));
        at = descend(at, size, look_up_64(map->tree + 64, at));
        at = descend(at, size, look_up_128(map->tree + 128, at));
        at = _mm512_sub_epi32(at, _mm512_set1_epi32(CE_DYNAMIC_CODES));
        places below = _mm512_max_epi32(_mm512_sub_epi32(zero, at), _mm512_setzero_si512());
        places code = _mm512_mask_mov_epi32(_mm512_add_epi32(zero, at), sign, below);
        _mm_storeu_si128((__m128i *)(void *)(codes + i), _mm512_cvtepi32_epi8(code));
    }
}

#else

static void decode_block(float *restrict to, const uint8_t *restrict codes, float scale, const ce_dynamic_map *map)
{
    for (int i = 0; i < CE_OPTIM_BLOCK; i++)
        to[i] = map->value[codes[i]] * scale;
}

static void encode_block(uint8_t *restrict codes, const float *restrict from, float divisor, const ce_dynamic_map *map)
{
    for (int i = 0; i < CE_OPTIM_BLOCK; i++)
        codes[i] = ce_dynamic_code(map, from[i] / divisor);
}

#endif

void ce_blocks_decode(float *restrict to, const uint8_t *restrict codes, const float *restrict scales, int64_t count,
                      const ce_dynamic_map *map)
{
    for (int64_t at = 0; at < count; at += CE_OPTIM_BLOCK)
        if (block_at(at, count) == CE_OPTIM_BLOCK)
            decode_block(to + at, codes + at, scales[at / CE_OPTIM_BLOCK], map);
        else
            for (int64_t i = at; i < count; i++)
                to[i] = map->value[codes[i]] * scales[at / CE_OPTIM_BLOCK];
}

/* The greatest bits of absolute values are those of a NaN, if there is one, else of the greatest value. */
static float scale_of(const float *from, int64_t count)
{
    uint32_t most = 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = ce_float_bits(from[i]) & 0x7fffffff;
        most = bits > most ? bits : most;
    }
    return ce_bits_float(most);
}

void ce_blocks_encode(uint8_t *restrict codes, float *restrict scales, const float *restrict from, int64_t count,
                      const ce_dynamic_map *map)
{
    for (int64_t at = 0; at < count; at += CE_OPTIM_BLOCK) {
        int64_t some = block_at(at, count);
        float scale = scale_of(from + at, some), divisor = scale > 0 ? scale : 1;
        scales[at / CE_OPTIM_BLOCK] = scale;
        if (some == CE_OPTIM_BLOCK)
            encode_block(codes + at, from + at, divisor, map);
        else
            for (int64_t i = at; i < count; i++)
                codes[i] = ce_dynamic_code(map, from[i] / divisor);
    }
}
