/* test_trace.c - cspeed.trace: the file is JSON in Chrome's format. It has the chosen steps of all ranks, each block's
 * forward and backward, and at stage 3 two all-gathers and one reduce-scatter of each block in each micro-batch. */
#include "suite.h"
#include "runs.h"
#include "shell.h"

#include "json/json.h"
#include "base/trace.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 2, MICROS = 2, BLOCKS = 3, STEPS = 4 };

static json_t *events_of(const run_spec *spec)
{
    static run_result result;
    size_t length;
    run_train(spec, &result);
    char *text = shell_read("trace.json", &length);
    json_t *root = ce_json_strict(text, length);
    ck_assert_msg(root != NULL, "%s", cs_error());
    free(text);
    json_t *events = json_incref(json_object_get(root, "traceEvents"));
    json_decref(root);
    ck_assert(json_is_array(events));
    return events;
}

static bool is(const json_t *event, const char *key, const char *text)
{
    const char *value = json_string_value(json_object_get(event, key));
    return value && strcmp(value, text) == 0;
}

/* Counts the events of the trace that belong to the rank and have this name. */
static int count(json_t *events, int rank, const char *name)
{
    size_t i;
    json_t *event;
    int found = 0;
    json_array_foreach (events, i, event)
        found += json_integer_value(json_object_get(event, "pid")) == rank && is(event, "name", name);
    return found;
}

static run_spec spec_of(int stage, const char *steps)
{
    static char file[600];
    char folder[512];
    ck_assert(getcwd(folder, sizeof folder));
    snprintf(file, sizeof file, "cspeed.trace.file=%s/trace.json", folder);
    return (run_spec){ .world = RANKS,
                       .stage = stage,
                       .steps = STEPS,
                       .micro = 2,
                       .accumulation = MICROS,
                       .precision = "fp32",
                       .recompute = "none",
                       .prefetch = 1,
                       .set = { "cspeed.comm=tcp", file, "cspeed.trace.first_step=2", steps } };
}

START_TEST(a_step_has_its_units_and_collectives)
{
    char name[64];
    shell_enter();
    run_spec spec = spec_of(3, "cspeed.trace.steps=1");
    json_t *events = events_of(&spec);
    for (int rank = 0; rank < RANKS; rank++) {
        ck_assert_int_eq(count(events, rank, "forward"), MICROS);
        ck_assert_int_eq(count(events, rank, "backward"), MICROS);
        ck_assert_int_eq(count(events, rank, "step"), MICROS);
        ck_assert_int_eq(count(events, rank, "all_reduce loss and norm"), 1);
        for (int block = 0; block < BLOCKS; block++) {
            static const struct {
                const char *what;
                int times;
            } spans[] = { { "forward", MICROS },        { "backward", MICROS },       { "await", 2 * MICROS },
                          { "all_gather", 2 * MICROS }, { "reduce_scatter", MICROS }, { "update", 1 } };
            for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
                snprintf(name, sizeof name, "%s transformer.h.%d", spans[i].what, block);
                ck_assert_msg(count(events, rank, name) == spans[i].times, "rank %d: %d of %s", rank,
                              count(events, rank, name), name);
            }
        }
    }
    json_decref(events);
    shell_leave();
}
END_TEST

/* With tensor parallelism each block adds up two outputs in forward and two gradients in backward. */
START_TEST(exchanges_of_tensor_parallelism)
{
    shell_enter();
    run_spec spec = spec_of(1, "cspeed.trace.steps=1");
    spec.set[4] = "cspeed.mesh.tp=2";
    json_t *events = events_of(&spec);
    for (int rank = 0; rank < RANKS; rank++) {
        ck_assert_int_ge(count(events, rank, "all_reduce (tp)"), 4 * BLOCKS * MICROS);
        ck_assert_int_eq(count(events, rank, "forward transformer.h.0"), MICROS);
    }
    json_decref(events);
    shell_leave();
}
END_TEST

/* Returns the time at which the event with this name begins on rank 0. Returns HUGE_VAL if rank 0 does not have exactly
 * one such event. */
