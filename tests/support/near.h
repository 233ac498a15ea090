/* near.h - compare numbers, say where they part; tensors of random numbers to compare; and the device that operations
 * are tested on. */
#ifndef CS_TESTS_NEAR_H
#define CS_TESTS_NEAR_H

#include "device/device.h"
#include "device/state.h"

/* An element of a float tensor as a double. */
double near_element(cs_tensor x, int64_t index);
/* Sets an element, rounded to the tensor's type. */
void near_set(cs_tensor x, int64_t index, double value);

/* Whether every element of got is within tolerance times the largest magnitude of want; prints the worst one if not.
 * The tolerance grows by one rounding of got's type. */
bool near_all(const char *what, cs_tensor got, const double *want, double tolerance);
/* The same for two tensors. */
bool near_tensors(const char *what, cs_tensor got, cs_tensor want, double tolerance);
/* Whether the bytes agree; prints the first element that does not. */
bool near_same_bits(const char *what, cs_tensor got, cs_tensor want);

/* Memory with room behind that must not be written. */
cs_tensor near_new(cs_dtype dtype, int64_t rows, int64_t columns); /* zeroed; aborts when there is no memory */
/* Normal numbers, times size. */
cs_tensor near_random(cs_dtype dtype, int64_t rows, int64_t columns, uint64_t seed, double size);
cs_tensor near_copy(cs_tensor x);
double *near_doubles(cs_tensor x); /* of every element; to be freed */
void near_free(cs_tensor x);       /* aborts if bytes behind the tensor were written */

/* The device that the environment's CSPEED_TEST_DEVICE names, "cpu" if it is unset. */
const char *near_device(void);

/* From here on the device "cuda" is the module that CSPEED_CUDA_MODULE names, or the emulated one. False: it is not
 * built. near_emulated says so, as what is skipped. */
bool near_find_emulator(void);
bool near_emulated(const char *test);

/* What this process has launched on the emulated GPU: kernels one by one, and graphs. */
typedef struct {
    uint64_t kernels, graphs;
} near_launches;
near_launches near_launched(void); /* zeros where they are not counted */
bool near_counts(void);            /* True for the emulated module: a real GPU's does not count them. */
uint64_t near_pinned_max(void);    /* bytes of host memory that were pinned at a time; 0 where they are not counted */
near_launches near_since(near_launches before); /* by now less by then */

/* The test's device, open; one at a time. Where its memory is not the host's, a test's tensors are taken there and
 * fetched when it has computed; on the CPU the two do nothing:
 *
 *     cs_op_add(stream, near_at(y), near_at(a), near_at(b));
 *     near_fetch();
 */
cs_device *near_open(int threads);
void near_close(void);
bool near_is_cpu(void);
/* The first, or the second where each step takes long: on the emulator, and under a sanitizer. */
int near_most(int anywhere, int slowly);
int near_threads(int max); /* most, or 1 on a device that has no threads of its own to be told of */
/* The same tensor where the device can reach it: in the whole block that near_new made with x somewhere in it, or, of
 * other memory, x alone until the next fetch. What is here is copied there where it was not since the last fetch. An
 * absent tensor stays absent. */
cs_tensor near_at(cs_tensor x);
void near_fetch(void); /* waits; what was taken there is here again, as the device left it */

/* Numbers the ranges' tiles; `at`, as above or another, puts them where the device that they are for reads them. They
 * live until the next fetch. */
cs_state_ranges near_ranges(cs_tensor (*at)(cs_tensor x), cs_state_range *ranges, int64_t count);

#endif
