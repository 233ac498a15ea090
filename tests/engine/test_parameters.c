/* test_parameters.c - cs_param_local: at stage 3 the ranks' parts of a parameter are disjoint and complete, at the
 * other stages each rank has all of it, and the values are those that the model computes with. */
#include "suite.h"
#include "runs.h"

#include <string.h>

enum { WORLD = 3, MAX_COUNT = 64, VALUES = 64 * 1024 };

typedef struct {
    int64_t count, from[WORLD][MAX_COUNT], to[WORLD][MAX_COUNT], size[MAX_COUNT];
    /* Values of all parameters, one after another: [0] at stage 0; [1] at stage 3, from all ranks. */
    float values[2][VALUES];
    int wrong;
} shared;

static run_spec spec_of(int stage, const char *precision)
{
    return (run_spec){ .world = WORLD,
                       .stage = stage,
                       .steps = 1,
                       .micro = 2,
                       .accumulation = 1,
                       .precision = precision,
                       .recompute = "none",
                       .set = { "cspeed.products=fixed" } };
}

static shared *all;
static const char *chosen;

static int look(int stage)
{
    run_spec spec = spec_of(stage, chosen);
    cs_engine *engine = run_open(&spec, NULL);
    int rank = cs_rank(engine);
    int64_t place = 0;
    run_step(engine, &spec);
    all->count = cs_param_count(engine);
    for (int64_t i = 0; i < all->count; i++) {
        cs_param_part part;
        CS_MUST(cs_param_local(engine, cs_param_name(engine, i), &part));
        /* A norm's parameter stays in fp32. */
        bool wide = part.shape.dtype == CS_F32 && strcmp(chosen, "fp32") != 0;
        int64_t columns = part.shape.dims == 2 ? part.shape.shape[1] : 1;
        all->size[i] = cs_count(part.shape);
        all->from[rank][i] = part.from;
        all->to[rank][i] = part.to;
        all->wrong += part.sharded != (stage == 3 && !wide) || (part.data == NULL) != (part.from == part.to);
        all->wrong += part.from / columns != part.first || (part.to + columns - 1) / columns != part.last;
        cs_tensor held = part.shape;
        held.data = (void *)(uintptr_t)part.data;
        for (int64_t at = part.from; at < part.to; at++)
            all->values[stage > 0][place + at] = cs_element(held, at - part.from);
        place += all->size[i];
    }
    cs_param_part part;
    all->wrong += cs_param_local(engine, "transformer.wte.weigth", &part) != CS_NOT_FOUND;
    all->wrong += !strstr(cs_error(), "the most similar name is transformer.wte.weight");
    cs_destroy(engine);
    return place > VALUES;
}

static int look_at_stage(void *argument)
{
    return look(*(int *)argument);
}

static void check(const char *precision)
{
    chosen = precision;
    all = run_share(sizeof *all);
    for (int stage = 0; stage <= 3; stage++) {
        int uneven = 0;
        run_ranks(WORLD, look_at_stage, &stage);
        ck_assert_int_eq(all->wrong, 0);
        ck_assert(all->count > 10 && all->count <= MAX_COUNT);
        for (int64_t i = 0; i < all->count; i++) {
            int64_t held = 0;
            for (int rank = 0; rank < WORLD; rank++) {
                held += all->to[rank][i] - all->from[rank][i];
                uneven += all->to[rank][i] - all->from[rank][i] != all->size[i];
                ck_assert(stage == 3 || (all->from[rank][i] == 0 && all->to[rank][i] == all->size[i]));
            }
            /* All ranks hold a norm's parameter, in fp32. */
            ck_assert(held == all->size[i] || held == WORLD * all->size[i]);
        }
        ck_assert_int_eq(uneven > 0, stage == 3);
        ck_assert_msg(stage == 0 || memcmp(all->values[0], all->values[1], sizeof all->values[0]) == 0,
                      "stage %d has other values than stage 0", stage);
        memset(all->values[1], 0, sizeof all->values[1]); /* an element that no rank holds stays 0 */
    }
    ck_assert(all->values[0][5] != 0);
    run_unshare(all, sizeof *all);
}

START_TEST(parts_are_complete)
{
    check("fp32");
    check("bf16");
}
END_TEST

SUITE_MAIN("parameters", parts_are_complete)
