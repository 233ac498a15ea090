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

/* Where the vectors of a collective are: in shared memory (used in place), in private memory (staged), or in private
 * memory at an unaligned address. */
typedef struct {
    const char *name;
    char *big, *small; /* big: memory for the whole vector; small: for one part of it */
} sums_place;

/* Sets element `at` of a tensor of any dtype. */
void sums_put(void *data, int64_t at, cs_dtype dtype, sums_number value);
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
/* Tests every collective, dtype and operation, for counts from 0 to `max`, at most 10007, with the vectors in each
 * place of sums_place. After sums_far with a device, the places are: this device's memory, aligned and unaligned, and
 * host memory. */
int sums_try_each(cs_comm *comm, int64_t max);

#endif
