/* dropout.c - dropout, and noise, with counter-based random bits (Philox), computed for TOGETHER counters at a time. */
#include "device/cpu/dropout.h"
#include "base/rng.h"
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

#include <math.h>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#ifdef __AVX512F__
#define TOGETHER 8
#else
#define TOGETHER 4
#endif
enum { MIN_ELEMENTS = 8192, BLOCK = 8 /* BLOCK: number of elements whose random bits come from one counter */ };

uint64_t ce_dropout_key(cs_dropout dropout, int64_t sample)
{
    return ce_rng_mix(dropout.keys[sample], dropout.place);
}

uint32_t ce_dropout_threshold(cs_dropout dropout)
{
    return (uint32_t)lrintf(dropout.rate * 65536.0f);
}

typedef uint64_t word_lanes __attribute__((vector_size(8 * TOGETHER)));

/* Multiplies 32-bit words, which are the low halves of 64-bit lanes. Intrinsics are used because compilers do not see
 * that the high halves are not needed. */
static inline word_lanes product_of(word_lanes words, uint32_t factor)
{
#if defined __AVX512F__
    return (word_lanes)_mm512_mul_epu32((__m512i)words, _mm512_set1_epi64(factor));
#elif defined __AVX2__
    return (word_lanes)_mm256_mul_epu32((__m256i)words, _mm256_set1_epi64x(factor));
#else
    return (words & 0xffffffffu) * factor;
#endif
}

/* Computes ce_rng_philox for TOGETHER consecutive counters, the first of which is `counter`. The four words of a
 * counter are consecutive in `to`. */
static void philox_block(uint32_t *restrict to, uint64_t key, uint64_t counter)
{
    const uint64_t low_half = 0xffffffffu;
    word_lanes a, b, c = { 0 }, d = { 0 };
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    for (int i = 0; i < TOGETHER; i++)
        a[i] = counter + (uint64_t)i;
    b = a >> 32;
    for (int round = 0; round < 10; round++, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) {
        word_lanes low = product_of(a, 0xD2511F53u), high = product_of(c, 0xCD9E8D57u);
        a = high >> 32 ^ b ^ key0;
        c = low >> 32 ^ d ^ key1;
        b = high;
        d = low;
    }
    a = (a & low_half) | b << 32;
    c = (c & low_half) | d << 32;
    for (int i = 0; i < TOGETHER; i++) {
        uint64_t both[] = { a[i], c[i] };
        memcpy(to + 4 * i, both, sizeof both);
    }
}

const uint16_t *ce_dropout_bits(uint16_t *scratch, uint64_t key, uint64_t from, int64_t count)
{
    uint64_t first = from / BLOCK, ahead = from % BLOCK;
    uint32_t words[4 * TOGETHER];
    int64_t counters = ce_divide_up(count + (int64_t)ahead, BLOCK);
    for (int64_t done = 0; done < counters; done += TOGETHER) {
        int64_t together = counters - done < TOGETHER ? counters - done : TOGETHER;
        philox_block(words, key, first + (uint64_t)done);
        memcpy(scratch + done * BLOCK, words, (size_t)(together * BLOCK) * sizeof *scratch);
    }
    return scratch + ahead;
}

typedef struct {
    cs_tensor y, a, b; /* y = a + dropout(b); if a is absent, y = dropout(b) */
    float size;        /* y = b + noise of this size, if it is above 0 */
    cs_dropout dropout;
    int64_t columns, rows; /* each sample has `rows` rows of `columns` elements; if dropout.width is 0, it is one row */
} dropout_job;

static void dropout_chunk(float *restrict y, const float *restrict b, const uint16_t *restrict bits, int64_t count,
                          uint32_t threshold, float scale)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = bits[i] >= threshold ? b[i] * scale : 0.0f;
}

static void noise_chunk(float *restrict y, const float *restrict b, const uint16_t *restrict bits, int64_t count,
                        float size)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = b[i] + size * ((float)bits[i] + 0.5f - 32768.0f) / 32768.0f;
}

static void dropout_part(void *argument, ce_range range, int part)
{
    (void)part;
    const dropout_job *all = argument;
    uint32_t threshold = ce_dropout_threshold(all->dropout);
    float scale = 1 / (1 - all->dropout.rate);
    float wide_a[CE_CHUNK], wide_b[CE_CHUNK], out[CE_CHUNK];
    uint16_t scratch[CE_CHUNK + 16];
    for (int64_t at = range.from, count; at < range.to; at += count) {
        int64_t row = at / all->columns, column = at % all->columns, end = at - column + all->columns;
        end = end < range.to ? end : range.to;
        count = ce_elements_chunk(at, end);
        uint64_t key = ce_dropout_key(all->dropout, row / all->rows);
        int64_t element = row % all->rows * all->dropout.width + all->dropout.from + column;
        const uint16_t *bits = ce_dropout_bits(scratch, key, (uint64_t)element, count);
        const float *b = ce_elements_read(all->b, at, count, wide_b);
        if (all->size > 0)
            noise_chunk(out, b, bits, count, all->size);
        else
            dropout_chunk(out, b, bits, count, threshold, scale);
        if (all->a.data)
            ce_elements_add(out, ce_elements_read(all->a, at, count, wide_a), count);
        ce_elements_write(all->y, at, count, out);
    }
}

static void walk(cs_device *device, dropout_job all)
{
    cs_tensor y = all.y;
    all.columns = cs_count(y) / all.dropout.batch;
    all.rows = 1;
    if (all.dropout.width) {
        all.columns = cs_columns(y);
        all.rows = cs_rows(y) / all.dropout.batch;
    } else {
        all.dropout.from = 0;
    }
    ce_cpu_walk(device, cs_count(y), MIN_ELEMENTS, dropout_part, &all);
}

void ce_cpu_add_dropout(cs_device *device, cs_tensor y, cs_tensor a, cs_tensor b, cs_dropout dropout)
{
    walk(device, (dropout_job){ .y = y, .a = a, .b = b, .dropout = dropout });
}

void ce_cpu_add_noise(cs_device *device, cs_tensor y, float size, cs_dropout dropout)
{
    walk(device, (dropout_job){ .y = y, .b = y, .size = size, .dropout = dropout });
}
