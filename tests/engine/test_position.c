/* test_position.c - the heartbeat's record of a training: phase, unit and micro-batch, and the axes of the groups. */
#include "suite.h"
#include "runs.h"

#include "base/beat.h"
#include "comm/transport.h"
#include "core/engine.h"
#include "reporting/reporting.h"

#include <stdio.h>
#include <string.h>

static char seen[4096];

/* Appends the heartbeat's position to `seen`, such as "forward 2 h.0 1; ": phase, 1 + unit, name, micro-batch. */
static void note(void)
{
    const ce_beat *beat = ce_beat_own();
    size_t used = strlen(seen);
    snprintf(seen + used, sizeof seen - used, "%s %d %s %d; ", ce_beat_phases[beat->phase], beat->unit,
             beat->unit ? beat->name : "-", beat->micro);
}

static void note_unit(cs_engine *engine, int unit)
{
    (void)engine, (void)unit;
    note();
}

static void note_phase(cs_engine *engine, ce_phase phase)
{
    (void)engine, (void)phase;
    note();
}

static void note_end(cs_engine *engine)
{
    (void)engine;
    note();
}

static const ce_observer noting = {
    .phase_begin = note_phase, .phase_end = note_phase, .unit_begin = note_unit, .units_end = note_end
};
static const ce_observer *const observers[] = { &ce_position_observer, &noting, NULL };

/* Performs one optimizer step, and returns what was noted. */
static const char *step_of(const run_spec *spec)
{
    cs_engine *engine = run_open(spec, NULL);
    const ce_observer *const *before = engine->observers;
    engine->observers = observers;
    seen[0] = '\0';
    run_step(engine, spec);
    engine->observers = before;
    cs_destroy(engine);
    return seen;
}

#define UNITS_DOWN                                                                                                     \
    "forward 0 - 0; forward 1 transformer 0; forward 2 transformer.h.0 0; forward 3 transformer.h.1 0; "               \
    "forward 4 transformer.h.2 0; forward 5 head 0; forward 0 - 0; "
#define UNITS_UP                                                                                                       \
    "backward 0 - 0; backward 5 head 0; backward 4 transformer.h.2 0; backward 3 transformer.h.1 0; "                  \
    "backward 2 transformer.h.0 0; backward 1 transformer 0; backward 0 - 0; "

START_TEST(each_unit_of_each_phase)
{
    run_spec spec = { .world = 1, .steps = 1, .micro = 1, .accumulation = 1, .precision = "fp32" };
    ck_assert_str_eq(step_of(&spec), UNITS_DOWN " 0 - 0; " UNITS_UP " 0 - 0; optimizer step 0 - 0;  0 - 0; ");
}
END_TEST

START_TEST(micro_batches_are_numbered)
{
    run_spec spec = { .world = 1, .steps = 1, .micro = 1, .accumulation = 2, .precision = "fp32" };
    const char *text = step_of(&spec);
    const char *first = strstr(text, "forward 3 transformer.h.1 1; "), *back = strstr(text, "backward 5 head 1; ");
    const char *second = strstr(text, "forward 3 transformer.h.1 2; "), *step = strstr(text, "optimizer step 0 - 2; ");
    ck_assert_msg(first && back > first && second > back && step > second, "%s", text);
}
END_TEST

START_TEST(long_names_are_cut)
{
    char name[2 * CE_BEAT_NAME];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    ce_beat_unit(3, name);
    ck_assert_int_eq(ce_beat_own()->unit, 4);
    ck_assert_uint_eq(strlen(ce_beat_own()->name), CE_BEAT_NAME - 1);
    ce_beat_no_unit();
}
END_TEST

/* Two threads communicate at a time: the end of one call leaves the other. */
START_TEST(each_axis_has_its_call)
{
    const ce_beat *beat = ce_beat_own();
    ce_beat_enter(CE_BEAT_TP, CE_BEAT_ALL_REDUCE);
    ce_beat_enter(CE_BEAT_DP_SHARD, CE_BEAT_ALL_GATHER);
    ck_assert_int_eq(beat->collectives[CE_BEAT_DP_SHARD], CE_BEAT_ALL_GATHER);
    ce_beat_leave(CE_BEAT_DP_SHARD);
    ck_assert_int_eq(beat->collectives[CE_BEAT_DP_SHARD], CE_BEAT_NONE);
    ck_assert_int_eq(beat->collectives[CE_BEAT_TP], CE_BEAT_ALL_REDUCE);
    ce_beat_leave(CE_BEAT_TP);
}
END_TEST

/* ---- the groups ---- */

enum { RANKS = 8 };

static int *axes; /* of ranks: the axes of the comms of all ranks, of ZeRO's group, between groups, of tp and copies */

static int show_axes(void *argument)
{
    cs_engine *engine = run_open(argument, NULL);
    const cs_comm *comms[] = { engine->comm, engine->group, engine->across, engine->tp.comm, engine->copies.comm };
    for (int i = 0; i < 5; i++)
        axes[5 * engine->world.rank + i] = comms[i]->axis;
    cs_destroy(engine);
    return 0;
}

START_TEST(each_group_has_its_axis)
{
    run_spec spec = { .world = RANKS,
                      .stage = 2,
                      .steps = 1,
                      .micro = 1,
                      .accumulation = 1,
                      .precision = "fp32",
                      .set = { "cspeed.mesh={\"tp\": 2, \"dp_shard\": 2}" } };
    static const int want[] = { CE_BEAT_WORLD, CE_BEAT_DP_SHARD, CE_BEAT_DP_REPLICATE, CE_BEAT_TP, CE_BEAT_TP };
    axes = run_share(5 * RANKS * sizeof *axes);
    run_ranks(RANKS, show_axes, &spec);
    for (int rank = 0; rank < RANKS; rank++)
        ck_assert_mem_eq(axes + 5 * rank, want, sizeof want);
    run_unshare(axes, 5 * RANKS * sizeof *axes);
}
END_TEST

SUITE_MAIN("position", each_unit_of_each_phase, micro_batches_are_numbered, long_names_are_cut, each_axis_has_its_call,
           each_group_has_its_axis)
