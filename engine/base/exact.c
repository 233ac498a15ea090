/* exact.c - adds doubles to exact sums, and joins exact sums. */
#include "base/exact.h"

#include <string.h>

void ce_exact_add(ce_exact *sum, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int exponent = (int)(bits >> 52 & 0x7ff); /* a normal number is mantissa * 2^(exponent - 1075) */
    uint64_t mantissa = (bits & 0xfffffffffffff) | (uint64_t)1 << 52;
    int place = exponent - 1075 - CE_EXACT_LOWEST;
    if (exponent == 0x7ff) {
        sum->nonfinite++;
        return;
    }
    if (place < 0) /* zero, subnormal numbers and other numbers below the range of the sum are dropped */
        return;
    int digit = place / 32, shift = place % 32;
    if (digit + 2 >= CE_EXACT_DIGITS) {
        sum->nonfinite++;
        return;
    }
    int64_t sign = value < 0 ? -1 : 1;
    uint64_t low = (mantissa & 0xffffffffu) << shift, high = (mantissa >> 32) << shift;
    sum->digit[digit] += sign * (int64_t)(low & 0xffffffffu);
    sum->digit[digit + 1] += sign * (int64_t)((low >> 32) + (high & 0xffffffffu));
    sum->digit[digit + 2] += sign * (int64_t)(high >> 32);
}

void ce_exact_merge(ce_exact *sum, const ce_exact *other)
{
    for (int i = 0; i < CE_EXACT_DIGITS; i++)
        sum->digit[i] += other->digit[i];
    sum->nonfinite += other->nonfinite;
}
