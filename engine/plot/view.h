/* view.h - the part of the plane that a diagram shows, and the points of a curve that are drawn there. */
#ifndef CE_PLOT_VIEW_H
#define CE_PLOT_VIEW_H

#include "cspeed/plot.h"

/* From one end of an axis to the other; low < high. Both are decimal logarithms if the axis is logarithmic. */
typedef struct {
    double low, high;
    bool log;
} ce_plot_axis;

typedef struct {
    ce_plot_axis x, y;
    const char *x_title;
    int note_count;
    char notes[4][160]; /* sentences about the values that are not drawn in their place, and about the smoothing */
} ce_plot_view;
ce_plot_view ce_plot_view_of(const cs_plot *plot);

/* Returns the distance of a value from the low end as a share of the axis; 0 or 1 for a value beyond an end. */
double ce_plot_share(const ce_plot_axis *axis, double value);

enum { CE_PLOT_TICKS = 10 };
typedef struct {
    double value; /* a multiple of 1, 2 or 5 times a power of ten */
    char label[16];
} ce_plot_tick;
/* Finds at most `max` ticks, from 3 to CE_PLOT_TICKS; on a logarithmic axis of less than three decades up to
 * CE_PLOT_TICKS. If `whole` is true, they are whole numbers. Returns their count. */
int ce_plot_ticks(const ce_plot_axis *axis, int max, bool whole, ce_plot_tick *ticks);

/* Returns the weight with which this curve of the diagram is smoothed; 0: the curve is not smoothed. */
double ce_plot_smooth(const cs_plot *plot, const cs_plot_curve *curve);

/* Divides the width into `columns` equal parts and copies the lowest and the highest point of each part to `kept`, in
 * the order of x, so that an outlier stays visible. If `smooth` is above 0, the points are those of the moving average.
 * `kept` has room for 2 * columns points. Returns the number of copied points. */
int ce_plot_thin(const cs_plot_curve *curve, const ce_plot_view *view, int columns, double smooth, cs_plot_point *kept);

#endif
