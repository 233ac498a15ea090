/* near.h - comparing tensors with a tolerance, random tensors, and the device on which operations are tested. */
#ifndef CS_TESTS_NEAR_H
#define CS_TESTS_NEAR_H

#include "device/device.h"
#include "device/state.h"

/* Returns an element of a float tensor as a double. */
double near_element(cs_tensor x, int64_t index);
/* Sets an element, rounded to the tensor's type. */
void near_set(cs_tensor x, int64_t index, double value);

/* Returns true if every element of `got` differs from `want` by at most (tolerance + one rounding of the type of `got`)
 * times the largest magnitude in `want`. Otherwise prints the worst element. */
bool near_all(const char *what, cs_tensor got, const double *want, double tolerance);
/* Compares two tensors in the same way. */
bool near_tensors(const char *what, cs_tensor got, cs_tensor want, double tolerance);
/* Returns true if all bytes are equal; otherwise prints the first element that differs. */
bool near_same_bits(const char *what, cs_tensor got, cs_tensor want);

/* Returns a zeroed tensor. Guard bytes follow the tensor's elements; the guard bytes must not be written. Free the
 * tensor with near_free. */
cs_tensor near_new(cs_dtype dtype, int64_t rows, int64_t columns); /* aborts if memory is short */
/* Returns a tensor of normally distributed numbers, multiplied by `size`. */
cs_tensor near_random(cs_dtype dtype, int64_t rows, int64_t columns, uint64_t seed, double size);
cs_tensor near_copy(cs_tensor x);
double *near_doubles(cs_tensor x); /* returns every element as a double; the caller frees the array */
void near_free(cs_tensor x);       /* aborts if the guard bytes were written */

/* Returns the device that the environment variable CSPEED_TEST_DEVICE names, "cpu" if it is not set. */
const char *near_device(void);

/* From now on the device "cuda" uses the module that the variable CSPEED_CUDA_MODULE names. If the variable is not set,
 * these functions set it to the emulated module. They return false if the variable is not set and the emulated module
 * was not built; near_emulated then also prints that the test is skipped. */
bool near_find_emulator(void);
bool near_emulated(const char *test);
/* Returns the number of GPUs of the device "cuda" if it is at least `min`. Otherwise prints that the test is skipped,
 * and returns 0. Ranks share GPUs if there are more ranks than GPUs. The emulated module has exactly `min` GPUs from
 * now on. */
int near_gpus(const char *test, int min);

/* Numbers of launches on the emulated GPU by this process: single kernels, and graphs. */
typedef struct {
    uint64_t kernels, graphs;
} near_launches;
near_launches near_launched(void); /* returns zeros if the device does not count them */
bool near_counts(void);            /* returns whether the module counts launches, as only the emulated module does */
/* returns the highest number of bytes of host memory pinned at the same time, or 0 if they are not counted */
uint64_t near_pinned_max(void);
near_launches near_since(near_launches before); /* returns the launches since `before` */

/* Opens the device of the test; only one can be open. If the device has memory of its own, near_at copies the tensors
 * of a test there, and near_fetch copies them back after the computation. On the CPU both do nothing:
 *
 *     cs_op_add(stream, near_at(y), near_at(a), near_at(b));
 *     near_fetch(); */
cs_device *near_open(int threads);
void near_close(void);
bool near_is_cpu(void);
/* Returns `slowly` in every build with a sanitizer and on every GPU, and otherwise `anywhere`. With a sanitizer and on
 * the emulated GPU every step takes long; on a real GPU the start of each rank does. */
int near_limit(int anywhere, int slowly);
int near_threads(int max); /* returns `max` on a CPU, and 1 on other devices */
/* Returns x in memory that the device can use. If x is in a block of near_new, the whole block is copied to the device,
 * but only by the first call for this block after near_fetch. If x is in other memory, only x is copied, and the copy
 * is valid until the next near_fetch. If x is absent, returns an absent tensor. */
cs_tensor near_at(cs_tensor x);
void near_fetch(void); /* waits for the device and copies all tensors back to host memory */

/* Prepares ranges for the operations of device/state.h. Stores the number of each range's first tile in ranges[].tile.
 * Then calls `at`, which is near_at or a similar function, to copy the array `ranges` to memory that the device can
 * read. The result is valid until the next near_fetch. */
ce_state_ranges near_ranges(cs_tensor (*at)(cs_tensor x), ce_state_range *ranges, int64_t count);

#endif
