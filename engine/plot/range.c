/* range.c - the range of values that a diagram shows, and the reduction of a curve to at most two points for each
 * column of the diagram. */
#include "plot/range.h"

#include <math.h>

ce_plot_range ce_plot_range_of(const cs_plot *plot)
{
    ce_plot_range r = { INFINITY, -INFINITY, INFINITY, -INFINITY };
    for (int c = 0; c < plot->count; c++)
        for (int64_t i = 0; i < plot->curves[c].count; i++) {
            cs_plot_point p = plot->curves[c].points[i];
            r = (ce_plot_range){ fmin(r.left, p.x), fmax(r.right, p.x), fmin(r.bottom, p.y), fmax(r.top, p.y) };
        }
    if (r.left == r.right)
        r.right = r.left + 1;
    if (r.bottom == r.top) { /* A curve of one constant value is drawn at half the height. */
        double half = r.top != 0 ? fabs(r.top) / 2 : 1;
        r.bottom -= half;
        r.top += half;
    }
    return r;
}

double ce_plot_across(const ce_plot_range *range, double x)
{
    return (x - range->left) / (range->right - range->left);
}

double ce_plot_up(const ce_plot_range *range, double y)
{
    return (y - range->bottom) / (range->top - range->bottom);
}

static int column_of(const ce_plot_range *range, double x, int columns)
{
    int column = (int)(ce_plot_across(range, x) * columns);
    return column < columns ? column : columns - 1;
}

int ce_plot_thin(const cs_plot_curve *curve, const ce_plot_range *range, int columns, cs_plot_point *kept)
{
    const cs_plot_point *points = curve->points;
    int count = 0;
    for (int64_t i = 0; i < curve->count;) {
        int column = column_of(range, points[i].x, columns);
        int64_t low = i, high = i;
        for (; i < curve->count && column_of(range, points[i].x, columns) == column; i++) {
            low = points[i].y < points[low].y ? i : low;
            high = points[i].y > points[high].y ? i : high;
        }
        kept[count++] = points[low < high ? low : high];
        if (low != high)
            kept[count++] = points[low < high ? high : low];
    }
    return count;
}
