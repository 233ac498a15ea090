/* near.c - compare numbers, say where they part. */
#include "near.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/rng.h"

enum { GUARD = 64, MARK = 0x5a };

double near_element(cs_tensor x, int64_t index)
{
    switch (x.dtype) {
    case CS_F32:  return (double)((const float *)x.data)[index];
    case CS_BF16: return (double)cs_bf16_to_float(((const uint16_t *)x.data)[index]);
    case CS_F16:  return (double)cs_f16_to_float(((const uint16_t *)x.data)[index]);
    default:      abort();
    }
}

void near_set(cs_tensor x, int64_t index, double value)
{
    switch (x.dtype) {
    case CS_F32:  ((float *)x.data)[index] = (float)value; return;
    case CS_BF16: ((uint16_t *)x.data)[index] = cs_float_to_bf16((float)value); return;
    case CS_F16:  ((uint16_t *)x.data)[index] = cs_float_to_f16((float)value); return;
    default:      abort();
    }
}

bool near_all(const char *what, cs_tensor got, const double *want, double tolerance)
{
    static const double rounding[] = { [CS_F32] = 0x1p-24, [CS_BF16] = 0x1p-8, [CS_F16] = 0x1p-11 };
    double              largest = 0, worst = 0;
    int64_t             where = 0, count = cs_count(got);
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < count; i++) {
        double apart = fabs(near_element(got, i) - want[i]);
        if (!(apart <= worst)) { /* a NaN is the worst */
            worst = apart;
            where = i;
        }
    }
    if (worst <= (tolerance + rounding[got.dtype]) * largest)
        return true;
    printf("%s: element %lld of %lld is %.9g, not %.9g; the largest is %.3g\n", what, (long long)where,
           (long long)count, near_element(got, where), want[where], largest);
    return false;
}

bool near_tensors(const char *what, cs_tensor got, cs_tensor want, double tolerance)
{
    double *numbers = near_doubles(want);
    bool    near    = near_all(what, got, numbers, tolerance);
    free(numbers);
    return near;
}

bool near_same_bits(const char *what, cs_tensor got, cs_tensor want)
{
    size_t      bytes = cs_dtype_bytes(got.dtype);
    const char *a = got.data, *b = want.data;
    for (int64_t i = 0; i < cs_count(got); i++) {
        if (memcmp(a + (size_t)i * bytes, b + (size_t)i * bytes, bytes) != 0) {
            printf("%s: element %lld differs: %.9g and %.9g\n", what, (long long)i, near_element(got, i),
                   near_element(want, i));
            return false;
        }
    }
    return true;
}

cs_tensor near_new(cs_dtype dtype, int64_t rows, int64_t columns)
{
    size_t bytes  = (size_t)(rows * columns) * cs_dtype_bytes(dtype);
    char  *memory = aligned_alloc(64, (bytes + 2 * GUARD - 1) / GUARD * GUARD);
    if (!memory)
        abort();
    memset(memory, 0, bytes);
    memset(memory + bytes, MARK, (bytes + 2 * GUARD - 1) / GUARD * GUARD - bytes);
    return cs_matrix(memory, dtype, rows, columns);
}

cs_tensor near_random(cs_dtype dtype, int64_t rows, int64_t columns, uint64_t seed, double size)
{
    cs_tensor x = near_new(dtype, rows, columns);
    for (int64_t i = 0; i < rows * columns; i++)
        near_set(x, i, size * (double)cs_rng_normal(seed, (uint64_t)i));
    return x;
}

cs_tensor near_copy(cs_tensor x)
{
    cs_tensor copy = near_new(x.dtype, cs_rows(x), cs_columns(x));
    memcpy(copy.data, x.data, (size_t)cs_count(x) * cs_dtype_bytes(x.dtype));
    return copy;
}

double *near_doubles(cs_tensor x)
{
    double *numbers = malloc((size_t)(cs_count(x) + 1) * sizeof *numbers);
    if (!numbers)
        abort();
    for (int64_t i = 0; i < cs_count(x); i++)
        numbers[i] = near_element(x, i);
    return numbers;
}

void near_free(cs_tensor x)
{
    size_t      bytes  = (size_t)cs_count(x) * cs_dtype_bytes(x.dtype);
    const char *memory = x.data;
    for (size_t i = bytes; memory && i < (bytes + 2 * GUARD - 1) / GUARD * GUARD; i++)
        if (memory[i] != MARK)
            abort();
    free(x.data);
}
