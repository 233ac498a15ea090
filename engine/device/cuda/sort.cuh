/* sort.cuh - a stable radix sort of (key, row number) pairs on the device. */
#ifndef CE_DEVICE_SORT_CUH
#define CE_DEVICE_SORT_CUH

#include "device/cuda/kernel.cuh"

/* Two buffers of `count` keys, two buffers of `count` row numbers, and the table of digit counts. All of them are in
 * device memory. */
struct ce_sort {
    uint32_t *keys[2], *rows[2], *table;
};

/* Returns the bytes of workspace that are needed to sort `count` keys. */
size_t ce_sort_bytes(int64_t count);
/* Divides a workspace of ce_sort_bytes(count) bytes into buffers. */
ce_sort ce_sort_layout(void *memory, int64_t count);
/* Sorts keys[0] and rows[0] by the low `bits` bits of the keys. The sorted arrays are keys[0] and rows[0] of the
 * returned struct. Rows with equal keys keep their order. */
ce_sort ce_sort_run(cudaStream_t stream, ce_sort sort, int64_t count, int bits);

#endif
