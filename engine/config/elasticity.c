/* elasticity.c - elastic training: computes one batch size for many world sizes, as versions 0.1 and 0.2 of DeepSpeed's
 * elasticity do. */
#include "config/elasticity.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

/* ---- version 0.1: the batch is a base times a number with many divisors ----
 *
 * The counts here are numbers of data-parallel ranks, each of which is a group of model_parallel_size ranks. */

static int64_t least_common_multiple(const ce_elasticity *settings)
{
    int64_t all = 1;
    for (int i = 0; i < settings->micro_count; i++) {
        int64_t a = all, b = settings->micro_batch_sizes[i];
        while (b) {
            int64_t rest = a % b;
            a = b;
            b = rest;
        }
        if (__builtin_mul_overflow(all / a, settings->micro_batch_sizes[i], &all))
            return INT64_MAX;
    }
    return all;
}

/* Returns the largest of DeepSpeed's highly composite numbers that is at most `max`. Each of these numbers has more
 * divisors than every smaller number. */
static int64_t highly_composite(int64_t max)
{
    static const int32_t list[] = { 1,      2,      4,      6,      12,     24,     36,     48,    60,    120,
                                    180,    240,    360,    720,    840,    1260,   1680,   2520,  5040,  7560,
                                    10080,  15120,  20160,  25200,  27720,  45360,  50400,  55440, 83160, 110880,
                                    166320, 221760, 277200, 332640, 498960, 554400, 665280, 720720 };
    int i = sizeof list / sizeof *list - 1;
    while (list[i] > max)
        i--;
    return list[i];
}

/* Sets valid[n] for each number of ranks n in [min, max] that can train this batch. Returns the count of such
 * numbers. */
static int mark_counts(bool *valid, const ce_elasticity *settings, int64_t batch, int64_t min, int64_t max)
{
    int found = 0;
    memset(valid, 0, (size_t)max + 1);
    for (int i = 0; i < settings->micro_count; i++) {
        if (batch % settings->micro_batch_sizes[i] != 0)
            continue;
        int64_t parts = batch / settings->micro_batch_sizes[i];
        for (int64_t count = min; count <= max && count <= parts; count++) {
            found += !valid[count] && parts % count == 0;
            valid[count] |= parts % count == 0;
        }
    }
    return found;
}

/* Finds the batch of at most `cap` samples that can be trained by the most world sizes in [min, max]. Returns false if
 * there is none. */
static bool solve_counts(ce_elasticity_plan *plan, const ce_elasticity *settings, int64_t cap, int64_t min, int64_t max)
{
    bool *valid = calloc((size_t)max + 1, 1);
    CE_ASSERT(valid);
    for (int i = 0; i <= settings->micro_count; i++) {
        int64_t base = i < settings->micro_count ? settings->micro_batch_sizes[i] : least_common_multiple(settings);
        if (base > cap)
            continue;
        int64_t batch = base * highly_composite(cap / base);
        int count = mark_counts(valid, settings, batch, min, max);
        bool nicer = settings->prefer_larger_batch ? batch > plan->batch : batch < plan->batch;
        if (count > plan->count || (count == plan->count && count > 0 && nicer)) {
            plan->batch = batch;
            plan->count = count;
        }
    }
    if (plan->count > 0) {
        plan->worlds = calloc((size_t)plan->count, sizeof *plan->worlds);
        CE_ASSERT(plan->worlds);
        mark_counts(valid, settings, plan->batch, min, max);
        for (int64_t count = min, at = 0; count <= max; count++)
            if (valid[count])
                plan->worlds[at++] = count;
    }
    free(valid);
    return plan->count > 0;
}

/* ---- version 0.2: whole nodes, and if necessary a batch for this world size only ---- */

static cs_status solve_world(ce_elasticity_plan *plan, const ce_elasticity *settings, int64_t world)
{
    int64_t parts = world / settings->model_parallel_size, best = 0;
    if (world % settings->model_parallel_size != 0)
        return ce_fail(CS_BAD_CONFIG, "elasticity: %lld ranks cannot be divided by model_parallel_size %lld",
                       (long long)world, (long long)settings->model_parallel_size);
    for (int i = 0; i < settings->micro_count; i++) {
        int64_t min;
        if (__builtin_mul_overflow(settings->micro_batch_sizes[i], parts, &min))
            continue;
        int64_t batch = settings->max_train_batch_size / min * min;
        if (batch > 0 && (best == 0 || (settings->prefer_larger_batch ? batch > best : batch < best)))
            best = batch;
    }
    if (best == 0)
        return ce_fail(CS_BAD_CONFIG,
                       "elasticity: %lld ranks need a batch above max_train_batch_size %lld, even with the smallest of "
                       "micro_batch_sizes",
                       (long long)world, (long long)settings->max_train_batch_size);
    ce_elasticity_free(plan);
    *plan = (ce_elasticity_plan){ .batch = best, .count = 1, .worlds = calloc(1, sizeof *plan->worlds) };
    CE_ASSERT(plan->worlds);
    plan->worlds[0] = world;
    return CS_OK;
}

static cs_status solve_nodes(ce_elasticity_plan *plan, const ce_elasticity *settings, int64_t world)
{
    int64_t ranks = settings->num_gpus_per_node, parts = ranks / settings->model_parallel_size;
    int64_t min = settings->min_gpus / ranks, max = settings->max_gpus / ranks;
    if (world < 1)
        return ce_fail(CS_BAD_CONFIG, "elasticity: version 0.2 needs the number of ranks; version 0.1 does not");
    if (solve_counts(plan, settings, settings->max_train_batch_size / parts, min ? min : 1, max)) {
        plan->batch *= parts;
        for (int i = 0; i < plan->count; i++)
            plan->worlds[i] *= ranks;
    }
    return ce_elasticity_allows(plan, world) ? CS_OK : solve_world(plan, settings, world);
}

cs_status ce_elasticity_solve(ce_elasticity_plan *plan, const ce_elasticity *settings, int64_t world)
{
    *plan = (ce_elasticity_plan){ 0 };
    if (settings->version == 0.2)
        return solve_nodes(plan, settings, world);
    int64_t ranks = settings->model_parallel_size, min = (settings->min_gpus + ranks - 1) / ranks;
    if (!solve_counts(plan, settings, settings->max_train_batch_size, min, settings->max_gpus / ranks))
        return ce_fail(CS_BAD_CONFIG, "elasticity: no batch size up to %lld can be divided among %lld to %lld ranks",
                       (long long)settings->max_train_batch_size, (long long)settings->min_gpus,
                       (long long)settings->max_gpus);
    for (int i = 0; i < plan->count; i++)
        plan->worlds[i] *= ranks;
    return CS_OK;
}

void ce_elasticity_free(ce_elasticity_plan *plan)
{
    free(plan->worlds);
    *plan = (ce_elasticity_plan){ 0 };
}

bool ce_elasticity_allows(const ce_elasticity_plan *plan, int64_t world)
{
    for (int i = 0; i < plan->count; i++)
        if (plan->worlds[i] == world)
            return true;
    return false;
}

int64_t ce_elasticity_micro(const ce_elasticity *settings, int64_t batch, int64_t world)
{
    int64_t parts = world / settings->model_parallel_size, best = 0;
    for (int i = 0; parts > 0 && i < settings->micro_count; i++)
        if (batch % parts == 0 && batch / parts % settings->micro_batch_sizes[i] == 0 &&
            settings->micro_batch_sizes[i] > best)
            best = settings->micro_batch_sizes[i];
    return best;
}
