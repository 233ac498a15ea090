/* range.h - the range of values that a diagram shows, and the reduction of a curve to at most two points for each
 * column of the diagram. */
#ifndef CE_PLOT_RANGE_H
#define CE_PLOT_RANGE_H

#include "cspeed/plot.h"

typedef struct {
    double left, right, bottom, top; /* left < right, and bottom < top */
} ce_plot_range;
ce_plot_range ce_plot_range_of(const cs_plot *plot);

/* Divides the width into `columns` equal parts and copies the lowest and the highest point of each part to `kept`, in
 * the order of x, so that an outlier stays visible. `kept` has room for 2 * columns points. Returns the number of
 * copied points. */
int ce_plot_thin(const cs_plot_curve *curve, const ce_plot_range *range, int columns, cs_plot_point *kept);

/* ce_plot_across returns the distance of x from the left as a share of the width; ce_plot_up returns the distance of y
 * from the bottom as a share of the height. */
double ce_plot_across(const ce_plot_range *range, double x);
double ce_plot_up(const ce_plot_range *range, double y);

#endif
