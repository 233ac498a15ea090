/* sums.c - comparing collectives with a reference sum in tree order. */
#include "sums.h"
#include "base/half.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const dtype_names[] = { "f32", "bf16", "f16", "i32", "i64", "u8" };

/* ---- values ----------------------------------------------------------------------------------- */

static bool is_real(cs_dtype dtype)
{
    return dtype == CS_F32 || dtype == CS_BF16 || dtype == CS_F16;
}

static void store(void *to, cs_dtype dtype, sums_number value)
{
    switch (dtype) {
    case CS_F32:
        *(float *)to = value.real;
        break;
    case CS_I32:
        *(int32_t *)to = (int32_t)value.whole;
        break;
    case CS_I64:
        *(int64_t *)to = value.whole;
        break;
    case CS_U8:
        *(uint8_t *)to = (uint8_t)value.whole;
        break;
    default:
        *(uint16_t *)to = dtype == CS_BF16 ? ce_float_to_bf16(value.real) : ce_float_to_f16(value.real);
    }
}

static sums_number load(const void *from, cs_dtype dtype)
{
    switch (dtype) {
    case CS_F32:
        return (sums_number){ .real = *(const float *)from };
    case CS_I32:
        return (sums_number){ .whole = *(const int32_t *)from };
    case CS_I64:
        return (sums_number){ .whole = *(const int64_t *)from };
    case CS_U8:
        return (sums_number){ .whole = *(const uint8_t *)from };
    case CS_BF16:
        return (sums_number){ .real = ce_bf16_to_float(*(const uint16_t *)from) };
    default:
        return (sums_number){ .real = ce_f16_to_float(*(const uint16_t *)from) };
    }
}

sums_number sums_get(const void *data, int64_t at, cs_dtype dtype)
{
    return load((const char *)data + (size_t)at * cs_dtype_bytes(dtype), dtype);
}

/* Rounds a value to a dtype; an integer keeps its lowest bits. */
static sums_number rounded(sums_number value, cs_dtype dtype)
{
    switch (dtype) {
    case CS_F32:
        return (sums_number){ .real = value.real };
    case CS_I32:
        return (sums_number){ .whole = (int32_t)value.whole };
    case CS_I64:
        return (sums_number){ .whole = value.whole };
    case CS_U8:
        return (sums_number){ .whole = (uint8_t)value.whole };
    case CS_BF16:
        return (sums_number){ .real = ce_bf16_to_float(ce_float_to_bf16(value.real)) };
    default:
        return (sums_number){ .real = ce_f16_to_float(ce_float_to_f16(value.real)) };
    }
}

static bool same_bits(sums_number a, sums_number b)
{
    return a.whole == b.whole && ce_float_bits(a.real) == ce_float_bits(b.real);
}

/* Returns element `at` of a rank's vector: pseudo-random bits that this dtype can represent. */
static sums_number value_of(int rank, int64_t at, int salt, cs_dtype dtype)
{
    uint64_t bits = (uint64_t)at * 0x9e3779b97f4a7c15u + (uint64_t)rank * 0xbf58476d1ce4e5b9u + (uint64_t)salt * 7919;
    bits = (bits ^ bits >> 31) * 0x94d049bb133111ebu;
    bits ^= bits >> 29;
    return rounded((sums_number){ (float)(int32_t)bits * 0x1p-29f, (int64_t)bits }, dtype);
}

void sums_fill(void *data, int64_t count, int64_t first, int rank, int salt, cs_dtype dtype)
{
    size_t bytes = cs_dtype_bytes(dtype);
    for (int64_t i = 0; i < count; i++)
        store((char *)data + (size_t)i * bytes, dtype, value_of(rank, first + i, salt, dtype));
}

/* ---- positions of values ---------------------------------------------------------------------- */

static cs_device *far;
static bool loose;

void sums_far(cs_device *device)
{
    far = device;
}

void sums_loosely(void)
{
    loose = true;
}

static bool is_far(const void *data)
{
    return far && ce_device_holds(far, data);
}

static void *scratch(size_t bytes)
{
    void *memory = malloc(bytes + 1);
    if (!memory)
        abort();
    return memory;
}

static void move(void *to, const void *from, size_t bytes)
{
    ce_stream_copy(ce_device_stream(far, CE_COMM), to, from, bytes);
    ce_stream_sync(ce_device_stream(far, CE_COMM));
}

static void place_values(void *data, int64_t count, int rank, int salt, cs_dtype dtype)
{
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype);
    void *values = is_far(data) ? scratch(bytes) : data;
    sums_fill(values, count, 0, rank, salt, dtype);
    if (values == data)
        return;
    move(data, values, bytes);
    free(values);
}

