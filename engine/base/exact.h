/* exact.h - sums of doubles that do not depend on the order of adding.
 *
 * A long fixed-point number of 32-bit digits, each kept in an int64 so that carries can wait: adding
 * integers commutes, so blocks, threads and ranks may add in any order and get the same bits (Kulisch's
 * accumulator, cut to the squares of floats). Digits of two sums add element-wise: an all-reduce of
 * its int64 words joins the ranks. Holds 2^30 additions. */
#ifndef CS_BASE_EXACT_H
#define CS_BASE_EXACT_H

#include <stdbool.h>
#include <stdint.h>

enum { CS_EXACT_DIGITS = 22 };

typedef struct {
    int64_t digit[CS_EXACT_DIGITS]; /* digit[i] weighs 2^(32 i - 352): below 2^-352 is dropped, up to 2^320 fits */
    int64_t nonfinite;              /* how many infinities and NaNs were added */
} cs_exact;

void cs_exact_add(cs_exact *sum, double value);
void cs_exact_merge(cs_exact *sum, const cs_exact *other);
double
cs_exact_value(const cs_exact *sum); /* correctly rounded to within an ulp; NaN if anything non-finite was added */

#endif
