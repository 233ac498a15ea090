/* test_races.c - training on the instrumented emulated module, which aborts when two unordered operations of streams
 * access the same bytes. ZeRO stage 3 prefetches parameters, so that both streams are busy. */
#include "near.h"
#include "runs.h"
#include "suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Trains with two more assignments; each may be NULL. Fails the test if a rank aborts with a reported race. */
static void train(const char *first, const char *second)
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
    spec.set[1] = first;
    spec.set[2] = second;
    run_train(&spec, &result);
    ck_assert_double_lt(result.loss[2], 5);
}

START_TEST(streams_of_a_training_are_ordered)
{
    train(NULL, NULL);
}
END_TEST

/* The detector observes device memory only: the copies of offloaded parameters, but not the host memory they are read
 * from. */
START_TEST(streams_of_a_training_with_offload_are_ordered)
{
    train("zero_optimization.offload_optimizer.device=cpu", "zero_optimization.offload_param.device=cpu");
}
END_TEST

/* At the end of a step, the counts of the experts' load are summed over the ranks and copied to the host. */
START_TEST(streams_of_a_mixture_of_experts_are_ordered)
{
    train(RUN_EXPERTS, NULL);
}
END_TEST

SUITE_MAIN_APART("races", streams_of_a_training_are_ordered, streams_of_a_training_with_offload_are_ordered,
                 streams_of_a_mixture_of_experts_are_ordered)
