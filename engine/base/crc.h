/* crc.h - CRC32C (Castagnoli), the checksum of checkpoints. */
#ifndef CS_BASE_CRC_H
#define CS_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Continues `crc` (0 to begin) over the bytes. The CPU's instruction where there is one, a table elsewhere; the same
 * value. */
uint32_t cs_crc32c(uint32_t crc, const void *bytes, size_t count);

/* Always by the table: what a CPU without the instruction runs. */
uint32_t cs_crc32c_plain(uint32_t crc, const void *bytes, size_t count);

#endif
