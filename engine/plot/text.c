/* text.c - draws a diagram as lines of text, for a terminal.
 *
 * If the locale is UTF-8, the first curve is drawn in Braille characters, each of which has 2 x 4 dots. Other curves
 * are drawn with one ASCII character each. In other locales all curves are drawn with ASCII characters. */
#include "plot/range.h"
#include "base/terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL = 10, MIN_COLUMNS = 24, MAX_COLUMNS = 1000, MIN_ROWS = 2, MAX_ROWS = 200, DOTS_X = 2, DOTS_Y = 4 };

static const char marks[] = "*ox+#@%&";

typedef struct {
    int columns, rows; /* size of the diagram in characters */
    bool unicode;
    unsigned char *dots; /* for each cell of the diagram, the dots of the first curve, one bit for each dot */
    char *mark;          /* for each cell of the diagram, the character of another curve, or 0 */
} canvas;

/* ---- the screen ---- */

cs_plot_screen cs_plot_screen_of(FILE *file)
{
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    cs_plot_screen screen = { .columns = ce_terminal_columns(fileno(file)),
                              .lines = ce_terminal_lines(fileno(file)),
                              .unicode = locale && strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0 };
    if (locale)
        freelocale(locale);
    return screen;
}

/* ---- the legend ---- */

static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xC0) != 0x80;
    return width;
}

static void put_braille(FILE *file, unsigned dots)
{
    unsigned code = 0x2800 + dots;
    fprintf(file, "%c%c%c", 0xE0 | code >> 12, 0x80 | (code >> 6 & 0x3F), 0x80 | (code & 0x3F));
}

/* Writes the title and, for each curve, its character, its name and its last value. Returns the number of lines. If
 * `file` is NULL, the function only counts the lines. */
static int put_legend(FILE *file, const cs_plot *plot, cs_plot_screen screen)
{
    int lines = 1, used = width_of(plot->title);
    if (file)
        fputs(plot->title, file);
    for (int c = 0; c < plot->count; c++) {
        const cs_plot_curve *curve = &plot->curves[c];
        char value[32];
        if (curve->count == 0)
            continue;
        snprintf(value, sizeof value, "%.5g", curve->points[curve->count - 1].y);
        int width = 4 + 2 + width_of(curve->name) + 1 + (int)strlen(value);
        bool wraps = used + width > screen.columns;
        lines += wraps;
        used = wraps ? width : used + width;
        if (!file)
            continue;
        fputs(wraps ? "\n    " : "    ", file);
        if (c == 0 && screen.unicode)
            put_braille(file, 0xFF);
        else
            fputc(marks[c % (int)strlen(marks)], file);
        fprintf(file, " %s %s", curve->name, value);
    }
    if (file)
        fputc('\n', file);
    return lines;
}

/* ---- the curves ---- */

static void set_dot(canvas *on, int curve, int x, int y)
{
    static const unsigned char bits[DOTS_Y][DOTS_X] = {
        { 0x01, 0x08 }, { 0x02, 0x10 }, { 0x04, 0x20 }, { 0x40, 0x80 }
    };
    int wide = on->unicode ? DOTS_X : 1, high = on->unicode ? DOTS_Y : 1;
    int cell = y / high * on->columns + x / wide;
    if (curve == 0 && on->unicode)
        on->dots[cell] |= bits[y % high][x % wide];
    else
        on->mark[cell] = marks[curve % (int)strlen(marks)];
}

static void draw_curve(canvas *on, const cs_plot_curve *curve, int number, const ce_plot_range *range,
                       cs_plot_point *kept)
{
    int wide = on->columns * (on->unicode ? DOTS_X : 1), high = on->rows * (on->unicode ? DOTS_Y : 1);
    int count = ce_plot_thin(curve, range, wide, kept), x = 0, y = 0;
    for (int i = 0; i < count; i++) {
        int to_x = (int)lround(ce_plot_across(range, kept[i].x) * (wide - 1));
        int to_y = (int)lround((1 - ce_plot_up(range, kept[i].y)) * (high - 1));
        int across = i == 0 ? 0 : to_x - x, down = i == 0 ? 0 : to_y - y;
        int dots = across > abs(down) ? across : abs(down);
        for (int dot = 0; dot <= dots; dot++)
            set_dot(on, number, to_x - (dots ? across * dot / dots : 0), to_y - (dots ? down * dot / dots : 0));
        x = to_x;
        y = to_y;
    }
}

/* ---- the frame ---- */

static void put_row(FILE *file, const canvas *on, int row, const ce_plot_range *range)
{
    bool middle = row == on->rows / 2 && on->rows > 4;
    int last = on->columns;
    if (row == 0 || row == on->rows - 1 || middle)
        fprintf(file, "%*.4g ", LABEL - 1,
                range->top - (range->top - range->bottom) * (double)row / (double)(on->rows - 1));
    else
        fprintf(file, "%*s", LABEL, "");
    fputs(on->unicode ? "\u2502" : "|", file);
    const unsigned char *dots = on->dots + row * on->columns;
    const char *mark = on->mark + row * on->columns;
    while (last > 0 && !dots[last - 1] && !mark[last - 1])
        last--;
    for (int i = 0; i < last; i++)
        if (!mark[i] && dots[i])
            put_braille(file, dots[i]);
        else
            fputc(mark[i] ? mark[i] : ' ', file);
    fputc('\n', file);
}

static void put_axis(FILE *file, const canvas *on, const ce_plot_range *range)
{
    char first[32], last[32];
    snprintf(first, sizeof first, "%.0f", range->left);
    snprintf(last, sizeof last, "%.0f", range->right);
    fprintf(file, "%*s%s", LABEL, "", on->unicode ? "\u2514" : "+");
    for (int i = 0; i < on->columns; i++)
        fputs(on->unicode ? "\u2500" : "-", file);
    int between = on->columns - (int)(strlen(first) + strlen(last));
    int before = (between - (int)strlen("step")) / 2;
    fprintf(file, "\n%*s%s", LABEL + 1, "", first);
    if (before > 0)
        fprintf(file, "%*sstep%*s%s\n", before, "", between - before - (int)strlen("step"), "", last);
    else
        fprintf(file, " %s\n", last);
}

static int within(int value, int min, int max)
{
    return value < min ? min : value > max ? max : value;
}

void cs_plot_text(FILE *file, const cs_plot *plot, cs_plot_screen screen, int rows)
{
    screen.columns = within(screen.columns, MIN_COLUMNS, MAX_COLUMNS);
    canvas on = { .columns = screen.columns - LABEL - 1,
                  .rows = within(rows - 2 - put_legend(NULL, plot, screen), MIN_ROWS, MAX_ROWS),
                  .unicode = screen.unicode };
    unsigned char dots[MAX_COLUMNS * MAX_ROWS] = { 0 };
    char mark[MAX_COLUMNS * MAX_ROWS] = { 0 };
    cs_plot_point kept[2 * DOTS_X * MAX_COLUMNS];
    ce_plot_range range = ce_plot_range_of(plot);
    on.dots = dots;
    on.mark = mark;
    for (int c = 0; c < plot->count; c++)
        draw_curve(&on, &plot->curves[c], c, &range, kept);
    put_legend(file, plot, screen);
    for (int row = 0; row < on.rows; row++)
        put_row(file, &on, row, &range);
    put_axis(file, &on, &range);
}
