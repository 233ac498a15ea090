/* sort.cuh - numbers of rows, brought into the order of their keys. */
#ifndef CS_DEVICE_SORT_CUH
#define CS_DEVICE_SORT_CUH

#include "device/cuda/kernel.cuh"

/* Two of each, to sort from one into the other; `count` of each, and the digits' table. */
struct cs_sort {
    uint32_t *keys[2], *rows[2], *table;
};

size_t cs_sort_bytes(int64_t count);
cs_sort cs_sort_lay(void *memory, int64_t count);
/* keys[0] and rows[0] go in, by the low `bits` of the keys; they come out as keys[0] and rows[0] of the result. Rows of
 * one key keep their order. */
cs_sort cs_sort_run(cudaStream_t stream, cs_sort sort, int64_t count, int bits);

#endif
