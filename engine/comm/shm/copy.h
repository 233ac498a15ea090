/* copy.h - functions like memcpy between the memories of ranks, with normal or non-temporal stores. */
#ifndef CE_COMM_SHM_COPY_H
#define CE_COMM_SHM_COPY_H

#include <stddef.h>

/* Copies with normal stores, for data that will soon be read. */
void ce_copy_cached(void *to, const void *from, size_t bytes);
/* Copies with non-temporal stores if `bytes` is large. With normal stores a large copy would evict all other data from
 * the caches. The end of the copy would even evict the beginning of the copy, before the beginning is read. */
void ce_copy_nontemporal(void *to, const void *from, size_t bytes);

/* Copies into a buffer that other cores have read since it was last written, and will read again. The caches of these
 * cores still have the buffer's lines. A normal store waits until these caches have given up the line; a non-temporal
 * store does not wait. */
void ce_copy_for_others(void *to, const void *from, size_t bytes);

#endif
