/* exact.h - sums of doubles that do not depend on the order of adding.
 *
 * A long fixed-point number of 32-bit digits, each kept in an int64 so that carries can wait: adding
 * integers commutes, so blocks, threads and ranks may add in any order and get the same bits (Kulisch's
 * accumulator, cut to the squares of floats). Digits of two sums add element-wise: an all-reduce of
 * its int64 words joins the ranks. Holds 2^30 additions. */
#ifndef CS_BASE_EXACT_H
#define CS_BASE_EXACT_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* What a sum's value is is one text for every device. */
#ifdef __CUDACC__
#define CS_EXACT static __host__ __device__ inline
#else
#define CS_EXACT static inline
#endif

enum { CS_EXACT_DIGITS = 22, CS_EXACT_LOWEST = -352 };

typedef struct {
    int64_t digit[CS_EXACT_DIGITS]; /* digit[i] weighs 2^(32 i - 352): below 2^-352 is dropped, up to 2^320 fits */
    int64_t nonfinite;              /* how many infinities and NaNs were added */
} cs_exact;

void cs_exact_add(cs_exact *sum, double value);
void cs_exact_merge(cs_exact *sum, const cs_exact *other);

/* Correctly rounded to within an ulp; NaN if anything non-finite was added. */
CS_EXACT double cs_exact_value(const cs_exact *sum)
{
    if (sum->nonfinite)
        return (double)NAN;
    int64_t digit[CS_EXACT_DIGITS + 1];
    int64_t carry = 0;
    for (int i = 0; i < CS_EXACT_DIGITS; i++) { /* canonical form: digits in [0, 2^32), the last signed */
        int64_t total = sum->digit[i] + carry;
        carry = total >> 32;
        digit[i] = total - carry * ((int64_t)1 << 32);
    }
    digit[CS_EXACT_DIGITS] = carry;
    bool negative = carry < 0;
    if (negative) { /* negate, so that the leading digits carry the value */
        int64_t borrow = 0;
        for (int i = 0; i < CS_EXACT_DIGITS; i++) {
            int64_t total = -digit[i] + borrow;
            borrow = total < 0 ? -1 : 0;
            digit[i] = total - borrow * ((int64_t)1 << 32);
        }
        digit[CS_EXACT_DIGITS] = -digit[CS_EXACT_DIGITS] + borrow;
    }
    double value = 0;
    for (int i = 0; i <= CS_EXACT_DIGITS; i++)
        value += ldexp((double)digit[i], 32 * i + CS_EXACT_LOWEST);
    return negative ? -value : value;
}

#endif
