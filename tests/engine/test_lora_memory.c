/* test_lora_memory.c - LoRA on a model of the shape of Llama 3.2 1B, in bf16: the engine allocates what the plan
 * counts, to the byte, and far less than 24 GB. */
#include "runs.h"
#include "suite.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, LAYERS = 16, UNITS = LAYERS + 2, RANK = 16 };

#define MODEL                                                                                                          \
    "cspeed.model={\"model_type\": \"llama\", \"vocab_size\": 128256, \"hidden_size\": 2048, "                         \
    "\"intermediate_size\": 8192, \"num_hidden_layers\": 16, \"num_attention_heads\": 32, "                            \
    "\"num_key_value_heads\": 8, \"head_dim\": 64, \"max_position_embeddings\": 131072, "                              \
    "\"rope_theta\": 500000, \"tie_word_embeddings\": true}"
#define LORA "cspeed.lora={\"r\": 16, \"alpha\": 32, \"targets\": \"all-linear\"}"

/* Number of elements of the layers and of their adapters: A (r, inputs) and B (outputs, r). */
static size_t linear(size_t inputs, size_t outputs, size_t *adapters)
{
    *adapters += RANK * (inputs + outputs);
    return inputs * outputs;
}

static size_t all_elements(size_t *adapters)
{
    size_t width = 2048, keys = 512, hidden = 8192, block = 2 * width;
    block += linear(width, width, adapters) + linear(width, keys, adapters) + linear(width, keys, adapters) +
             linear(width, width, adapters) + linear(width, hidden, adapters) + linear(width, hidden, adapters) +
             linear(hidden, width, adapters);
    *adapters *= LAYERS;
    return 128256 * width + LAYERS * block + width;
}

/* No row of this model needs padding, so the bytes follow from the numbers of elements. */
START_TEST(what_is_planned_is_allocated)
{
    static run_result result;
    run_spec spec = { .world = 1,
                      .steps = 1,
                      .micro = 1,
                      .precision = "bf16",
                      .recompute = "unit",
                      .threads = "null",
                      .set = { MODEL, LORA, "cspeed.products=\"auto\"" } };
    size_t adapters = 0, base = all_elements(&adapters);
    run_train(&spec, &result);
    const cs_memory *said = &result.memory[0];
    const run_held *open = &result.at_open[0], *end = &result.at_end[0];
    ck_assert_uint_eq(said->values, 2 * (base + adapters));
    ck_assert_uint_eq(said->gradients, 4 * adapters);
    ck_assert_uint_eq(said->masters, 4 * adapters);
    ck_assert_uint_eq(said->slots, 8 * adapters);
    ck_assert_uint_eq(open->device - open->workspace, said->masters + said->slots + said->activations);
    ck_assert_uint_eq(end->device - end->workspace, open->device - open->workspace);
    ck_assert_uint_eq(end->heap, open->heap);
    ck_assert_uint_ge(open->heap, said->values + said->gradients); /* each row begins at the start of a page */
    ck_assert_uint_le(open->heap, said->values + said->gradients + (size_t)3 * UNITS * PAGE);
    ck_assert_uint_lt(end->heap + end->device - end->workspace, (size_t)3 << 30);
    ck_assert_double_gt(result.loss[0], 0);
}
END_TEST

SUITE_MAIN("lora_memory", what_is_planned_is_allocated)
