/* exact.c - adds doubles to exact sums, and joins exact sums. */
#include "base/exact.h"

#include <math.h>

void cs_exact_add(cs_exact *sum, double value)
{
    if (!isfinite(value)) {
        sum->nonfinite++;
        return;
    }
    int exponent;
    double fraction = frexp(fabs(value), &exponent);
    uint64_t mantissa = (uint64_t)ldexp(fraction, 53); /* value = mantissa * 2^(exponent - 53) */
    int place = exponent - 53 - CS_EXACT_LOWEST;
    if (mantissa == 0 || place < 0)
        return;
    int digit = place / 32, shift = place % 32;
    if (digit + 2 >= CS_EXACT_DIGITS) {
        sum->nonfinite++;
        return;
    }
    int64_t sign = value < 0 ? -1 : 1;
    uint64_t low = (mantissa & 0xffffffffu) << shift, high = (mantissa >> 32) << shift;
    sum->digit[digit] += sign * (int64_t)(low & 0xffffffffu);
    sum->digit[digit + 1] += sign * (int64_t)((low >> 32) + (high & 0xffffffffu));
    sum->digit[digit + 2] += sign * (int64_t)(high >> 32);
}

void cs_exact_merge(cs_exact *sum, const cs_exact *other)
{
    for (int i = 0; i < CS_EXACT_DIGITS; i++)
        sum->digit[i] += other->digit[i];
    sum->nonfinite += other->nonfinite;
}
