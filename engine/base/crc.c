/* crc.c - CRC32C with the CPU's instruction, or with a table.
 *
 * The instruction has a latency of three cycles and a throughput of one per cycle, so the CRCs of three adjacent
 * sections of a block are computed at the same time and then joined. To append n zero bytes to a CRC means to multiply
 * it by x^(8n) modulo the polynomial P, which takes one carry-less product and one more CRC instruction. The constants
 * FOLD_* are x^(8n - 33) mod P with reflected bits, for n = the length of one and of two sections. */
#include "base/crc.h"

static uint32_t table[256]; /* the CRC of each byte */

__attribute__((constructor)) static void fill_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        table[byte] = byte;
        for (int bit = 0; bit < 8; bit++)
            table[byte] = table[byte] >> 1 ^ (table[byte] & 1 ? 0x82f63b78u : 0);
    }
}

uint32_t ce_crc32c_plain(uint32_t crc, const void *bytes, size_t count)
{
    const uint8_t *byte = bytes;
    crc = ~crc;
    for (size_t i = 0; i < count; i++)
        crc = table[(crc ^ byte[i]) & 0xff] ^ crc >> 8;
    return ~crc;
}

#ifdef __x86_64__

#include <nmmintrin.h>
#include <string.h>
#include <wmmintrin.h>

enum { LONG = 8192, SHORT = 512 };
static const uint32_t FOLD_LONG[2] = { 0x54a86326, 0x1dc403cc }, FOLD_SHORT[2] = { 0xdd7e3b0c, 0x170076fa };

#define FAST __attribute__((target("sse4.2,pclmul")))

static inline uint64_t load(const uint8_t *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
    return word;
}

FAST static inline uint64_t shift(uint64_t crc, uint32_t fold)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi32_si128((int)fold), 0);
    return _mm_crc32_u64(0, (unsigned long long)_mm_cvtsi128_si64(product));
}

/* `crc` is the CRC of the bytes before `bytes`. At `bytes` begin three adjacent sections of `length` bytes each.
 * Returns the CRC of all bytes to the end of the third section. */
FAST static inline uint64_t three(uint64_t crc, const uint8_t *bytes, size_t length, const uint32_t fold[2])
{
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < length; i += 8) {
        crc = _mm_crc32_u64(crc, load(bytes + i));
        second = _mm_crc32_u64(second, load(bytes + length + i));
        third = _mm_crc32_u64(third, load(bytes + 2 * length + i));
    }
    return shift(crc, fold[1]) ^ shift(second, fold[0]) ^ third;
}

FAST static uint32_t fast(uint32_t start, const uint8_t *bytes, size_t count)
{
    uint64_t crc = (uint32_t)~start;
    for (; count >= 3 * LONG; count -= 3 * LONG, bytes += 3 * LONG)
        crc = three(crc, bytes, LONG, FOLD_LONG);
    for (; count >= 3 * SHORT; count -= 3 * SHORT, bytes += 3 * SHORT)
        crc = three(crc, bytes, SHORT, FOLD_SHORT);
    for (; count >= 8; count -= 8, bytes += 8)
        crc = _mm_crc32_u64(crc, load(bytes));
    for (; count > 0; count--, bytes++)
        crc = _mm_crc32_u8((uint32_t)crc, *bytes);
    return ~(uint32_t)crc;
}

uint32_t ce_crc32c(uint32_t crc, const void *bytes, size_t count)
{
    if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"))
        return fast(crc, bytes, count);
    return ce_crc32c_plain(crc, bytes, count);
}

#else

uint32_t ce_crc32c(uint32_t crc, const void *bytes, size_t count)
{
    return ce_crc32c_plain(crc, bytes, count);
}

#endif
