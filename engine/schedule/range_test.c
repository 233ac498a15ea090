/* range_test.c - LRRangeTest: the rate grows linearly or in steps from a small value, to find where the loss
 * diverges. */
#include "schedule/warmup.h"

#include <math.h>

static const ce_key keys[] = {
    { "lr_range_test_min_lr", CE_KEY_NUMBER, CE_WARMUP_AT(range_min_lr), "1e-3", 0, 1e30, NULL,
      "learning rate of the first updates" },
    { "lr_range_test_step_size", CE_KEY_INT, CE_WARMUP_AT(range_step_size), "2000", 1, CE_WARMUP_MAX, NULL,
      "number of updates in one step of the test" },
    { "lr_range_test_step_rate", CE_KEY_NUMBER, CE_WARMUP_AT(range_step_rate), "1.0", 0, 1e30, NULL,
      "growth of the learning rate in each step of the test, as a multiple of lr_range_test_min_lr" },
    { "lr_range_test_staircase", CE_KEY_BOOL, CE_WARMUP_AT(range_staircase), "false", 0, 0, NULL,
      "true: the rate grows once at the end of each step of the test; false: with every update" },
    CE_WARMUP_START,
};

static double rate(const ce_schedule_settings *settings, int64_t iteration)
{
    double sizes = (double)(iteration + 1) / (double)settings->range_step_size;
    return settings->range_min_lr *
           (1 + settings->range_step_rate * (settings->range_staircase ? floor(sizes) : sizes));
}

const ce_schedule ce_schedule_LRRangeTest = { "LRRangeTest", CE_KEYS(keys), rate, NULL };
