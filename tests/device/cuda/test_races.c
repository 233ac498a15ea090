/* test_races.c - training on the instrumented emulated module, which aborts when two unordered operations of streams
 * access the same bytes. ZeRO stage 3 prefetches parameters, so that both streams are busy. */
#include "near.h"
#include "runs.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

START_TEST(streams_of_a_training_are_ordered)
{
    const char *module = CS_BIN "/libcspeed_cuda_emulated_instrumented.so";
    run_result result;
    run_spec spec = { .world = 2,
                      .stage = 3,
                      .steps = 3,
                      .micro = 1,
                      .precision = "bf16",
                      .prefetch = 1,
                      .accumulation = 2,
                      .recompute = "none",
                      .set = { "cspeed.device=cuda" } };
    if (access(module, R_OK) != 0) {
        printf("races: skipped, %s was not built\n", module);
        return;
    }
    setenv("CSPEED_CUDA_MODULE", module, 1);
    setenv("CSPEED_EMULATOR_DEVICES", "2", 1);
    run_train(&spec, &result); /* fails the test if a rank aborts with a reported race */
    ck_assert_double_lt(result.loss[2], 5);
}
END_TEST

SUITE_MAIN_APART("races", streams_of_a_training_are_ordered)
