/* test_connect.c - cs_init_distributed before cs_initialize. Also cs_param_group_at and cs_schedule_rate, which replace
 * the optimizer and the schedule that DeepSpeed's initialize returns. */
#include "suite.h"
#include "runs.h"

#include "cspeed/comm.h"

#include <unistd.h>

enum { WORLD = 2 };

static run_spec spec_of(int calls)
{
    return (run_spec){ .world = WORLD, .stage = calls ? 3 : 0, .steps = 1, .precision = "fp32" };
}

/* Calls cs_init_distributed 0, 1 or 2 times (`argument`) before it opens the engine, adds a number over the ranks after
 * each call, and trains a step. */
static int train(void *argument)
{
    int calls = *(int *)argument;
    run_spec spec = spec_of(calls);
    char path[4096];
    cs_config *config;
    cs_engine *engine;
    cs_comm *comm[3] = { NULL };
    run_write_config(&spec, path, sizeof path);
    CS_MUST(cs_config_open(&config, path));
    unlink(path);
    for (int i = 0; i < calls; i++) {
        int64_t one = 1;
        CS_MUST(cs_init_distributed(config, &comm[i]));
        cs_comm_all_reduce(comm[i], &one, 1, CS_I64, CS_SUM);
        if (comm[i] != comm[0] || one != WORLD)
            return 1;
    }
    CS_MUST(cs_initialize(&engine, config, NULL));
    CS_MUST(cs_init_distributed(config, &comm[2]));
    if (cs_comm_size(comm[2]) != WORLD || (calls && comm[2] != comm[0]))
        return 2;
    run_step(engine, &spec);
    cs_destroy(engine);
    return 0;
}

START_TEST(ranks_connect_once)
{
    for (int calls = 0; calls <= 2; calls++)
        run_ranks(WORLD, train, &calls);
}
END_TEST

/* Connects and never opens an engine: cs_config_close closes the configuration and the comm. */
static int connect_only(void *argument)
{
    run_spec spec = spec_of(1);
    char path[4096];
    cs_config *config;
    cs_comm *comm;
    (void)argument;
    run_write_config(&spec, path, sizeof path);
    CS_MUST(cs_config_open(&config, path));
    unlink(path);
    CS_MUST(cs_init_distributed(config, &comm));
    cs_comm_barrier(comm);
    cs_config_close(config);
    return 0;
}

START_TEST(an_engine_is_not_needed)
{
    run_ranks(WORLD, connect_only, NULL);
}
END_TEST

START_TEST(groups_and_rates_can_be_read)
{
    run_spec spec = { .world = 1,
                      .steps = 2,
                      .precision = "fp32",
                      .more = "\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 4, "
                              "\"warmup_type\": \"linear\", \"warmup_min_lr\": 0, \"warmup_max_lr\": 4e-2}},",
                      .set = { "cspeed.param_groups=[{\"params\": \"*wte*\", \"train\": false}, "
                               "{\"params\": \"*.mlp.*\", \"lr\": 1e-4, \"weight_decay\": 0.5}]",
                               "optimizer.params.lr=1e-3" } };
    cs_engine *engine = run_open(&spec, NULL);
    ck_assert_int_eq(cs_param_group_count(engine), 3);
    int64_t elements = 0;
    for (int step = 0; step < 3; step++) {
        cs_param_group frozen = cs_param_group_at(engine, 0), slow = cs_param_group_at(engine, 1),
                       rest = cs_param_group_at(engine, 2);
        ck_assert(frozen.frozen && !slow.frozen && !rest.frozen);
        ck_assert(frozen.tensors == 1 && slow.tensors > 0 && rest.tensors > 0);
        ck_assert_str_eq(rest.optimizer, "AdamW");
        ck_assert(slow.weight_decay == 0.5);
        ck_assert_double_eq_tol(slow.learning_rate, rest.learning_rate / 10, 1e-12);
        ck_assert(rest.learning_rate == cs_schedule_rate(engine, step));
        elements = frozen.elements + slow.elements + rest.elements;
        run_step(engine, &spec);
        ck_assert(cs_last_step(engine).learning_rate == rest.learning_rate);
    }
    ck_assert_int_eq(elements, cs_parameter_count(engine));
    ck_assert_double_eq_tol(cs_schedule_rate(engine, 100), 4e-2, 1e-12);
    cs_destroy(engine);
}
END_TEST

SUITE_MAIN("connect", ranks_connect_once, an_engine_is_not_needed, groups_and_rates_can_be_read)
