/* test_elasticity.c - DeepSpeed's table of elastic batches, the elasticity section in a training, and values that are
 * refused. */
#include "config/config.h"
#include "config/resolve.h"
#include "suite.h"
#include "written.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cs_config *open_section(const char *section, const char *more)
{
    char text[1024];
    snprintf(text, sizeof text, "{\"elasticity\": {\"enabled\": true, %s}%s}", section, more);
    return written_config(text);
}

#define FIRST                                                                                                          \
    "\"max_train_batch_size\": 10000, \"micro_batch_sizes\": [8, 12, 16, 17], \"min_gpus\": 32, \"max_gpus\": 1500"
#define SMALL "\"max_train_batch_size\": 100, \"micro_batch_sizes\": [8, 10, 12], \"min_gpus\": 1, \"version\": 0.1"

typedef struct {
    const char *section;
    int64_t world, batch;
    const char *worlds; /* the valid world sizes; NULL: only their number is compared */
    int count;
    int64_t micro; /* micro-batch for this world; 0: `world` is 0 too */
} row;

/* DeepSpeed's own results. The results of version 0.2 are corrected, as elasticity.h explains. */
static const row table[] = {
    { FIRST ", \"version\": 0.1", 0, 9792,
      " 32 34 36 48 51 64 68 72 96 102 136 144 153 192 204 272 288 306 408 576 612 816 1224", 23, 0 },
    { FIRST ", \"version\": 0.1", 64, 9792, NULL, 23, 17 },
    { "\"max_train_batch_size\": 2000, \"micro_batch_sizes\": [2, 4, 6], \"version\": 0.1", 0, 1680, NULL, 32, 0 },
    { "\"max_train_batch_size\": 32, \"micro_batch_sizes\": [1, 2, 3, 7], \"version\": 0.1", 4, 24,
      " 1 2 3 4 6 8 12 24", 8, 3 },
    { SMALL, 0, 96, " 1 2 3 4 6 8 12", 7, 0 },
    { "\"max_train_batch_size\": 24, \"micro_batch_sizes\": [1], \"min_gpus\": 3, \"max_gpus\": 9, \"version\": 0.1, "
      "\"model_parallel_size\": 2",
      0, 24, " 4 6 8", 3, 0 },
    { SMALL ", \"model_parallel_size\": 2", 8, 96, " 2 4 6 8 12 16 24", 7, 12 },
    { "\"max_train_batch_size\": 4, \"micro_batch_sizes\": [1, 2, 3, 4], \"max_gpus\": 4, \"version\": 0.1", 2, 4,
      " 1 2 4", 3, 2 },
    /* 16 ranks in groups of 4 are 4 data-parallel ranks with 2499 samples each. 2499 is a multiple of 17, but not of
     * DeepSpeed's micro-batch 16. */
    { FIRST ", \"model_parallel_size\": 4, \"num_gpus_per_node\": 8", 16, 9996, " 16", 1, 17 },
    { FIRST, 64, 9792, NULL, 23, 17 },
    { "\"max_train_batch_size\": 100, \"micro_batch_sizes\": [8], \"num_gpus_per_node\": 4", 12, 96, " 12", 1, 8 },
    { "\"max_train_batch_size\": 100, \"micro_batch_sizes\": [8], \"num_gpus_per_node\": 4", 8, 64, " 4 8", 2, 8 },
    { "\"max_train_batch_size\": 100, \"micro_batch_sizes\": [8, 3], \"prefer_larger_batch\": false, \"max_gpus\": 2",
      5, 80, " 5", 1, 8 },
};

