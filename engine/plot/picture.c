/* picture.c - draws diagrams as an SVG picture, as an HTML page that contains the picture and shows the values under the
 * pointer in its legend, and, by a program that reads the SVG, as PNG. */
#include "base/ends_with.h"
#include "base/must.h"
#include "json/json.h"
#include "plot/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

extern const char ce_plot_css[], ce_plot_js[]; /* the files picture.css and picture.js, as the build embeds them */

/* Sizes in pixels. The legend is to the right of the diagram. */
enum { LEFT = 84, TOP = 44, WIDTH = 580, HEIGHT = 220, BOTTOM = 56, LINE = 17, LEGEND = LEFT + WIDTH + 20, ROW = 34 };
enum { COLUMNS = WIDTH, TICKS = 8, COLORS = 8 };

typedef struct {
    FILE *file;
    const cs_plot *plot;
    ce_plot_view view;
    bool page; /* true: the curves contain their values, for the script of the page */
} canvas;

static const char *const colors[COLORS] = { "#2f81f7", "#d9602b", "#1a9850", "#9b6bd3",
                                            "#b8860b", "#d6487e", "#0f93a5", "#7d8590" };

/* Writes a text, with XML's special characters escaped. Each byte that XML does not allow is written as '?'. */
static void put_text(FILE *file, const char *text)
{
    json_t *valid = json_string(text); /* NULL if the text is not UTF-8 */
    for (; *text; text++)
        if (*text == '&')
            fputs("&amp;", file);
        else if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '>')
            fputs("&gt;", file);
        else
            fputc((unsigned char)*text < ' ' || (!valid && (unsigned char)*text > '~') ? '?' : *text, file);
    json_decref(valid);
}

