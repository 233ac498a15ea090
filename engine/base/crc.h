/* crc.h - CRC32C (Castagnoli), the checksum of checkpoints. */
#ifndef CS_BASE_CRC_H
#define CS_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* `crc` is the checksum of the bytes so far, or 0 if there are none. Returns the checksum of those bytes followed by
 * these. Uses the CPU's CRC instruction if the CPU has one, otherwise a table; both give the same value. */
uint32_t ce_crc32c(uint32_t crc, const void *bytes, size_t count);

/* The variant with the table, for tests on CPUs that have the instruction. */
uint32_t ce_crc32c_plain(uint32_t crc, const void *bytes, size_t count);

#endif
