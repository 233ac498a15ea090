/* svg.c - draws diagrams as an SVG picture, and as an HTML page that contains the picture. */
#include "json/json.h"
#include "plot/range.h"

enum { WIDTH = 720, HEIGHT = 360, LEFT = 90, TOP = 40, RIGHT = 20, BOTTOM = 40, COLUMNS = 600, TICKS = 4, LINE = 16 };

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

static double across(const ce_plot_range *range, double x)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * ce_plot_across(range, x);
}

static double down(const ce_plot_range *range, double y)
{
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * ce_plot_up(range, y);
}

static void put_frame(FILE *file, const char *title, const ce_plot_range *range)
{
    fprintf(file, "<text x=\"%d\" y=\"24\">", LEFT);
    put_text(file, title);
    fprintf(file, "</text>\n<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"black\"/>\n", LEFT, TOP, HEIGHT - BOTTOM,
            WIDTH - RIGHT);
    for (int i = 0; i <= TICKS; i++) {
        double x = range->left + (double)(int64_t)((range->right - range->left) * i / TICKS);
        double y = range->bottom + (range->top - range->bottom) * i / TICKS;
        fprintf(file, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n", LEFT - 8, down(range, y) + 4, y);
        fprintf(file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n", across(range, x),
                HEIGHT - BOTTOM + 20, x);
    }
}

static void put_curve(FILE *file, const cs_plot_curve *curve, int number, const ce_plot_range *range)
{
    static const char *const colors[] = { "#1f5fa8", "#c8501e", "#2e8b57", "#8a4fa3",
                                          "#b8860b", "#c2417c", "#008b8b", "#555555" };
    const char *color = colors[(size_t)number % (sizeof colors / sizeof *colors)];
    cs_plot_point kept[2 * COLUMNS];
    int count = ce_plot_thin(curve, range, COLUMNS, kept);
    if (count == 0)
        return;
    fprintf(file, "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" points=\"", color);
    for (int i = 0; i < count; i++)
        fprintf(file, "%s%.2f,%.2f", i ? " " : "", across(range, kept[i].x), down(range, kept[i].y));
    if (count == 1) /* A line of length 0 would be invisible, so a curve of one point is drawn as a line of length 2. */
        fprintf(file, " %.2f,%.2f", across(range, kept[0].x) + 2, down(range, kept[0].y));
    fprintf(file, "\"/>\n<text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"%s\">", WIDTH - RIGHT, TOP + LINE * number,
            color);
    put_text(file, curve->name);
    fprintf(file, " %.5g</text>\n", curve->points[curve->count - 1].y);
}

void cs_plot_svg(FILE *file, const cs_plot *plots, int count)
{
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
            "font-size=\"13\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            WIDTH, HEIGHT * count);
    for (int i = 0; i < count; i++) {
        ce_plot_range range = ce_plot_range_of(&plots[i]);
        fprintf(file, "<g transform=\"translate(0 %d)\">\n", HEIGHT * i);
        put_frame(file, plots[i].title, &range);
        for (int c = 0; c < plots[i].count; c++)
            put_curve(file, &plots[i].curves[c], c, &range);
        fputs("</g>\n", file);
    }
    fputs("</svg>\n", file);
}

void cs_plot_html(FILE *file, const char *title, const cs_plot *plots, int count)
{
    fputs("<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head><meta charset=\"utf-8\"/>"
          "<title>",
          file);
    put_text(file, title);
    fputs("</title></head>\n<body style=\"max-width: 60em; margin: auto; font-family: sans-serif\">\n<h1>", file);
    put_text(file, title);
    fputs("</h1>\n", file);
    cs_plot_svg(file, plots, count);
    fputs("</body>\n</html>\n", file);
}
