/* plot.h - curves over optimizer steps: read from a file of metrics; drawn in a terminal, as SVG and as HTML. (public)
 *
 *     cs_plot_curve curve = { .name = "loss" };
 *     const char *key = "loss";
 *     if (cs_plot_read("runs/mine", &key, 1, &curve) == CS_OK && curve.count > 0) {
 *         cs_plot plot = { "loss", &curve, 1 };
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
} cs_plot_curve;

/* One diagram. At least one of its curves has a point. */
typedef struct {
    const char *title;
    const cs_plot_curve *curves;
    int count;
} cs_plot;

/* Reads the file of metrics `path` (JSON lines), or metrics.jsonl in the folder `path`. curves[i] gets a point (step,
 * value of keys[i]) for each line in which this value is a number. The points are malloc'ed; the names of the curves do
 * not change. A last line without a line feed is still being written and is not read. CS_NOT_FOUND: there is no such
 * file. CS_BAD_FILE: a line is damaged. After an error every count is 0. */
cs_status cs_plot_read(const char *path, const char *const *keys, int count, cs_plot_curve *curves);
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

/* cs_plot_svg writes diagrams, one below the other, as one SVG picture; cs_plot_html writes them as one HTML page that
 * needs no other file. Both outputs are well-formed XML. Errors in writing are not reported here; the caller finds them
 * with ferror(file) or fclose(file). */
void cs_plot_svg(FILE *file, const cs_plot *plots, int count);
void cs_plot_html(FILE *file, const char *title, const cs_plot *plots, int count);

#ifdef __cplusplus
}
#endif

#endif
