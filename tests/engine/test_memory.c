/* test_memory.c - persistent memory equals the formula to the byte, allocated memory equals reported memory, and a step
 * allocates nothing. */
#include "runs.h"
#include "shell.h"
#include "suite.h"

#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNITS = 5, PAGE = 4096 };

#define TCP "cspeed.comm=\"tcp\"" /* over TCP ranks share no memory, so parameters are gathered */

/* Number of elements of a unit of the tiny GPT-2. */
static int64_t unit_elements(int unit)
{
    int64_t width = 24, vocabulary = 61, positions = 16;
    int64_t block = 2 * width + (3 * width * width + 3 * width) + (width * width + width) + 2 * width +
                    (4 * width * width + 4 * width) + (4 * width * width + width);
    return unit == 0 ? (vocabulary + positions) * width : unit <= 3 ? block : 2 * width;
}

/* ZeRO's formula: bytes for each element of values, gradients, masters and slots; which of these are divided by the
 * world size depends on the stage. */
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

/* Returns the heap of a rank: a unit has an allocation for values and one for gradients, each rounded up to pages by
 * the comm. With `common` memory each rank maps the whole row of values and writes only its part. */
static size_t heap_of(int stage, int world, size_t value_bytes, bool common)
{
    size_t bytes = 0;
    for (int unit = 0; unit < UNITS; unit++) {
        size_t multiple = (size_t)world * 64,
               padded = ((size_t)unit_elements(unit) + multiple - 1) / multiple * multiple;
        size_t values = value_bytes * (stage >= 3 && !common ? padded / (size_t)world : padded);
        size_t grads = 4 * (stage >= 2 ? padded / (size_t)world : padded);
        bytes += (values + PAGE - 1) / PAGE * PAGE + (grads + PAGE - 1) / PAGE * PAGE;
    }
    return bytes;
}

/* Reported memory equals allocated memory. A unit has at most one row of values and one of gradients. */
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

static void check(int stage, int world, const char *precision, bool common)
{
    run_spec spec = { .world = world, .stage = stage, .steps = 3, .precision = precision, .prefetch = 1 };
    run_result result;
    spec.set[0] = common ? NULL : TCP;
    run_train(&spec, &result);
    size_t value_bytes = strcmp(precision, "fp32") == 0 ? 4 : 2;
    cs_memory wanted = formula(stage, world, value_bytes);
    for (int rank = 0; rank < world; rank++) {
        const cs_memory *said = &result.memory[rank];
        ck_assert_uint_eq(said->values, wanted.values);
        ck_assert_uint_eq(said->gradients, wanted.gradients);
        ck_assert_uint_eq(said->masters, wanted.masters);
        ck_assert_uint_eq(said->slots, wanted.slots);
        ck_assert(stage == 3 && !common ? said->value_rows > 0 : said->value_rows == 0);
        ck_assert(stage >= 2 ? said->gradient_rows > 0 : said->gradient_rows == 0);
        check_held(said, &result.at_open[rank], &result.after_first[rank], &result.at_end[rank],
                   heap_of(stage, world, value_bytes, common));
    }
}