static double begin_of(json_t *events, const char *name)
{
    size_t i;
    json_t *event;
    double begin = HUGE_VAL;
    int found = 0;
    json_array_foreach (events, i, event)
        if (json_integer_value(json_object_get(event, "pid")) == 0 && is(event, "name", name)) {
            begin = json_number_value(json_object_get(event, "ts"));
            found++;
        }
    return found == 1 ? begin : HUGE_VAL;
}

/* At stage 0 the reduction of a bucket's gradients begins before the backward of the units below this bucket begins. A
 * rank with only one core has no separate thread for the reduction, so it completes the reduction first. */
START_TEST(buckets_are_reduced_during_backward)
{
    shell_enter();
    run_spec spec = spec_of(0, "cspeed.trace.steps=1");
    spec.accumulation = 1;
    json_t *events = events_of(&spec);
    ck_assert_double_lt(begin_of(events, "all_reduce transformer.h.2"), begin_of(events, "backward transformer.h.0"));
    ck_assert_double_lt(begin_of(events, "all_reduce transformer.h.1"), begin_of(events, "backward transformer.h.0"));
    ck_assert_int_eq(count(events, 0, "all_reduce transformer.h.0"), 1);
    json_decref(events);
    spec.set[4] = "zero_optimization.reduce_bucket_size=15000"; /* a bucket has two blocks */
    events = events_of(&spec);
    ck_assert_int_eq(count(events, 0, "all_reduce transformer.h.2"), 0);
    ck_assert_int_eq(count(events, 0, "all_reduce transformer.h.1"), 1);
    ck_assert_double_lt(begin_of(events, "backward transformer.h.1"), begin_of(events, "all_reduce transformer.h.1"));
    ck_assert_double_lt(begin_of(events, "all_reduce transformer.h.1"), begin_of(events, "backward transformer.h.0"));
    json_decref(events);
    shell_leave();
}
END_TEST

START_TEST(times_are_those_of_the_steps)
{
    size_t i;
    json_t *event;
    double from = HUGE_VAL, to = 0;
    shell_enter();
    run_spec spec = spec_of(0, "cspeed.trace.steps=2");
    json_t *events = events_of(&spec);
    ck_assert_int_eq(count(events, 0, "step"), 2 * MICROS);
    ck_assert_int_eq(count(events, 1, "all_reduce transformer.h.1"), 2);
    ck_assert_int_eq(count(events, 1, "all_gather transformer.h.1"), 0);
    json_array_foreach (events, i, event) {
        double begin = json_number_value(json_object_get(event, "ts"));
        double length = json_number_value(json_object_get(event, "dur"));
        if (!is(event, "ph", "X"))
            continue;
        ck_assert(begin > 0 && length >= 0 && isfinite(begin + length));
        if (is(event, "cat", "step")) {
            from = fmin(from, begin);
            to = fmax(to, begin + length);
        }
    }
    ck_assert(to > from && to - from < 600e6);
    json_array_foreach (events, i, event)
        if (is(event, "cat", "compute")) {
            double begin = json_number_value(json_object_get(event, "ts"));
            ck_assert(begin >= from && begin <= to);
        }
    json_decref(events);
    shell_leave();
}
END_TEST

START_TEST(spans_that_do_not_fit_are_counted)
{
    int64_t spans, dropped;
    ck_assert(ce_trace_open(2));
    ce_trace_end(CE_TRACE_STEP, "off", "", ce_trace_begin());
    ce_trace_switch(true);
    for (int i = 0; i < 5; i++)
        ce_trace_end(CE_TRACE_COPY, "copy", "unit", ce_trace_begin());
    ce_trace_switch(false);
    ce_trace_end(CE_TRACE_STEP, "off", "", 1);
    const ce_trace_span *list = ce_trace_spans(&spans, &dropped);
    ck_assert(spans == 2 && dropped == 3 && list[1].lane == CE_TRACE_COPY && list[1].ended >= list[1].began);
    ck_assert_str_eq(list[0].what, "copy");
    ce_trace_close();
}
END_TEST

SUITE_MAIN("trace", a_step_has_its_units_and_collectives, exchanges_of_tensor_parallelism,
           buckets_are_reduced_during_backward, times_are_those_of_the_steps, spans_that_do_not_fit_are_counted)
