/* traffic.h - for tests: the device memory traffic of each operation, counted by the instrumented emulated module. */
#ifndef CS_EMULATOR_TRAFFIC_H
#define CS_EMULATOR_TRAFFIC_H

#include <stdint.h>

/* Bytes in one direction. `requested`: bytes that the threads' accesses ask for. `distinct`: each byte counts once.
 * `sectors`: 32 bytes for each sector that a warp accesses between two synchronizations. Several accesses to the same
 * sector between two synchronizations count once, as if a cache held the sector until the next synchronization. */
typedef struct {
    uint64_t requested, distinct, sectors;
} emulator_moved;

typedef struct {
    const char *name; /* name of a kernel, or of a function like "cudaMemcpyAsync" */
    uint64_t runs;
    emulator_moved read, written;
} emulator_traffic;

#ifdef __cplusplus
extern "C" {
#endif
/* Sets *rows to the traffic since the last emulator_traffic_clear(), one row for each name, and returns the number of
 * rows. The rows are valid until the next operation runs. */
int emulator_traffic_rows(const emulator_traffic **rows);
void emulator_traffic_clear(void);
#ifdef __cplusplus
}
#endif

#endif
