/* test_time_budget.c - cspeed.fit_seconds on simulated machines whose speed changes, with a simulated clock. */
#include "suite.h"
#include "programs/train/train.h"

typedef struct {
    /* budget: time budget of the run; seconds: duration of a step before and after the time `change`; all in seconds */
    double budget, seconds[2];
    double change;
    int64_t max, save_interval;
    double validation; /* seconds that a validation and a save take together, every save_interval steps */
} machine;

typedef struct {
    double seconds;
    int64_t steps, fits;
} outcome;

static outcome train_on(const machine *on)
{
    time_budget budget = { .seconds = on->budget };
    outcome out = { 0 };
    int64_t total = on->max;
    for (int64_t done = 1; done <= total; done++) {
        double seconds = on->seconds[out.seconds >= on->change];
        seconds *= done == 1 ? 3 : 1; /* the first step takes longer */
        out.seconds += seconds;
        time_budget_step(&budget, seconds);
        if (time_budget_due(&budget, out.fits > 0, done, total, on->save_interval)) {
            int64_t fitting = time_budget_fit(&budget, done, total, on->max);
            ck_assert_int_ge(fitting, done);
            ck_assert_int_le(fitting, on->max);
            out.fits += fitting != total;
            total = fitting;
        }
        if (on->save_interval > 0 && done % on->save_interval == 0) {
            out.seconds += on->validation;
            time_budget_pause(&budget, on->validation);
        }
        out.steps = done;
    }
    return out;
}

static void expect_within(machine on, double share)
{
    outcome out = train_on(&on);
    ck_assert_double_ge(out.seconds, (1 - share) * on.budget);
    ck_assert_double_le(out.seconds, (1 + share) * on.budget);
}

START_TEST(a_run_ends_with_its_budget)
{
    expect_within((machine){ 100, { 0.5, 0.5 }, 0, 100000, 20, 0 }, 0.05);
    expect_within((machine){ 100, { 0.5, 0.5 }, 0, 100000, 0, 0 }, 0.05);
    expect_within((machine){ 100, { 0.5, 0.5 }, 0, 100000, 20, 2 }, 0.05);
}
END_TEST

START_TEST(a_change_of_speed_in_the_middle_is_noticed)
{
    static const double after[] = { 0.25, 0.35, 0.7, 1.0, 1.5 };
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) {
        expect_within((machine){ 100, { 0.5, after[i] }, 50, 100000, 10, 0.5 }, 0.15);
        expect_within((machine){ 100, { 0.5, after[i] }, 50, 100000, 0, 0 }, 0.15);
    }
}
END_TEST

START_TEST(a_fast_machine_makes_all_steps)
{
    machine on = { 1000, { 0.5, 0.5 }, 0, 300, 20, 1 };
    outcome out = train_on(&on);
    ck_assert_int_eq(out.steps, 300);
    ck_assert_int_eq(out.fits, 0);
}
END_TEST

START_TEST(small_changes_keep_the_number_of_steps)
{
    machine on = { 100, { 0.5, 0.502 }, 50, 100000, 10, 0 };
    ck_assert_int_le(train_on(&on).fits, 2);
}
END_TEST

START_TEST(nothing_is_due_without_a_budget_or_after_the_last_step)
{
    time_budget none = { .steps = 100, .step = 1 }, some = { .seconds = 10, .steps = 100, .step = 1 };
    ck_assert(!time_budget_due(&none, false, 100, 1000, 10));
    ck_assert(!time_budget_due(&some, true, 1000, 1000, 10));
    ck_assert(!time_budget_due(&some, true, 101, 1000, 10));
    ck_assert(time_budget_due(&some, true, 110, 1000, 10));
    ck_assert(time_budget_due(&some, true, 200, 1000, 5000));
    ck_assert(time_budget_due(&some, false, 101, 1000, 10));
    time_budget warm = { .seconds = 10, .spent = 0.9, .warmup = 50 };
    ck_assert(!time_budget_knows(&warm, 49) && time_budget_knows(&warm, 50));
    warm.spent = 1;
    ck_assert(time_budget_knows(&warm, 6));
}
END_TEST

SUITE_MAIN("time_budget", a_run_ends_with_its_budget, a_change_of_speed_in_the_middle_is_noticed,
           a_fast_machine_makes_all_steps, small_changes_keep_the_number_of_steps,
           nothing_is_due_without_a_budget_or_after_the_last_step)
