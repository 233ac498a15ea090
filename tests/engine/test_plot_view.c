/* test_plot_view.c - what diagrams show: their ticks, the ends of their axes, their sentences, smoothing and thinning. */
#include "plot/view.h"
#include "suite.h"

#include <math.h>

enum { POINTS = 500 };

/* Returns random numbers from 0 to below 1, the same in each run. */
static double next(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0;
}

static void must_label(double low, double high, bool log, bool whole, const char *wanted)
{
    ce_plot_tick ticks[CE_PLOT_TICKS];
    char text[512] = "";
    int count = ce_plot_ticks(&(ce_plot_axis){ low, high, log }, 6, whole, ticks);
    for (int i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", ticks[i].label);
    ck_assert_str_eq(text, wanted);
}

START_TEST(ticks_are_round)
{
    must_label(1, 500, false, true, "100 200 300 400 500");
    must_label(1, 2, false, true, "1 2");
    must_label(0.5, 1.5, false, true, "1");
    must_label(1.7, 5.6, false, false, "2 3 4 5");
    must_label(-0.3, 0.31, false, false, "-0.2 0.0 0.2");
    must_label(2e-7, 1e-5, false, false, "2e-06 4e-06 6e-06 8e-06 1e-05");
    must_label(0, 3e8, false, false, "0 1e+08 2e+08 3e+08");
    must_label(11500, 13200, false, false, "11500 12000 12500 13000");
    must_label(0, 2, true, false, "1 2 5 10 20 50 100");
    must_label(-9, 6, true, false, "1e-09 1e-06 0.001 1 1000 1e+06");
    must_label(log10(2), log10(4.2), true, false, "2.0 2.5 3.0 3.5 4.0");
}
END_TEST

START_TEST(ticks_are_multiples_within_the_axis)
{
    for (int i = 0; i < 20000; i++) {
        ce_plot_tick ticks[CE_PLOT_TICKS];
        double size = pow(10, 40 * next() - 20), low = size * (next() - 0.5), high = low + size * (1e-4 + next());
        int max = 4 + i % (CE_PLOT_TICKS - 3),
            count = ce_plot_ticks(&(ce_plot_axis){ low, high, false }, max, false, ticks);
        ck_assert_int_ge(count, 1);
        ck_assert_int_le(count, max);
        double step = count > 1 ? ticks[1].value - ticks[0].value : 1, part = step / pow(10, floor(log10(step) + 1e-9));
        ck_assert(count == 1 || fabs(part - 1) < 1e-5 || fabs(part - 2) < 1e-5 || fabs(part - 5) < 1e-5);
        for (int t = 0; t < count; t++) {
            ck_assert(ticks[t].value >= low - 1e-8 * step && ticks[t].value <= high + 1e-8 * step);
            ck_assert(count == 1 || fabs(ticks[t].value / step - round(ticks[t].value / step)) < 1e-4);
            ck_assert_msg(fabs(strtod(ticks[t].label, NULL) - ticks[t].value) <= 1e-2 * (high - low), "%s is not %g",
                          ticks[t].label, ticks[t].value);
        }
    }
}
END_TEST

static cs_plot_point points[POINTS];

static cs_plot prepare(double (*value)(int))
{
    static cs_plot_curve curve;
    curve = (cs_plot_curve){ .name = "a", .points = points, .count = POINTS };
    for (int i = 0; i < POINTS; i++)
        points[i] = (cs_plot_point){ i + 1, value(i + 1) };
    return (cs_plot){ .title = "a", .curves = &curve, .count = 1 };
}

static double norm(int step)
{
    return step == 17 ? 100 : 0.5 + next();
}

static double loss(int step)
{
    return 2 + 3.5 * exp(-step / 20.0) + 0.2 * next();
}

static double constant(int step)
{
    (void)step;
    return 0.1;
}

static double around_zero(int step)
{
    return step % 5 - 2;
}

/* A diagram of these values shows at least `low` to `high`, and at most `beyond` more at each end. */
static ce_plot_view must_show(const cs_plot *plot, double low, double high, double beyond)
{
    ce_plot_view view = ce_plot_view_of(plot);
    ck_assert_msg(view.y.low <= low && view.y.high >= high, "%g to %g", view.y.low, view.y.high);
    ck_assert_msg(view.y.low >= low - beyond && view.y.high <= high + beyond, "%g to %g", view.y.low, view.y.high);
    return view;
}

START_TEST(one_value_does_not_flatten_the_others)
{
    cs_plot plot = prepare(norm);
    ce_plot_view view = must_show(&plot, 0.55, 1.45, 1.5);
    ck_assert_int_eq(view.note_count, 1);
    ck_assert_str_eq(view.notes[0], "beyond the axis: 1 of 500 values, as far as 100 at step 17 (plot --full)");
    ck_assert_double_eq(ce_plot_share(&view.y, 100), 1);
    plot.full = true;
    ck_assert_int_eq(must_show(&plot, 0.55, 100, 5).note_count, 0);
    plot = prepare(loss); /* the first steps stay, because they take less than two thirds */
    ck_assert_int_eq(must_show(&plot, 2.1, points[0].y, 0.3).note_count, 0);
    plot = prepare(constant);
    ck_assert_int_eq(must_show(&plot, 0.05, 0.15, 1e-9).note_count, 0);
}
END_TEST

START_TEST(what_is_not_drawn_is_counted)
{
    cs_plot plot = prepare(around_zero);
    plot.log_y = true;
    ((cs_plot_curve *)plot.curves)->nulls = 3;
    ce_plot_view view = must_show(&plot, 0, log10(2), 0.02);
    ck_assert_str_eq(view.notes[0], "no place on a logarithmic axis: 300 of 500 values, which are not above 0");
    ck_assert_str_eq(view.notes[1], "null in the file (NaN or infinite): 3 of 503 values");
    for (int i = 0; i < POINTS; i++) /* nothing is left to draw */
        points[i].y = -1;
    cs_plot_point kept[2];
    view = ce_plot_view_of(&plot);
    ck_assert(view.y.low < view.y.high && view.x.low < view.x.high);
    ck_assert_int_eq(ce_plot_thin(&plot.curves[0], &view, 1, 0, kept), 0);
}
END_TEST

static double up(int step)
{
    return 1e-5 * step;
}

/* The mean of TensorBoard, as a double loop. */
START_TEST(smoothing_is_the_weighted_mean)
{
    static cs_plot_point kept[2 * 4 * POINTS];
    cs_plot plot = prepare(loss);
    plot.smooth = 0.9;
    ck_assert_double_eq(ce_plot_smooth(&plot, &plot.curves[0]), 0.9);
    ce_plot_view view = ce_plot_view_of(&plot);
    ck_assert_str_eq(view.notes[0], "smoothed: debiased exponential moving average, weight 0.9");
    ck_assert_int_eq(ce_plot_thin(&plot.curves[0], &view, 4 * POINTS, 0.9, kept), POINTS);
    for (int i = 0; i < POINTS; i++) {
        double sum = 0, weights = 0;
        for (int j = 0; j <= i; j++) {
            sum += pow(0.9, i - j) * points[j].y;
            weights += pow(0.9, i - j);
        }
        ck_assert_double_eq_tol(kept[i].y, sum / weights, 1e-12);
    }
    plot.smooth = -1;
    ck_assert_double_eq_tol(ce_plot_smooth(&plot, &plot.curves[0]), 0.9, 1e-15);
    plot = prepare(up); /* a schedule has no noise, and a mean would come too late */
    plot.smooth = 0.9;
    ck_assert_double_eq(ce_plot_smooth(&plot, &plot.curves[0]), 0);
}
END_TEST

START_TEST(each_column_keeps_its_lowest_and_highest)
{
    cs_plot plot = prepare(norm);
    ce_plot_view view = ce_plot_view_of(&plot);
    for (int columns = 1; columns < 60; columns++) {
        cs_plot_point kept[2 * 60];
        int count = ce_plot_thin(&plot.curves[0], &view, columns, 0, kept);
        ck_assert_int_le(count, 2 * columns);
        for (int c = 0; c < columns; c++) {
            double lows[] = { INFINITY, INFINITY }, highs[] = { -INFINITY, -INFINITY };
            for (int i = 0; i < POINTS + count; i++) {
                cs_plot_point p = i < POINTS ? points[i] : kept[i - POINTS];
                if ((int)fmin((p.x - 1) / (POINTS - 1) * columns, columns - 1) != c)
                    continue;
                lows[i >= POINTS] = fmin(lows[i >= POINTS], p.y);
                highs[i >= POINTS] = fmax(highs[i >= POINTS], p.y);
            }
            ck_assert(lows[0] <= lows[1] && lows[0] >= lows[1] && highs[0] <= highs[1] && highs[0] >= highs[1]);
        }
        for (int i = 1; i < count; i++)
            ck_assert_double_lt(kept[i - 1].x, kept[i].x);
    }
}
END_TEST

SUITE_MAIN("plot_view", ticks_are_round, ticks_are_multiples_within_the_axis, one_value_does_not_flatten_the_others,
           what_is_not_drawn_is_counted, smoothing_is_the_weighted_mean, each_column_keeps_its_lowest_and_highest)
