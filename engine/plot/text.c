/* text.c - draws a diagram as lines of text, for a terminal.
 *
 * If the locale is UTF-8, the first curve is drawn in Braille characters, each of which has 2 x 4 dots. Other curves
 * are drawn with one ASCII character each. In other locales all curves are drawn with ASCII characters. */
#include "plot/view.h"
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

static int within(int value, int min, int max)
{
    return value < min ? min : value > max ? max : value;
}

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

/* Writes the title and, for each curve, its character, its name and its last value. Returns the number of lines. */
static int put_legend(FILE *file, const cs_plot *plot, cs_plot_screen screen)
{
    int lines = 1, used = width_of(plot->title);
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
        fputs(wraps ? "\n    " : "    ", file);
        if (c == 0 && screen.unicode)
            put_braille(file, 0xFF);
        else
            fputc(marks[c % (int)strlen(marks)], file);
        fprintf(file, " %s %s", curve->name, value);
    }
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

static void draw_curve(canvas *on, const cs_plot *plot, int number, const ce_plot_view *view, cs_plot_point *kept)
{
    const cs_plot_curve *curve = &plot->curves[number];
    int wide = on->columns * (on->unicode ? DOTS_X : 1), high = on->rows * (on->unicode ? DOTS_Y : 1);
    int count = ce_plot_thin(curve, view, wide, ce_plot_smooth(plot, curve), kept), x = 0, y = 0;
    for (int i = 0; i < count; i++) {
        int to_x = (int)lround(ce_plot_share(&view->x, kept[i].x) * (wide - 1));
        int to_y = (int)lround((1 - ce_plot_share(&view->y, kept[i].y)) * (high - 1));
        int across = i == 0 ? 0 : to_x - x, down = i == 0 ? 0 : to_y - y;
        int dots = across > abs(down) ? across : abs(down);
        for (int dot = 0; dot <= dots; dot++)
            set_dot(on, number, to_x - (dots ? across * dot / dots : 0), to_y - (dots ? down * dot / dots : 0));
        x = to_x;
        y = to_y;
    }
}

/* ---- the frame ---- */

/* `label` is the tick of the vertical axis in this row, or "". */
static void put_row(FILE *file, const canvas *on, int row, const char *label)
{
    int last = on->columns;
    fprintf(file, "%*s %s", LABEL - 1, label, on->unicode ? "\u2502" : "|");
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

static void put_rows(FILE *file, const canvas *on, const ce_plot_axis *axis)
{
    ce_plot_tick ticks[CE_PLOT_TICKS];
    int count = ce_plot_ticks(axis, within(on->rows * 2 / 3, 6, CE_PLOT_TICKS), false, ticks);
    for (int row = 0; row < on->rows; row++) {
        const char *label = "";
        for (int i = 0; i < count; i++)
            if (lround((1 - ce_plot_share(axis, ticks[i].value)) * (on->rows - 1)) == row)
                label = ticks[i].label;
        put_row(file, on, row, label);
    }
}

static void put_axis(FILE *file, const canvas *on, const ce_plot_axis *axis, const char *title)
{
    ce_plot_tick ticks[CE_PLOT_TICKS];
    int count = ce_plot_ticks(axis, within(on->columns / 10, 3, CE_PLOT_TICKS), true, ticks), used = 0;
    fprintf(file, "%*s%s", LABEL, "", on->unicode ? "\u2514" : "+");
    for (int i = 0; i < on->columns; i++)
        fputs(on->unicode ? "\u2500" : "-", file);
    fprintf(file, "\n%*s ", LABEL, title);
    for (int i = 0; i < count; i++) {
        int width = (int)strlen(ticks[i].label),
            middle = (int)(ce_plot_share(axis, ticks[i].value) * (on->columns - 1));
        int before = within(middle - width / 2, 0, on->columns - width) - used;
        if (before > 0 || used == 0) /* there is a space between two labels */
            used += fprintf(file, "%*s%s", before, "", ticks[i].label);
    }
    fputc('\n', file);
}

void cs_plot_text(FILE *file, const cs_plot *plot, cs_plot_screen screen, int rows)
{
    screen.columns = within(screen.columns, MIN_COLUMNS, MAX_COLUMNS);
    ce_plot_view view = ce_plot_view_of(plot);
    canvas on = { .columns = screen.columns - LABEL - 1,
                  .rows = within(rows - 2 - view.note_count - put_legend(file, plot, screen), MIN_ROWS, MAX_ROWS),
                  .unicode = screen.unicode };
    unsigned char dots[MAX_COLUMNS * MAX_ROWS] = { 0 };
    char mark[MAX_COLUMNS * MAX_ROWS] = { 0 };
    cs_plot_point kept[2 * DOTS_X * MAX_COLUMNS];
    on.dots = dots;
    on.mark = mark;
    for (int c = 0; c < plot->count; c++)
        draw_curve(&on, plot, c, &view, kept);
    put_rows(file, &on, &view.y);
    put_axis(file, &on, &view.x, view.x_title);
    for (int i = 0; i < view.note_count; i++)
        fprintf(file, "%s\n", view.notes[i]);
}