static void place_bytes(void *data, int byte, size_t bytes)
{
    void *values = is_far(data) ? scratch(bytes) : data;
    memset(values, byte, bytes);
    if (values == data)
        return;
    move(data, values, bytes);
    free(values);
}

/* Returns the data in host memory: a copy, or `data` itself if it is there already. The caller passes the result to
 * let_go(). */
static const void *look_at(const void *data, size_t bytes)
{
    if (!is_far(data))
        return data;
    void *values = scratch(bytes);
    move(values, data, bytes);
    return values;
}

static void let_go(const void *values, const void *data)
{
    if (values != data)
        free((void *)(size_t)values);
}

/* ---- expected results ------------------------------------------------------------------------- */

static sums_number combine_reals(float a, float b, cs_reduce_op op)
{
    if (op == CS_SUM || op == CS_AVG)
        return (sums_number){ .real = a + b };
    if (op == CS_PROD)
        return (sums_number){ .real = a * b };
    return (sums_number){ .real = (op == CS_MIN) == (a < b) ? a : b };
}

static sums_number combine(sums_number a, sums_number b, cs_dtype dtype, cs_reduce_op op)
{
    if (is_real(dtype))
        return combine_reals(a.real, b.real, op);
    if (op == CS_MIN || op == CS_MAX)
        return (op == CS_MIN) == (a.whole < b.whole) ? a : b;
    uint64_t x = (uint64_t)a.whole, y = (uint64_t)b.whole;
    return rounded((sums_number){ .whole = (int64_t)(op == CS_PROD ? x * y : x + y) }, dtype);
}

/* Reduces element `at` of all ranks' vectors in tree order. Each level combines neighbouring values in pairs. If a
 * level has an odd number of values, its last value goes to the next level unchanged. */
static sums_number tree_of(int64_t at, int ranks, int salt, cs_dtype dtype, cs_reduce_op op)
{
    sums_number level[SUMS_RANKS];
    for (int i = 0; i < ranks; i++)
        level[i] = value_of(i, at, salt, dtype);
    for (int left = ranks; left > 1; left = (left + 1) / 2) {
        for (int i = 0; i < left / 2; i++)
            level[i] = combine(level[2 * i], level[2 * i + 1], dtype, op);
        if (left % 2)
            level[left / 2] = level[left - 1];
    }
    if (op == CS_AVG)
        return (sums_number){ level[0].real / (float)ranks, level[0].whole / ranks };
    return level[0];
}

/* All values are below 4, so partial sums are below 4 * ranks, and each of at most `ranks` roundings has an error of at
 * most half a unit in the last place. */
static bool is_near(sums_number is, sums_number should, int ranks, cs_dtype dtype)
{
    double unit = dtype == CS_F32 ? 0x1p-23 : dtype == CS_BF16 ? 0x1p-7 : 0x1p-10;
    double apart = (double)is.real - (double)should.real;
    return fabs(apart) <= 4 * ranks * ranks * unit;
}

static int compare_sums(const void *data, int64_t count, int64_t first, int ranks, int salt, cs_dtype dtype,
                        cs_reduce_op op, const char *what)
{
    size_t bytes = cs_dtype_bytes(dtype);
    bool near = loose && (op == CS_SUM || op == CS_AVG) && is_real(dtype);
    for (int64_t i = 0; i < count; i++) {
        sums_number is = load((const char *)data + (size_t)i * bytes, dtype),
                    should = rounded(tree_of(first + i, ranks, salt, dtype, op), dtype);
        if (near && is_near(is, should, ranks, dtype))
            continue;
        EXPECT(same_bits(is, should), "%s of %s, op %d: element %lld of %lld is %g or %lld", what, dtype_names[dtype],
               (int)op, (long long)i, (long long)count, (double)is.real, (long long)is.whole);
    }
    return 0;
}

int sums_expect_reduction(const void *data, int64_t count, int64_t first, int ranks, int salt, cs_dtype dtype,
                          cs_reduce_op op, const char *what)
{
    const void *values = look_at(data, (size_t)count * cs_dtype_bytes(dtype));
    int failed = compare_sums(values, count, first, ranks, salt, dtype, op, what);
    let_go(values, data);
    return failed;
}

/* ---- each collective -------------------------------------------------------------------------- */

