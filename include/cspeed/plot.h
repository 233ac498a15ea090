/* plot.h - curves over optimizer steps: read from a file of metrics; drawn in a terminal, as SVG, HTML or PNG. (public)
 *
 *     cs_plot_curve curve = { .name = "loss" };
 *     const char *key = "loss";
 *     if (cs_plot_read("runs/mine", &key, 1, &curve) == CS_OK && curve.count > 0) {
 *         cs_plot plot = { .title = "loss", .curves = &curve, .count = 1 };
 *         cs_plot_text(stdout, &plot, cs_plot_screen_of(stdout), 12);
 *     }
 *     cs_plot_free(&curve, 1); */
#ifndef CSPEED_PLOT_H
#define CSPEED_PLOT_H

#include "cspeed/cspeed.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    double x, y; /* both numbers are finite */
} cs_plot_point;

typedef struct {
    const char *name; /* the name in the legend; the caller owns it */
    /* the points in ascending order of x. If several points are in one column of the picture, only the lowest and the
     * highest are drawn. */
    cs_plot_point *points;
    int64_t count;
    int64_t nulls;  /* how many values were null, which is NaN or infinite; a sentence below the diagram says so */
    bool is_second; /* a picture draws this curve dashed, in the color of the curve before it */
} cs_plot_curve;

/* One diagram. */
typedef struct {
    const char *title; /* what the values are, with their unit */
    const cs_plot_curve *curves;
    int count;
    const char *x_title; /* NULL: "step" */
    /* A logarithmic axis has no place for numbers that are not above 0; a sentence below the diagram counts them. */
    bool log_x, log_y;
    /* false: if few values would press the others into less than a third of the height, the axis ends before the few,
     * which are drawn at its end; a sentence below the diagram counts them. true: the axis includes all values. */
    bool full;
    /* The weight, from 0 to below 1, of a debiased exponential moving average, as in TensorBoard: point i becomes the
     * mean of the points j <= i with the weights smooth^(i - j). Below 0: 1 - 50 / (points of the longest curve). A curve
     * is smoothed if it turns up or down in more than a quarter of its points; a sentence below the diagram says so, and
     * a picture draws the curve itself too, pale. */
    double smooth;
} cs_plot;

/* Reads the file of metrics `path` (JSON lines), or metrics.jsonl in the folder `path`. curves[i] gets a point (step,
 * value of keys[i]) for each line in which this value is a number. The points are malloc'ed; the names of the curves do
 * not change. A last line without a line feed is still being written and is not read. CS_NOT_FOUND: there is no such
 * file. CS_BAD_FILE: a line is damaged. After an error every count is 0. */
cs_status cs_plot_read(const char *path, const char *const *keys, int count, cs_plot_curve *curves);
/* *text becomes the keys of all numbers in the file, such as "step, loss, lr"; the caller frees it. NULL: there
 * are none. */
cs_status cs_plot_keys(const char *path, char **text);
void cs_plot_free(cs_plot_curve *curves, int count); /* frees the points */

/* The screen on which text is drawn. */
typedef struct {
    /* the screen's size, from the environment variables COLUMNS and LINES, else from the terminal, else 80 and 24 */
    int columns, lines;
    /* true: the locale's encoding is UTF-8, and the first curve is drawn in Braille dots; false: everything is drawn in
     * ASCII */
    bool unicode;
} cs_plot_screen;
cs_plot_screen cs_plot_screen_of(FILE *file);

/* Draws a diagram in `rows` lines of text (at least 4, and more where the legend takes more than one line). Curves are
 * distinguished by characters, not by color. The legend shows the last value of each curve. */
void cs_plot_text(FILE *file, const cs_plot *plot, cs_plot_screen screen, int rows);

/* The forms of a picture. An HTML page needs no other file and shows the values under the pointer. SVG and HTML are
 * dark where the reader's settings are, and both are well-formed XML. PNG is made by the program rsvg-convert. */
typedef enum { CS_PLOT_NO_FORM, CS_PLOT_SVG, CS_PLOT_HTML, CS_PLOT_PNG } cs_plot_form;
cs_plot_form cs_plot_form_of(const char *path); /* the form that the end of the name says: .svg, .html or .png */

/* Writes diagrams, one below the other, as one picture into the file `path`. `title` is the title of an HTML page. */
cs_status cs_plot_write(const char *path, cs_plot_form form, const char *title, const cs_plot *plots, int count);

#ifdef __cplusplus
}
#endif

#endif
