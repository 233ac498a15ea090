/* traffic.h - what the instrumented emulated module tells tests: the bytes of device memory that operations moved. */
#ifndef CS_EMULATOR_TRAFFIC_H
#define CS_EMULATOR_TRAFFIC_H

#include <stdint.h>

/* Of one direction: bytes asked for by threads; different bytes; and 32-byte sectors, each counted once for everything
 * that a warp does between two of its meetings, as a cache that holds that much would fetch it. */
typedef struct {
    uint64_t requested, distinct, sectors;
} emulator_moved;

typedef struct {
    const char *name; /* a kernel's, or "cudaMemcpyAsync" and the like */
    uint64_t runs;
    emulator_moved read, written;
} emulator_traffic;

#ifdef __cplusplus
extern "C" {
#endif
/* What has run since the last call of emulator_traffic_clear(), by name; returns how many names there are, and sets
 * *rows to them; they are valid until the next operation runs. */
int emulator_traffic_rows(const emulator_traffic **rows);
void emulator_traffic_clear(void);
#ifdef __cplusplus
}
#endif

#endif
