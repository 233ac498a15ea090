/* view.c - the part of the plane that a diagram shows, the numbers on its axes, and the reduction of a curve to at most
 * two points for each column of the diagram. */
#include "plot/view.h"

#include "base/must.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* Returns the place of a value on its axis, not finite if it has none. The limit keeps differences finite. */
static double place_of(const ce_plot_axis *axis, double value)
{
    return axis->log ? log10(value) : fmax(fmin(value, DBL_MAX / 8), -DBL_MAX / 8);
}

static double value_at(const ce_plot_axis *axis, double place)
{
    return axis->log ? pow(10, place) : place;
}

double ce_plot_share(const ce_plot_axis *axis, double value)
{
    return fmax(0, fmin(1, (place_of(axis, value) - axis->low) / (axis->high - axis->low)));
}

/* Writes the place of a point. Returns false if it has none. */
static bool find_place(cs_plot_point *place, const ce_plot_view *view, cs_plot_point p)
{
    *place = (cs_plot_point){ place_of(&view->x, p.x), place_of(&view->y, p.y) };
    return isfinite(place->x) && isfinite(place->y);
}

/* ---- the ends of the axes ---- */

static int compare(const void *a, const void *b)
{
    double x = ((const cs_plot_point *)a)->y, y = ((const cs_plot_point *)b)->y;
    return (x > y) - (x < y);
}

/* Widens an axis by a share of its length, or, if its values are almost equal, by their size. */
static void widen(ce_plot_axis *axis, double share, double almost)
{
    double size = fmax(fabs(axis->low), fabs(axis->high)), half = share * (axis->high - axis->low);
    if (axis->high - axis->low <= almost * size + DBL_MIN)
        half = size > 1e-300 && !axis->log ? size / 2 : 1;
    axis->low -= half;
    axis->high += half;
}

/* Sets the ends of y from points in ascending order of y. If few of them would press all others into less than a third of
 * the axis, it ends as far from the middle nine tenths of them as these are wide. */
static void set_ends(ce_plot_axis *y, const cs_plot_point *points, int64_t count, bool full)
{
    int64_t tail = count - 1 - (count - 1) * 19 / 20;
    double low = points[tail].y, high = points[count - 1 - tail].y, width = high - low;
    y->low = points[0].y;
    y->high = points[count - 1].y;
    low = fmax(y->low, low - width);
    high = fmin(y->high, high + width);
    if (!full && width > 0 && y->high - y->low > 3 * (high - low))
        *y = (ce_plot_axis){ low, high, y->log };
}

/* Counts what is not drawn in its place, of `all` points. `points` are the places of `count` of them, in ascending order
 * of y. */
static void add_notes(ce_plot_view *view, const cs_plot *plot, const cs_plot_point *points, long long count,
                      long long all)
{
    long long beyond = 0, nulls = 0;
    double smooth = 0;
    for (int c = 0; c < plot->count; c++) {
        nulls += plot->curves[c].nulls;
        smooth = fmax(smooth, ce_plot_smooth(plot, &plot->curves[c]));
    }
    for (long long i = 0; i < count; i++)
        beyond += points[i].y < view->y.low || points[i].y > view->y.high;
#define NOTE(...) snprintf(view->notes[view->note_count++], sizeof view->notes[0], __VA_ARGS__)
    if (beyond > 0) {
        cs_plot_point far = points[points[count - 1].y - view->y.high > view->y.low - points[0].y ? count - 1 : 0];
        NOTE("beyond the axis: %lld of %lld values, as far as %.5g at %s %.9g (plot --full)", beyond, all,
             value_at(&view->y, far.y), view->x_title, value_at(&view->x, far.x));
    }
    if (count < all)
        NOTE("no place on a logarithmic axis: %lld of %lld values, which are not above 0", all - count, all);
    if (nulls > 0)
        NOTE("null in the file (NaN or infinite): %lld of %lld values", nulls, all + nulls);
    if (smooth > 0)
        NOTE("smoothed: debiased exponential moving average, weight %.4g", smooth);
#undef NOTE
}

ce_plot_view ce_plot_view_of(const cs_plot *plot)
{
    ce_plot_view view = { .x.log = plot->log_x,
                          .y.log = plot->log_y,
                          .x_title = plot->x_title ? plot->x_title : "step" };
    int64_t all = 0, count = 0;
    for (int c = 0; c < plot->count; c++)
        all += plot->curves[c].count;
    CE_FREED cs_plot_point *points = ce_must_alloc((size_t)(all + 1) * sizeof *points);
    for (int c = 0; c < plot->count; c++)
        for (int64_t i = 0; i < plot->curves[c].count; i++)
            if (find_place(&points[count], &view, plot->curves[c].points[i])) {
                double x = points[count++].x;
                view.x.low = count == 1 ? x : fmin(view.x.low, x);
                view.x.high = count == 1 ? x : fmax(view.x.high, x);
            }
    qsort(points, (size_t)count, sizeof *points, compare);
    if (count > 0)
        set_ends(&view.y, points, count, plot->full);
    widen(&view.x, 0, 0);
    widen(&view.y, 0.03, 1e-5);
    add_notes(&view, plot, points, count, all);
    return view;
}

