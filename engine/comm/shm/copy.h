/* copy.h - memcpy between the memories of ranks, with normal or non-temporal stores. */
#ifndef CS_COMM_COPY_H
#define CS_COMM_COPY_H

#include <stddef.h>

/* With normal stores, for data that will soon be read. */
void ce_copy_cached(void *to, const void *from, size_t bytes);
/* With non-temporal stores if `bytes` is large. Normal stores would evict everything else from the caches, and the data
 * itself before it is read. */
void ce_copy_nontemporal(void *to, const void *from, size_t bytes);

/* Like memcpy, into a buffer that other cores have read since it was written, and will read. Their caches still have
 * its lines, and a normal store waits until each line has been taken from them; a non-temporal store does not. */
void ce_copy_for_others(void *to, const void *from, size_t bytes);

#endif
