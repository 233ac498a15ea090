/* dropout.c - dropout with counter-based random bits (Philox), computed for TOGETHER counters at a time. */
#include "device/cpu/dropout.h"
#include "base/rng.h"
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

#include <math.h>

enum { LEAST = 8192, TOGETHER = 64, BLOCK = 8 /* elements for each counter */ };

uint64_t cs_dropout_key(cs_dropout dropout, int64_t sample)
{
    return cs_rng_mix(dropout.keys[sample], dropout.place);
}

uint32_t cs_dropout_threshold(cs_dropout dropout)
{
    return (uint32_t)lrintf(dropout.rate * 65536.0f);
}

/* Computes cs_rng_philox for `count` counters from `counter` on, one round for all of them at a time; the four words
 * of a counter are consecutive. The loops are short, so that the compiler vectorizes each. */
static void philox_block(uint32_t *restrict words, uint64_t key, uint64_t counter, int count)
{
    uint32_t a[TOGETHER], b[TOGETHER], c[TOGETHER] = { 0 }, d[TOGETHER] = { 0 };
    uint64_t low[TOGETHER], high[TOGETHER];
    uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
    for (int i = 0; i < count; i++) {
        a[i] = (uint32_t)(counter + (uint64_t)i);
        b[i] = (uint32_t)((counter + (uint64_t)i) >> 32);
    }
    for (int round = 0; round < 10; round++, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) {
        for (int i = 0; i < count; i++) {
            low[i] = (uint64_t)0xD2511F53u * a[i];
            high[i] = (uint64_t)0xCD9E8D57u * c[i];
        }
        for (int i = 0; i < count; i++) {
            a[i] = (uint32_t)(high[i] >> 32) ^ b[i] ^ key0;
            c[i] = (uint32_t)(low[i] >> 32) ^ d[i] ^ key1;
            b[i] = (uint32_t)high[i];
            d[i] = (uint32_t)low[i];
        }
    }
    for (int i = 0; i < count; i++) {
        words[4 * i] = a[i];
        words[4 * i + 1] = b[i];
        words[4 * i + 2] = c[i];
        words[4 * i + 3] = d[i];
    }
}

const uint16_t *cs_dropout_bits(uint16_t *scratch, uint64_t key, uint64_t from, int64_t count)
{
    uint64_t first = from / BLOCK, ahead = from % BLOCK;
    uint32_t words[4 * TOGETHER];
    int64_t counters = (count + (int64_t)ahead + BLOCK - 1) / BLOCK;
    for (int64_t done = 0; done < counters; done += TOGETHER) {
        int64_t together = counters - done < TOGETHER ? counters - done : TOGETHER;
        philox_block(words, key, first + (uint64_t)done, (int)together);
        memcpy(scratch + done * BLOCK, words, (size_t)(together * BLOCK) * sizeof *scratch);
    }
    return scratch + ahead;
}

typedef struct {
    cs_tensor y, a, b; /* if a is absent, it counts as 0 */
    cs_dropout dropout;
    int64_t sample; /* elements of each sample */
} dropout_job;

static void dropout_chunk(float *restrict y, const float *restrict b, const uint16_t *restrict bits, int64_t count,
                          uint32_t threshold, float scale)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = bits[i] >= threshold ? b[i] * scale : 0.0f;
}

static void add_chunk(float *restrict y, const float *restrict a, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] += a[i];
}

static void dropout_part(void *argument, cs_range range, int part)
{
    (void)part;
    const dropout_job *all = argument;
    uint32_t threshold = cs_dropout_threshold(all->dropout);
    float scale = 1 / (1 - all->dropout.rate);
    float wide_a[CS_CHUNK], wide_b[CS_CHUNK], out[CS_CHUNK];
    uint16_t scratch[CS_CHUNK + 16];
    for (int64_t at = range.from, count; at < range.to; at += count) {
        int64_t sample = at / all->sample, end = (sample + 1) * all->sample;
        end = end < range.to ? end : range.to;
        count = end - at < CS_CHUNK ? end - at : CS_CHUNK;
        uint64_t key = cs_dropout_key(all->dropout, sample);
        const uint16_t *bits = cs_dropout_bits(scratch, key, (uint64_t)(at - sample * all->sample), count);
        dropout_chunk(out, cs_elements_read(all->b, at, count, wide_b), bits, count, threshold, scale);
        if (all->a.data)
            add_chunk(out, cs_elements_read(all->a, at, count, wide_a), count);
        cs_elements_write(all->y, at, count, out);
    }
}

void cs_cpu_add_dropout(cs_device *device, cs_tensor y, cs_tensor a, cs_tensor b, cs_dropout dropout)
{
    dropout_job all = { y, a, b, dropout, cs_count(y) / dropout.batch };
    cs_cpu_walk(device, cs_count(y), LEAST, dropout_part, &all);
}
