/* sums.h - comparing collectives with a reference sum in tree order. */
#ifndef CS_TESTS_SUMS_H
#define CS_TESTS_SUMS_H

#include "base/status.h"
#include "device/device.h"
#include "cspeed/comm.h"

/* For the function of a rank: if the condition is false, sets cs_error() to the message and returns 1. */
#define EXPECT(condition, ...)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            ce_fail(CS_IO_ERROR, __VA_ARGS__);                                                                         \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

#define SHOULD(call) EXPECT((call) == CS_OK, "%s", cs_error())

enum { SUMS_RANKS = 9 };

typedef struct {
    float real;
    int64_t whole;
} sums_number;

/* Where the vectors of a collective are. A vector in shared memory is used in place; a vector in private memory is
 * staged. */
typedef struct {
    const char *name;
    char *big, *small; /* big: memory for the whole vector; small: for one part of it */
} sums_place;

/* Returns element `at` of a tensor of any dtype. */
sums_number sums_get(const void *data, int64_t at, cs_dtype dtype);
/* Fills data[0] to data[count - 1] with `count` elements of a rank's vector, from element `first` on. The vector
 * depends on `salt`. */
void sums_fill(void *data, int64_t count, int64_t first, int rank, int salt, cs_dtype dtype);

/* From now on, data in this device's memory is copied to and from the host. NULL ends that. */
void sums_far(cs_device *device);
/* From now on, floating-point sums may be added in any order, with rounding at each step, as NCCL does. */
void sums_loosely(void);

/* The following functions return 1, with a message in cs_error(), if a value is wrong, else 0. sums_expect_values
 * compares data with the vector of one rank. */
int sums_expect_values(const void *data, int64_t count, int64_t first, int rank, int salt, cs_dtype dtype,
                       const char *what);
/* Compares `count` elements of data with the reduction of the vectors of `ranks` ranks, from element `first` on. */
int sums_expect_reduction(const void *data, int64_t count, int64_t first, int ranks, int salt, cs_dtype dtype,
                          cs_reduce_op op, const char *what);
int sums_try(cs_comm *comm, sums_place where, int64_t count, int salt, cs_dtype dtype, cs_reduce_op op);
int sums_try_copies(cs_comm *comm, sums_place where, int64_t count, int salt, cs_dtype dtype);
/* Tests all_reduce, reduce_scatter, all_gather and broadcast with every dtype, with the operations CS_SUM, CS_MIN and
 * CS_MAX, and with counts from 0 to `max`; the largest count is 10007. The vectors are in shared memory, in private
 * memory, or one in each. Counts of 300 or more are tested with CS_SUM only, and counts of 1000 or more only with all
 * vectors in memory of one kind. After sums_far with a device, a vector is either in the device's memory or in host
 * memory, aligned or unaligned. */
int sums_try_each(cs_comm *comm, int64_t max);

#endif
