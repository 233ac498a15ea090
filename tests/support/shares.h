/* shares.h - tensors that are divided over ranks, for tests of operations on the parts. */
#ifndef CS_TESTS_SHARES_H
#define CS_TESTS_SHARES_H

#include "near.h"

/* The range of rows or columns that a rank has: whole groups of eight, so that the last ranks may have fewer elements, or
 * none. */
typedef struct {
    int64_t first, count, room; /* room: the number of elements of the longest range */
} share;
share share_of(int64_t count, int rank, int ranks);

/* Copies the rank's columns of x to at.room columns. The columns after at.count are NaN. */
cs_tensor share_columns(cs_tensor x, share at);

enum { SHARE_RANKS = 3, SHARE_THREADS = 2 };
/* Calls check(stream, type, number of ranks) for each type, each number of threads, and one to SHARE_RANKS ranks. */
void share_for_all(void (*check)(cs_stream *stream, cs_dtype dtype, int ranks));

void share_free(int count, const cs_tensor *tensors);
#define SHARE_FREE(...)                                                                                                \
    do {                                                                                                               \
        const cs_tensor list_[] = { __VA_ARGS__ };                                                                     \
        share_free((int)(sizeof list_ / sizeof *list_), list_);                                                        \
    } while (0)

#endif