/* Writes one line of text. `attributes` are those of its element. */
static void put_line(FILE *file, double x, double y, const char *attributes, const char *text)
{
    fprintf(file, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    put_text(file, text);
    fputs("</text>\n", file);
}

static double across(const canvas *on, double x)
{
    return LEFT + WIDTH * ce_plot_share(&on->view.x, x);
}

static double down(const canvas *on, double y)
{
    return TOP + HEIGHT * (1 - ce_plot_share(&on->view.y, y));
}

static void put_frame(const canvas *on)
{
    ce_plot_tick ticks[CE_PLOT_TICKS];
    const int bottom = TOP + HEIGHT;
    put_line(on->file, LEFT, TOP - 16, "font-weight=\"bold\"", on->plot->title);
    int count = ce_plot_ticks(&on->view.y, TICKS, false, ticks);
    for (int i = 0; i < count; i++) {
        double y = down(on, ticks[i].value);
        fprintf(on->file, "<path class=\"grid\" d=\"M%d %.1fh%d\"/>\n", LEFT, y, WIDTH);
        put_line(on->file, LEFT - 8, y + 4, "class=\"grey\" text-anchor=\"end\"", ticks[i].label);
    }
    count = ce_plot_ticks(&on->view.x, TICKS, true, ticks);
    for (int i = 0; i < count; i++) {
        double x = across(on, ticks[i].value);
        fprintf(on->file, "<path class=\"grid\" d=\"M%.1f %dv%d\"/>\n", x, TOP, HEIGHT);
        put_line(on->file, x, bottom + 17, "class=\"grey\" text-anchor=\"middle\"", ticks[i].label);
    }
    fprintf(on->file, "<path class=\"edge\" d=\"M%d %dv%dh%d\"/>\n", LEFT, TOP, HEIGHT, WIDTH);
    put_line(on->file, LEFT + WIDTH / 2, bottom + 36, "class=\"x\" text-anchor=\"middle\"", on->view.x_title);
    if (on->page) /* a transparent rectangle, which the pointer meets, and the line under the pointer */
        fprintf(on->file,
                "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill-opacity=\"0\"/>\n"
                "<path class=\"edge at\" d=\"M0 %dv%d\" style=\"display:none\"/>\n",
                LEFT, TOP, WIDTH, HEIGHT, TOP, HEIGHT);
    for (int i = 0; i < on->view.note_count; i++)
        put_line(on->file, LEFT, bottom + BOTTOM + i * LINE, "class=\"grey\"", on->view.notes[i]);
}

/* Begins the element of a curve. `color` counts the colors of the diagram; they repeat with thicker lines. */
static void begin(FILE *file, const char *element, const char *kind, const cs_plot_curve *curve, int color)
{
    fprintf(file, "<%s class=\"%s%s%s\" stroke=\"%s\"", element, kind, curve->is_second ? " second" : "",
            color < COLORS ? "" : " again", colors[color % COLORS]);
}

/* Draws a curve; `row` is its row in the legend. If `smooth` is 0, the curve is drawn as it is. */
static void put_curve(const canvas *on, const cs_plot_curve *curve, int row, int color, double smooth, const char *kind)
{
    cs_plot_point kept[2 * COLUMNS];
    int count = ce_plot_thin(curve, &on->view, COLUMNS, smooth, kept);
    if (count == 0)
        return;
    begin(on->file, "polyline", count == 1 ? "one" : kind, curve, color);
    if (on->page)
        fprintf(on->file, " data-row=\"%d\" data-values=\"", row);
    for (int i = 0; on->page && i < count; i++)
        fprintf(on->file, "%s%.15g,%.5g", i ? " " : "", kept[i].x, kept[i].y);
    fputs(on->page ? "\" points=\"" : " points=\"", on->file);
    for (int i = 0; i < count + (count == 1); i++) /* a line from a point to itself is a dot */
        fprintf(on->file, "%s%.2f,%.2f", i ? " " : "", across(on, kept[i % count].x), down(on, kept[i % count].y));
    fputs("\"/>\n", on->file);
}

/* Draws the curves and the legend, which has the last value of each curve. Returns the height of the legend. */
static int put_curves(const canvas *on)
{
    int row = 0, color = -1;
    for (int c = 0; c < on->plot->count; c++) {
        const cs_plot_curve *curve = &on->plot->curves[c];
        double smooth = ce_plot_smooth(on->plot, curve);
        char value[32];
        int y = TOP + 10 + row * ROW;
        color += c == 0 || !curve->is_second;
        if (curve->count == 0)
            continue;
        put_curve(on, curve, row, color, 0, smooth > 0 ? "raw" : "curve");
        if (smooth > 0)
            put_curve(on, curve, row, color, smooth, "curve");
        begin(on->file, "path", "curve", curve, color);
        fprintf(on->file, " d=\"M%d %dh16\"/>\n", LEGEND, y - 4);
        snprintf(value, sizeof value, "%.5g", curve->points[curve->count - 1].y);
        put_line(on->file, LEGEND + 22, y, "", curve->name);
        put_line(on->file, LEGEND + 22, y + 15, "class=\"value grey\"", value);
        row++;
    }
    return row * ROW;
}

/* The page is as wide as the longest name needs. */
static int width_of(const cs_plot *plots, int count)
{
    size_t longest = 30; /* the values under the pointer are as wide */
    for (int i = 0; i < count; i++)
        for (int c = 0; c < plots[i].count; c++)
            longest = longest < strlen(plots[i].curves[c].name) ? strlen(plots[i].curves[c].name) : longest;
    return LEGEND + 30 + (int)longest * 15 / 2;
}

static void put_diagrams(FILE *file, const cs_plot *plots, int count, bool page)
{
    CE_FREED char *text = NULL;
    size_t size;
    FILE *diagrams = open_memstream(&text, &size);
    int height = 0;
    for (int i = 0; diagrams && i < count; i++) {
        canvas on = { diagrams, &plots[i], ce_plot_view_of(&plots[i]), page };
        fprintf(diagrams, "<g class=\"diagram\" transform=\"translate(0 %d)\">\n", height);
        put_frame(&on);
        int legend = put_curves(&on);
        fputs("</g>\n", diagrams);
        height += TOP + (legend > HEIGHT ? legend : HEIGHT) + BOTTOM + on.view.note_count * LINE;
    }
    if (!diagrams || fclose(diagrams) != 0)
        ce_fatal(CS_NO_MEMORY, "no memory for a picture");
    fprintf(
        file,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
        "font-size=\"13\">\n<style>\n%s</style>\n<rect class=\"back\" width=\"100%%\" height=\"100%%\"/>\n%s</svg>\n",
        width_of(plots, count), height, ce_plot_css, text);
}

static void put_page(FILE *file, const char *title, const cs_plot *plots, int count)
{
    fputs("<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head><meta "
          "charset=\"utf-8\"/><meta name=\"viewport\" content=\"width=device-width\"/><title>",
          file);
    put_text(file, title);
    fputs("</title></head>\n<body><h1>", file);
    put_text(file, title);
    fputs("</h1>\n", file);
    put_diagrams(file, plots, count, true);
    fprintf(file, "<script>//<![CDATA[\n%s//]]></script>\n</body>\n</html>\n", ce_plot_js);
}

/* ---- the file ---- */

cs_plot_form cs_plot_form_of(const char *path)
{
    return ce_ends_with(path, ".svg")    ? CS_PLOT_SVG
           : ce_ends_with(path, ".html") ? CS_PLOT_HTML
           : ce_ends_with(path, ".png")  ? CS_PLOT_PNG
                                         : CS_PLOT_NO_FORM;
}

/* Opens a program that makes a PNG of the SVG that it reads. If the program fails, its shell reads the rest. */
static FILE *open_png(const char *path)
{
    static const char line[] =
        "rsvg-convert --zoom=2 --output=\"$CSPEED_PNG\" || { code=$?; cat >/dev/null; exit $code; }";
    return setenv("CSPEED_PNG", path, 1) == 0 ? popen(line, "w") : NULL;
}

cs_status cs_plot_write(const char *path, cs_plot_form form, const char *title, const cs_plot *plots, int count)
{
    FILE *file = form == CS_PLOT_PNG ? open_png(path) : fopen(path, "w");
    if (file && form == CS_PLOT_HTML)
        put_page(file, title, plots, count);
    else if (file)
        put_diagrams(file, plots, count, false);
    bool good = file && !ferror(file);
    int code = !file ? -1 : form == CS_PLOT_PNG ? pclose(file) : fclose(file);
    if (form == CS_PLOT_PNG && code != 0)
        return ce_fail(CS_IO_ERROR,
                       "%s cannot be written by the program rsvg-convert, which makes a PNG; it is in Debian's package "
                       "librsvg2-bin; SVG and HTML need no program",
                       path);
    if (!good || code != 0)
        return ce_fail(CS_IO_ERROR, "%s cannot be written: %s", path, strerror(errno));
    return CS_OK;
}
