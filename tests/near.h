/* near.h - compare numbers, say where they part; and tensors of random numbers to compare. */
#ifndef CS_TESTS_NEAR_H
#define CS_TESTS_NEAR_H

#include "cspeed.h"

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
double   *near_doubles(cs_tensor x); /* of every element; to be freed */
void      near_free(cs_tensor x);    /* aborts if bytes behind the tensor were written */

#endif