START_TEST(persistent_bytes_equal_the_formula)
{
    for (int stage = 0; stage <= 3; stage++)
        for (int world = 1; world <= 3; world++) {
            check(stage, world, "fp32", true);
            check(stage, world, "bf16", true);
        }
    check(3, 2, "fp32", false);
    check(3, 3, "bf16", false);
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

/* Prefetching one more unit needs one more buffer of a unit's row. */
START_TEST(prefetch_costs_one_row_a_unit)
{
    run_spec spec = { .world = 2, .stage = 3, .steps = 2, .precision = "fp32", .prefetch = 0, .set = { TCP } };
    run_result none, one;
    run_train(&spec, &none);
    spec.prefetch = 1;
    run_train(&spec, &one);
    size_t block = (size_t)((unit_elements(1) + 127) / 128 * 128) * 4;
    ck_assert_uint_eq(one.memory[0].value_rows, none.memory[0].value_rows + block);
}
END_TEST

/* Gradients that are sent in 16 bits are converted into one additional row, as long as the longest unit. Reported and
 * allocated memory grow by this row. At stages 0 and 1, sums in 16 bits are sent without conversion. */
START_TEST(sending_in_16_bits_costs_one_row)
{
    size_t row = (size_t)((unit_elements(1) + 127) / 128 * 128) * 2, pooled = 0;
    for (int stage = 3; stage >= 0; stage--) {
        run_spec spec = { .world = 2, .stage = stage, .steps = 2, .precision = "bf16", .prefetch = 1 };
        run_result wide, half, same;
        run_train(&spec, &wide);
        spec.set[0] = "communication_data_type=bf16";
        run_train(&spec, &half);
        spec.set[0] = "data_types.grad_accum_dtype=bf16";
        run_train(&spec, &same);
        size_t added = half.at_open[0].heap - wide.at_open[0].heap;
        ck_assert_uint_eq(half.memory[0].gradient_rows, wide.memory[0].gradient_rows + row);
        ck_assert_uint_ge(added, row);
        ck_assert_uint_lt(added, row + PAGE);
        /* With sums in 16 bits, every stage needs the pool of gradient rows that otherwise only stages 2 and 3 need. */
        pooled = stage >= 2 ? wide.memory[0].gradient_rows : pooled;
        ck_assert_uint_eq(same.memory[0].gradient_rows, pooled + (stage >= 2 ? row : 0));
    }
}
END_TEST

/* The memory that is left is the least of the host's free memory and of what each control group still allows,
 * from the process's own group up to the root. */
START_TEST(the_free_memory_of_a_host)
{
    static const struct {
        const char *root, *group, *max, *held, *stat, *above;
        size_t free_bytes;
    } rows[] = {
        { "a", "0::/\n", "max\n", "5\n", "", "max\n", 3000 << 10 },
        { "b", "3:cpu:/x\n0::/job/rank\n", "1000000\n", "600000\n", "anon 1\nactive_file 0\ninactive_file 0\n", "max\n",
          400000 },
        { "c", "0::/job/rank\n", "1000000\n", "600000\n", "active_file 100000\ninactive_file 200000\n", "max\n",
          700000 },
        { "d", "0::/job/rank\n", "max\n", "600000\n", "", "700000\n", 100000 },
        { "e", "0::/job/rank\n", "1000000\n", "1000001\n", "", "max\n", 1 },
        { "f", "1:memory:/\n", "1\n", "0\n", "", "900000\n", 300000 }, /* the process is in the root group */
    };
    shell_enter();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *root = rows[i].root;
        shell_write_below(root, "proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    2000 kB\nSwapFree: 1000 kB\n");
        shell_write_below(root, "proc/self/cgroup", rows[i].group);
        shell_write_below(root, "sys/fs/cgroup/job/rank/memory.max", rows[i].max);
        shell_write_below(root, "sys/fs/cgroup/job/rank/memory.current", rows[i].held);
        shell_write_below(root, "sys/fs/cgroup/job/rank/memory.stat", rows[i].stat);
        shell_write_below(root, "sys/fs/cgroup/memory.max", rows[i].above);
        shell_write_below(root, "sys/fs/cgroup/memory.current", "600000\n");
        size_t bytes = ce_host_free_bytes(root, false);
        ck_assert_msg(bytes == rows[i].free_bytes, "%s: %zu", root, bytes);
    }
    ck_assert_uint_eq(ce_host_free_bytes("a", true), 2000 << 10); /* without swap */
    ck_assert_uint_eq(ce_host_free_bytes("nowhere", false), 0);
    shell_leave();
}
END_TEST

/* A model of 16 TB is refused on each rank before anything is allocated, with a message that has the sizes. */
START_TEST(a_model_beyond_the_host_is_refused)
{
    static const char *const wanted[] = { "optimizer states",
                                          "MB are free for each of the 2 ranks of its host:", "what helps: " };
    shell_enter();
    shell_write("text.txt", "not read, because the memory is checked first\n");
    shell_write("config.json",
                "{ \"train_micro_batch_size_per_gpu\": 1, \"cspeed\": { \"device\": \"cpu\", \"steps\": 1, \"data\": { "
                "\"train\": \"text.txt\", \"seq_len\": 4 }, \"model\": { \"model_type\": \"gpt2\", \"vocab_size\": 64, "
                "\"n_embd\": 65536, \"n_layer\": 80, \"n_head\": 64, \"n_positions\": 64 } } }");
    ck_assert_int_eq(shell_run("%s/cspeed --num_gpus 2 --oversubscribe train --config config.json 2>&1", CS_BIN), 1);
    char *said = shell_read("out.txt", NULL);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        ck_assert_msg(strstr(said, wanted[i]) != NULL, "no \"%s\" in: %s", wanted[i], said);
    free(said);
    shell_leave();
}
END_TEST

SUITE_MAIN("memory", persistent_bytes_equal_the_formula, recomputation_needs_less, prefetch_costs_one_row_a_unit,
           sending_in_16_bits_costs_one_row, the_free_memory_of_a_host, a_model_beyond_the_host_is_refused)
