/* exact.h - exact sums of doubles, whose result does not depend on the order of the additions (Kulisch accumulator).
 *
 * The sum is a long fixed-point number. Its 32-bit digits are stored in int64 variables, so that carries can be
 * propagated at the end. Adding integers is commutative and associative, so blocks, threads and ranks may add in any
 * order and get the same bits. Two sums are joined by adding their digits, so an integer all-reduce joins the sums of
 * all ranks. The sum covers the range of squares of fp32 numbers. At most 2^30 additions fit. */
#ifndef CE_BASE_EXACT_H
#define CE_BASE_EXACT_H

#include "base/host_device.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

enum { CE_EXACT_DIGITS = 22, CE_EXACT_LOWEST = -352 };

typedef struct {
    int64_t digit[CE_EXACT_DIGITS]; /* digit[i] has the weight 2^(32 i - 352); bits below 2^-352 are dropped, and the
                                     * sum must be below 2^320 */
    int64_t nonfinite;              /* number of infinities and NaNs that were added */
} ce_exact;

void ce_exact_add(ce_exact *sum, double value);
void ce_exact_merge(ce_exact *sum, const ce_exact *other);

/* Returns the sum as a double, with an error of at most one unit in the last place, or NaN if an infinity or a NaN was
 * added. */
CE_HOST_DEVICE double ce_exact_value(const ce_exact *sum)
{
    if (sum->nonfinite)
        return (double)NAN;
    int64_t digit[CE_EXACT_DIGITS + 1];
    int64_t carry = 0;
    /* Propagates the carries. Then every digit is in [0, 2^32), except the most significant one, which has the sign. */
    for (int i = 0; i < CE_EXACT_DIGITS; i++) {
        int64_t total = sum->digit[i] + carry;
        carry = total >> 32;
        digit[i] = total - carry * ((int64_t)1 << 32);
    }
    digit[CE_EXACT_DIGITS] = carry;
    bool negative = carry < 0;
    if (negative) { /* negates the sum, so that the loop below converts a positive number */
        int64_t borrow = 0;
        for (int i = 0; i < CE_EXACT_DIGITS; i++) {
            int64_t total = -digit[i] + borrow;
            borrow = total < 0 ? -1 : 0;
            digit[i] = total - borrow * ((int64_t)1 << 32);
        }
        digit[CE_EXACT_DIGITS] = -digit[CE_EXACT_DIGITS] + borrow;
    }
    double value = 0;
    for (int i = 0; i <= CE_EXACT_DIGITS; i++)
        value += ldexp((double)digit[i], 32 * i + CE_EXACT_LOWEST);
    return negative ? -value : value;
}

#endif