/* ---- the numbers on an axis ---- */

/* Finds the ticks of an axis of less than three decades as 1, 2 and 5 times powers of ten, else as powers of ten. */
static int find_powers(const ce_plot_axis *axis, int max, ce_plot_tick *ticks)
{
    const double decades = axis->high - axis->low, stride = ceil(decades / (max - 1)), parts[] = { 1, 2, 5 };
    int count = 0;
    for (double power = floor(axis->low / stride) * stride; power <= axis->high; power += stride)
        for (int i = 0; i < (decades < 3 ? 3 : 1); i++) {
            double value = parts[i] * pow(10, power), place = log10(value);
            if (count < CE_PLOT_TICKS && place >= axis->low && place <= axis->high) {
                ticks[count].value = value;
                snprintf(ticks[count++].label, sizeof ticks->label, "%.6g", value);
            }
        }
    return count;
}

int ce_plot_ticks(const ce_plot_axis *axis, int max, bool whole, ce_plot_tick *ticks)
{
    if (axis->log && axis->high - axis->low >= 1)
        return find_powers(axis, max, ticks);
    double low = value_at(axis, axis->low), high = value_at(axis, axis->high), size = fmax(fabs(low), fabs(high));
    double least = (high - low) / (max - 1), power = pow(10, floor(log10(least))), part = least / power, tiny = 1e-9;
    double step = power * (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10);
    step = whole && step < 1 ? 1 : step;
    int count = 0, exponent = (int)floor(log10(step) + tiny);
    for (double i = ceil(low / step - tiny); count < max && i * step <= high + tiny * step; i++) {
        ce_plot_tick *tick = &ticks[count++];
        tick->value = i * step + 0.0; /* + 0.0 makes 0 of -0 */
        if (size < 1e-3 || size >= 1e7)
            snprintf(tick->label, sizeof tick->label, "%.*g", (int)log10(size / step) + 2, tick->value);
        else
            snprintf(tick->label, sizeof tick->label, "%.*f", exponent < 0 ? -exponent : 0, tick->value);
    }
    return count;
}

/* ---- the points of a curve ---- */

double ce_plot_smooth(const cs_plot *plot, const cs_plot_curve *curve)
{
    int64_t turns = 0, longest = 50;
    for (int c = 0; c < plot->count; c++)
        longest = longest < plot->curves[c].count ? plot->curves[c].count : longest;
    for (int64_t i = 2; i < curve->count; i++) {
        const cs_plot_point *p = &curve->points[i];
        turns += (p[0].y > p[-1].y && p[-1].y < p[-2].y) || (p[0].y < p[-1].y && p[-1].y > p[-2].y);
    }
    return 4 * turns <= curve->count ? 0 : plot->smooth < 0 ? 1 - 50 / (double)longest : plot->smooth;
}

int ce_plot_thin(const cs_plot_curve *curve, const ce_plot_view *view, int columns, double smooth, cs_plot_point *kept)
{
    double mean = 0, weights = 0;
    int count = 0, column = -1, first = 0; /* first: index in `kept` of the first point of this column */
    for (int64_t i = 0; i < curve->count; i++) {
        cs_plot_point p = curve->points[i], place;
        if (!find_place(&place, view, p))
            continue;
        weights = smooth * weights + 1; /* of all points until now; the newest point has the weight 1 */
        mean += (fmax(fmin(p.y, DBL_MAX / 8), -DBL_MAX / 8) - mean) / weights;
        p.y = smooth > 0 ? mean : p.y;
        int here = (int)fmin(ce_plot_share(&view->x, p.x) * columns, columns - 1);
        if (here != column)
            first = count;
        column = here;
        if (count < first + 2) {
            kept[count++] = p;
        } else if (p.y > fmax(kept[first].y, kept[first + 1].y) || p.y < fmin(kept[first].y, kept[first + 1].y)) {
            bool rises = kept[first].y<kept[first + 1].y, highest = p.y> kept[first].y;
            kept[first] = rises == highest ? kept[first] : kept[first + 1];
            kept[first + 1] = p;
        }
    }
    return count;
}
