/* copy.h - moving bytes between ranks' memories. */
#ifndef CS_COMM_COPY_H
#define CS_COMM_COPY_H

#include <stddef.h>

/* Through the caches: what is written will soon be read. */
void cs_copy_near(void *to, const void *from, size_t bytes);
/* Past the caches when it is large: the vector would push out everything else, and be gone before it is read. */
void cs_copy_far(void *to, const void *from, size_t bytes);

#endif