static void check_row(const row *r)
{
    char text[512] = "";
    ce_elasticity_plan plan;
    cs_config *config = open_section(r->section, "");
    ck_assert_msg(ce_batches_read_elasticity(config, ce_tp_read(config)) == CS_OK, "%s", cs_error());
    const ce_elasticity *settings = &config->settings.elasticity;
    ck_assert_msg(ce_elasticity_solve(&plan, settings, r->world) == CS_OK, "%s: %s", r->section, cs_error());
    for (int i = 0; i < plan.count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), " %d", (int)plan.worlds[i]);
    ck_assert_msg(plan.batch == r->batch && plan.count == r->count && (!r->worlds || strcmp(text, r->worlds) == 0),
                  "%s, world %d: %d,%s", r->section, (int)r->world, (int)plan.batch, text);
    if (r->world)
        ck_assert_msg(ce_elasticity_micro(settings, plan.batch, r->world) == r->micro, "%s: micro %d", r->section,
                      (int)ce_elasticity_micro(settings, plan.batch, r->world));
    for (int i = 0; i < plan.count; i++) /* properties of every result, whatever its table row is */
        ck_assert_msg(ce_elasticity_micro(settings, plan.batch, plan.worlds[i]) > 0, "%s: %d ranks have no micro batch",
                      r->section, (int)plan.worlds[i]);
    ce_elasticity_free(&plan);
    cs_config_close(config);
}

START_TEST(test_table)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        check_row(&table[i]);
}
END_TEST

