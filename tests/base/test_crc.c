/* test_crc.c - CRC32C: published test vectors, and a comparison of the implementation by the CPU's CRC instruction with
 * the implementation by a table. */
#include "suite.h"

#include "base/crc.h"

#include <stdlib.h>
#include <string.h>

/* RFC 3720, appendix B.4, and the check value of the CRC catalogues. */
START_TEST(vectors)
{
    uint8_t zeros[32] = { 0 }, ones[32], up[32], down[32];
    for (int i = 0; i < 32; i++) {
        ones[i] = 0xff;
        up[i] = (uint8_t)i;
        down[i] = (uint8_t)(31 - i);
    }
    const struct {
        const void *bytes;
        size_t count;
        uint32_t crc;
    } cases[] = {
        { "", 0, 0 },           { "123456789", 9, 0xe3069283 }, { zeros, 32, 0x8a9136aa }, { ones, 32, 0x62a8ab43 },
        { up, 32, 0x46dd794e }, { down, 32, 0x113fdb5c },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_uint_eq(ce_crc32c(0, cases[i].bytes, cases[i].count), cases[i].crc);
        ck_assert_uint_eq(ce_crc32c_plain(0, cases[i].bytes, cases[i].count), cases[i].crc);
    }
}
END_TEST

/* Compares lengths near the borders of the sections that are summed in parallel, at every alignment. */
START_TEST(hardware_and_table_agree)
{
    enum { BYTES = 100000 };
    static const size_t lengths[] = { 1,    7,    8,    9,     63,    511,   1535,  1536,
                                      1537, 3072, 4095, 24575, 24576, 24577, 50000, 99000 };
    uint8_t *bytes = malloc(BYTES);
    uint32_t random = 1;
    for (int i = 0; i < BYTES; i++) {
        random = random * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(random >> 24);
    }
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t from = 0; from < 9; from++)
            ck_assert_uint_eq(ce_crc32c(random, bytes + from, lengths[i]),
                              ce_crc32c_plain(random, bytes + from, lengths[i]));
    free(bytes);
}
END_TEST

START_TEST(a_sum_can_be_continued)
{
    enum { BYTES = 60000 };
    uint8_t *bytes = malloc(BYTES);
    for (int i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    uint32_t whole = ce_crc32c(0, bytes, BYTES);
    for (size_t cut = 0; cut <= BYTES; cut += 997)
        ck_assert_uint_eq(ce_crc32c(ce_crc32c(0, bytes, cut), bytes + cut, BYTES - cut), whole);
    bytes[BYTES / 2] ^= 4;
    ck_assert_uint_ne(ce_crc32c(0, bytes, BYTES), whole);
    free(bytes);
}
END_TEST

SUITE_MAIN("crc", vectors, hardware_and_table_agree, a_sum_can_be_continued)