int sums_try(cs_comm *comm, sums_place where, int64_t count, int salt, cs_dtype dtype, cs_reduce_op op)
{
    int rank = cs_comm_rank(comm), size = cs_comm_size(comm);
    place_values(where.big, count, rank, salt, dtype);
    cs_comm_all_reduce(comm, where.big, count, dtype, op);
    if (sums_expect_reduction(where.big, count, 0, size, salt, dtype, op, where.name))
        return 1;
    place_values(where.big, size * count, rank, salt + 1, dtype);
    cs_comm_reduce_scatter(comm, where.small, where.big, count, dtype, op);
    if (sums_expect_reduction(where.small, count, rank * count, size, salt + 1, dtype, op, where.name))
        return 1;
    place_values(where.big, size * count, rank, salt + 2, dtype);
    void *part = where.big + (size_t)(rank * count) * cs_dtype_bytes(dtype);
    cs_comm_reduce_scatter(comm, part, where.big, count, dtype, op);
    if (sums_expect_reduction(part, count, rank * count, size, salt + 2, dtype, op, where.name))
        return 1;
    /* after the reduce_scatter above, the all_gather makes an all_reduce of the same values */
    cs_comm_all_gather(comm, where.big, part, count, dtype);
    return sums_expect_reduction(where.big, size * count, 0, size, salt + 2, dtype, op, where.name);
}

static int compare_values(const void *data, int64_t count, int64_t first, int rank, int salt, cs_dtype dtype,
                          const char *what)
{
    size_t bytes = cs_dtype_bytes(dtype);
    for (int64_t i = 0; i < count; i++) {
        sums_number is = load((const char *)data + (size_t)i * bytes, dtype),
                    should = value_of(rank, first + i, salt, dtype);
        EXPECT(same_bits(is, should), "%s of %s from rank %d: element %lld of %lld is wrong", what, dtype_names[dtype],
               rank, (long long)i, (long long)count);
    }
    return 0;
}

int sums_expect_values(const void *data, int64_t count, int64_t first, int rank, int salt, cs_dtype dtype,
                       const char *what)
{
    const void *values = look_at(data, (size_t)count * cs_dtype_bytes(dtype));
    int failed = compare_values(values, count, first, rank, salt, dtype, what);
    let_go(values, data);
    return failed;
}

int sums_try_copies(cs_comm *comm, sums_place where, int64_t count, int salt, cs_dtype dtype)
{
    int rank = cs_comm_rank(comm), size = cs_comm_size(comm), root = salt % size;
    size_t bytes = (size_t)count * cs_dtype_bytes(dtype);
    place_values(where.small, count, rank, salt, dtype);
    place_bytes(where.big, 0xaa, (size_t)size * bytes);
    cs_comm_all_gather(comm, where.big, where.small, count, dtype);
    for (int i = 0; i < size; i++)
        if (sums_expect_values(where.big + (size_t)i * bytes, count, 0, i, salt, dtype, where.name))
            return 1;
    place_values(where.small, count, rank, salt + 3, dtype);
    cs_comm_broadcast(comm, where.small, count, dtype, root);
    return sums_expect_values(where.small, count, 0, root, salt + 3, dtype, where.name);
}

static int try_count(cs_comm *comm, const sums_place *places, size_t place_count, int64_t count, bool thorough)
{
    for (size_t p = 0; p < place_count; p++)
        for (int dtype = CS_F32; dtype <= CS_U8; dtype++) {
            int salt = (int)count * 31 + dtype * 5 + (int)p;
            for (int op = CS_SUM; op <= (thorough ? CS_MAX : CS_SUM); op++)
                if (sums_try(comm, places[p], count, salt + op, (cs_dtype)dtype, (cs_reduce_op)op))
                    return 1;
            if (sums_try_copies(comm, places[p], count, salt, (cs_dtype)dtype))
                return 1;
        }
    return 0;
}

int sums_try_each(cs_comm *comm, int64_t max)
{
    int size = cs_comm_size(comm);
    size_t capacity = (size_t)size * 10008 * 8;
    char *lone = malloc(2 * capacity + 8);
    char *big = cs_comm_alloc(comm, capacity + 8), *small = cs_comm_alloc(comm, capacity + 8);
    sums_place all[] = { { "in place", big, small },
                         { "staged", lone, lone + capacity },
                         { "mixed", lone, small },
                         { "mixed the other way", big, lone + capacity },
                         { "staged askew", lone + 8, lone + capacity + 8 } };
    EXPECT(lone, "no memory");
    if (far) { /* the buffers of one call are either all in device memory or all in host memory */
        all[2] = (sums_place){ "in place askew", big + 8, small + 8 };
        all[3] = (sums_place){ "in place again", small, big };
    }
    int64_t counts[] = { 0, 1, 2, size - 1, size, 3, 31, 257, 1021, 4099, 10007 };
    int failed = 0;
    for (size_t i = 0; i < sizeof counts / sizeof *counts && counts[i] <= max && !failed; i++)
        failed = try_count(comm, all, counts[i] < 1000 ? sizeof all / sizeof *all : 2, counts[i], counts[i] < 300);
    free(lone);
    return failed;
}