START_TEST(test_refused)
{
    static const char *const bad[][2] = {
        { "\"micro_batch_sizes\": [1]", "\"max_train_batch_size\" is missing" },
        { "\"max_train_batch_size\": 10", "\"micro_batch_sizes\" is missing" },
        { "\"max_train_batch_size\": 10, \"micro_batch_sizes\": 2", "a list of 1 to 32 micro batch sizes is needed" },
        { "\"max_train_batch_size\": 10, \"micro_batch_sizes\": []", "a list of 1 to 32 micro batch sizes is needed" },
        { "\"max_train_batch_size\": 10, \"micro_batch_sizes\": [1, \"2\"]", "each is a whole number from 1 to" },
        { "\"max_train_batch_size\": 10, \"micro_batch_sizes\": [0]", "each is a whole number from 1 to" },
        { "\"max_train_batch_size\": 10, \"micro_batch_sizes\": [11]", "each is a whole number from 1 to" },
        { "\"max_train_batch_size\": 10, \"micro_batch_sizes\": [1], \"min_gpus\": 0", "at least 1 is needed, not 0" },
        { "\"max_train_batch_size\": 10, \"micro_batch_sizes\": [1], \"min_gpus\": 5, \"max_gpus\": 4",
          "at least min_gpus, 5" },
        { "\"max_train_batch_size\": 10, \"micro_batch_sizes\": [1], \"version\": 0.3",
          "0.1 or 0.2 is needed, not 0.3" },
        { "\"max_train_batch_size\": 10, \"micro_batch_sizes\": [1], \"model_parallel_size\": 16, "
          "\"num_gpus_per_node\": 8",
          "8 is not a multiple of model_parallel_size, 16" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cs_config *config = open_section(bad[i][0], "");
        ck_assert_msg(ce_batches_read_elasticity(config, ce_tp_read(config)) == CS_BAD_CONFIG, "%s was accepted",
                      bad[i][0]);
        ck_assert_msg(strstr(cs_error(), bad[i][1]) != NULL, "%s: %s", bad[i][0], cs_error());
        cs_config_close(config);
    }
}
END_TEST

static cs_status finish(cs_config *config, int world)
{
    cs_config_for_world(config, world, world);
    return cs_config_finish(config);
}

START_TEST(test_training)
{
    static const struct {
        int world;
        const char *more, *sentence; /* NULL: accepted */
    } rows[] = {
        { 4, "", NULL },
        { 4, ", \"train_batch_size\": \"auto\"", NULL },
        { 4, ", \"train_batch_size\": 7", "train_batch_size: elasticity chooses the batch sizes" },
        { 5, "", "5 ranks cannot share a batch of 96 evenly; these can: 1 2 3 4 6 8 12" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cs_config *config = open_section(SMALL, rows[i].more);
        cs_status status = finish(config, rows[i].world);
        if (rows[i].sentence)
            ck_assert_msg(status == CS_BAD_CONFIG && strstr(cs_error(), rows[i].sentence), "%s", cs_error());
        else
            ck_assert_msg(status == CS_OK && config->settings.train_batch_size == 96 &&
                              config->settings.micro_batch == 12 && config->settings.accumulation == 2,
                          "%s", status == CS_OK ? "batch" : cs_error());
        cs_config_close(config);
    }
    cs_config *config = open_section(SMALL ", \"ignore_non_elastic_batch_info\": true", ", \"train_batch_size\": 7");
    ck_assert_msg(finish(config, 4) == CS_OK && config->settings.train_batch_size == 96, "%s", cs_error());
    cs_config_close(config);
    config = open_section(FIRST ", \"model_parallel_size\": 2, \"num_gpus_per_node\": 2", "");
    ck_assert(finish(config, 64) == CS_BAD_CONFIG);
    ck_assert_msg(strstr(cs_error(), "model_parallel_size: it says 2, and cspeed.mesh.tp is 1") != NULL, "%s",
                  cs_error());
    cs_config_close(config);
    config = open_section(SMALL, ", \"cspeed\": {\"mesh\": {\"tp\": 2}}");
    ck_assert_msg(finish(config, 8) == CS_OK, "%s", cs_error());
    ck_assert(config->settings.micro_batch == 12 && config->settings.accumulation == 2);
    cs_config_close(config);
    config = open_section(SMALL, ", \"cspeed\": {\"mesh\": {\"tp\": 2}}");
    ck_assert(finish(config, 10) == CS_BAD_CONFIG && strstr(cs_error(), "these can: 2 4 6 8 12"));
    cs_config_close(config);
    config = open_section(FIRST, ""); /* version 0.2 finds a batch for a world that is smaller than min_gpus */
    ck_assert_msg(finish(config, 3) == CS_OK && config->settings.micro_batch > 0, "%s", cs_error());
    cs_config_close(config);
}
END_TEST

START_TEST(test_scheduler)
{
    cs_config *config = open_section(SMALL, "");
    setenv("DEEPSPEED_ELASTICITY_CONFIG",
           "{\"max_train_batch_size\": 200, \"micro_batch_sizes\": [8, 10, 12], \"version\": 0.1}", 1);
    ck_assert_int_eq(finish(config, 4), CS_BAD_CONFIG);
    ck_assert_msg(strstr(cs_error(), "max_train_batch_size is 100 here and 200 in DEEPSPEED_ELASTICITY_CONFIG") != NULL,
                  "%s", cs_error());
    cs_config_close(config);
    setenv("DEEPSPEED_ELASTICITY_CONFIG",
           "{\"max_train_batch_size\": 100, \"micro_batch_sizes\": [8, 10, 12], \"version\": 0.1}", 1);
    config = open_section(SMALL, "");
    ck_assert_msg(finish(config, 4) == CS_OK, "%s", cs_error());
    cs_config_close(config);
    unsetenv("DEEPSPEED_ELASTICITY_CONFIG");
}
END_TEST

/* Tries every world size, and checks that the plan of the chosen batch contains exactly the world sizes that are valid
 * for this batch. */
START_TEST(test_best)
{
    for (int64_t max = 20; max < 400; max += 37) {
        ce_elasticity settings = { .version = 0.1,
                                   .prefer_larger_batch = true,
                                   .max_train_batch_size = max,
                                   .micro_batch_sizes = { 3, 4, 10 },
                                   .micro_count = 3,
                                   .min_gpus = 2,
                                   .max_gpus = 60,
                                   .num_gpus_per_node = 1,
                                   .model_parallel_size = 1 };
        ce_elasticity_plan plan;
        ck_assert_int_eq(ce_elasticity_solve(&plan, &settings, 0), CS_OK);
        ck_assert_int_le(plan.batch, max);
        int found = 0;
        for (int64_t world = 2; world <= 60; world++) {
            bool can = ce_elasticity_micro(&settings, plan.batch, world) > 0;
            found += can;
            ck_assert_msg(can == ce_elasticity_allows(&plan, world), "batch %d, world %d", (int)plan.batch, (int)world);
        }
        ck_assert_int_eq(found, plan.count);
        ce_elasticity_free(&plan);
    }
}
END_TEST

SUITE_MAIN("elasticity", test_table, test_refused, test_training, test_scheduler, test_best)
