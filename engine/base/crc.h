/* crc.h - CRC32C (Castagnoli), the checksum of checkpoints. */
#ifndef CE_BASE_CRC_H
#define CE_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Returns the checksum of a sequence of bytes that may be given in pieces. `crc` is the checksum of the pieces before
 * this one, or 0 for the first piece. Uses the CPU's CRC instruction if the CPU has one, otherwise a table; both give
 * the same value. */
uint32_t ce_crc32c(uint32_t crc, const void *bytes, size_t count);

/* Returns the same checksum as ce_crc32c, but always uses the table; for tests on CPUs that have the instruction. */
uint32_t ce_crc32c_plain(uint32_t crc, const void *bytes, size_t count);

#endif
