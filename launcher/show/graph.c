/* graph.c - plotting one function as an SVG picture. */
#include "show/graph.h"

enum { WIDTH = 720, HEIGHT = 360, LEFT = 90, TOP = 40, RIGHT = 20, BOTTOM = 40, MOST_POINTS = 1200 };

static double across(int64_t x, int64_t last)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * (last > 1 ? (double)(x - 1) / (double)(last - 1) : 0);
}

static double down(double y, double top)
{
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (top > 0 ? y / top : 0);
}

static void write_frame(FILE *file, const char *title, int64_t last, double top)
{
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" "
            "font-size=\"13\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
            "<text x=\"%d\" y=\"24\">%s</text>\n"
            "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"black\"/>\n",
            WIDTH, HEIGHT, LEFT, title, LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT);
    for (int i = 0; i <= 4; i++)
        fprintf(file, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>\n", LEFT - 8,
                down(top * i / 4, top) + 4, top * i / 4);
    for (int i = 0; i <= 4; i++) {
        int64_t step = 1 + (last - 1) * i / 4;
        fprintf(file, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%lld</text>\n", across(step, last),
                HEIGHT - BOTTOM + 20, (long long)step);
    }
}

void cl_graph_write(FILE *file, const char *title, double (*value)(const void *of, int64_t x), const void *of,
                    int64_t last)
{
    int64_t stride = last / MOST_POINTS + 1;
    double top = 0;
    for (int64_t x = 1; x <= last; x += stride)
        top = value(of, x) > top ? value(of, x) : top;
    write_frame(file, title, last, top);
    fprintf(file, "<polyline fill=\"none\" stroke=\"#1f5fa8\" stroke-width=\"2\" points=\"");
    for (int64_t x = 1; x <= last; x += stride)
        fprintf(file, "%.2f,%.2f ", across(x, last), down(value(of, x), top));
    fprintf(file, "\"/>\n</svg>\n");
}
