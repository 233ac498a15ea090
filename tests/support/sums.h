/* sums.h - collectives against a plain tree: values, what they should become, and where they lie. */
#ifndef CS_TESTS_SUMS_H
#define CS_TESTS_SUMS_H

#include "base/status.h"
#include "device/device.h"
#include "cspeed/comm.h"

/* A rank's function returns 1 with the sentence when something is not as it should be. */
#define EXPECT(condition, ...)                                                                                         \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            cs_fail(CS_IO_ERROR, __VA_ARGS__);                                                                         \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

#define SHOULD(call) EXPECT((call) == CS_OK, "%s", cs_error())

enum { SUMS_RANKS = 8 };

typedef struct {
    float real;
    int64_t whole;
} sums_number;

/* Where vectors lie: shared (in place), private (staged), or private but not at an aligned address. */
typedef struct {
    const char *name;
    char *big, *small; /* room for the whole, room for a part */
} sums_place;

/* Element `at` of a tensor of any dtype. */
void sums_put(void *data, int64_t at, cs_dtype dtype, sums_number value);
sums_number sums_get(const void *data, int64_t at, cs_dtype dtype);
/* data[count] becomes elements first, first + 1, ... of a rank's vector; another salt, another vector. */
void sums_fill(void *data, int64_t count, int64_t first, int rank, int salt, cs_dtype dtype);

/* From here on values are copied to and from memory that this device holds. NULL: no more. */
void sums_far(cs_device *device);
/* From here on sums of floats may be taken in any order and rounded at each step, as NCCL does. */
void sums_loosely(void);

/* These return 1 with the sentence when something is not as it should be. */
int sums_expect_values(const void *data, int64_t count, int64_t first, int rank, int salt, cs_dtype dtype,
                       const char *what);
int sums_try(cs_comm *comm, sums_place where, int64_t count, int salt, cs_dtype dtype, cs_reduce_op op);
int sums_try_copies(cs_comm *comm, sums_place where, int64_t count, int salt, cs_dtype dtype);
/* Every collective, dtype, operation and place, for counts from 0 to `most`, at most 10007. With a far device: its
 * memory, aligned and not, and the host's. */
int sums_try_each(cs_comm *comm, int64_t max);

#endif
