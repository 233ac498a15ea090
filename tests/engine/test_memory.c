/* test_memory.c - persistent bytes equal the formula to the byte, what is held equals what is said, a step allocates
 * nothing. */
#include "suite.h"
#include "runs.h"

#include <string.h>

enum { UNITS = 5, PAGE = 4096 };

/* The tiny GPT-2's units, elements. */
static int64_t unit_elements(int unit)
{
    int64_t width = 24, vocabulary = 61, positions = 16;
    int64_t block = 2 * width + (3 * width * width + 3 * width) + (width * width + width) + 2 * width +
                    (4 * width * width + 4 * width) + (4 * width * width + width);
    return unit == 0 ? (vocabulary + positions) * width : unit <= 3 ? block : 2 * width;
}

/* ZeRO's table: bytes an element of (values, gradients, masters, slots), and what is divided by the world. */
static cs_memory formula(int stage, int world, size_t value_bytes)
{
    cs_memory memory = { 0 };
    for (int unit = 0; unit < UNITS; unit++) {
        int64_t multiple = world * 64;
        size_t padded = (size_t)((unit_elements(unit) + multiple - 1) / multiple * multiple),
               part = padded / (size_t)world;
        memory.values += value_bytes * (stage >= 3 ? part : padded);
        memory.gradients += 4 * (stage >= 2 ? part : padded);
        memory.masters += value_bytes == 4 ? 0 : 4 * (stage >= 1 ? part : padded);
        memory.slots += 8 * (stage >= 1 ? part : padded);
    }
    return memory;
}

/* comm begins each allocation at a page: a unit's values and its gradients are one each. */
static size_t heap_of(int stage, int world, size_t value_bytes)
{
    size_t bytes = 0;
    for (int unit = 0; unit < UNITS; unit++) {
        size_t multiple = (size_t)world * 64,
               padded = ((size_t)unit_elements(unit) + multiple - 1) / multiple * multiple;
        size_t values = value_bytes * (stage >= 3 ? padded / (size_t)world : padded);
        size_t grads = 4 * (stage >= 2 ? padded / (size_t)world : padded);
        bytes += (values + PAGE - 1) / PAGE * PAGE + (grads + PAGE - 1) / PAGE * PAGE;
    }
    return bytes;
}

/* What was said is what was taken. A unit has at most one row of values and one of gradients. */
static void check_held(const cs_memory *said, const run_held *open, const run_held *first, const run_held *end,
                       size_t heap)
{
    size_t rows = said->value_rows + said->gradient_rows;
    ck_assert_uint_ge(open->heap, heap + rows);
    ck_assert_uint_le(open->heap, heap + rows + (rows ? 2 * UNITS * PAGE : 0));
    ck_assert_uint_eq(open->device - open->workspace, said->masters + said->slots + said->activations);
    ck_assert_uint_eq(first->heap, open->heap);
    ck_assert_uint_eq(first->device - first->workspace, open->device - open->workspace);
    ck_assert_uint_eq(end->heap, first->heap);
    ck_assert_uint_eq(end->device, first->device);
    ck_assert_uint_eq(said->workspace, first->workspace);
}

static void check(int stage, int world, const char *precision)
{
    run_spec spec = { .world = world, .stage = stage, .steps = 3, .precision = precision, .prefetch = 1 };
    run_result result;
    run_train(&spec, &result);
    size_t value_bytes = strcmp(precision, "fp32") == 0 ? 4 : 2;
    cs_memory wanted = formula(stage, world, value_bytes);
    for (int rank = 0; rank < world; rank++) {
        const cs_memory *said = &result.memory[rank];
        ck_assert_uint_eq(said->values, wanted.values);
        ck_assert_uint_eq(said->gradients, wanted.gradients);
        ck_assert_uint_eq(said->masters, wanted.masters);
        ck_assert_uint_eq(said->slots, wanted.slots);
        ck_assert(stage == 3 ? said->value_rows > 0 : said->value_rows == 0);
        ck_assert(stage >= 2 ? said->gradient_rows > 0 : said->gradient_rows == 0);
        check_held(said, &result.at_open[rank], &result.after_first[rank], &result.at_end[rank],
                   heap_of(stage, world, value_bytes));
    }
}

START_TEST(persistent_bytes_equal_the_formula)
{
    for (int stage = 0; stage <= 3; stage++)
        for (int world = 1; world <= 3; world++) {
            check(stage, world, "fp32");
            check(stage, world, "bf16");
        }
}
END_TEST

START_TEST(recomputation_needs_less)
{
    run_spec spec = { .world = 1, .stage = 0, .steps = 2, .precision = "fp32", .prefetch = 1 };
    run_result all, unit;
    run_train(&spec, &all);
    spec.recompute = "unit";
    run_train(&spec, &unit);
    ck_assert_uint_lt(unit.memory[0].activations, all.memory[0].activations);
}
END_TEST

/* A prefetched unit more at a time is one more row of its length. */
START_TEST(prefetch_costs_one_row_a_unit)
{
    run_spec spec = { .world = 2, .stage = 3, .steps = 2, .precision = "fp32", .prefetch = 0 };
    run_result none, one;
    run_train(&spec, &none);
    spec.prefetch = 1;
    run_train(&spec, &one);
    size_t block = (size_t)((unit_elements(1) + 127) / 128 * 128) * 4;
    ck_assert_uint_eq(one.memory[0].value_rows, none.memory[0].value_rows + block);
}
END_TEST

SUITE_MAIN("memory", persistent_bytes_equal_the_formula, recomputation_needs_less, prefetch_costs_one_row_a_unit)
