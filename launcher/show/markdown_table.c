/* markdown_table.c - prints a table: in columns if they fit into the width; otherwise each row is printed as a record.
 */
#include "show/markdown_inline.h"

#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 12, GAP = 2 };

typedef struct {
    char *cells[COLUMNS]; /* the converted cells; NULL after the last one */
} row;

typedef struct {
    row *rows; /* the rows of the table; the first row is the heading */
    int row_count, column_count;
    /* For each column, `widths` has the width of its widest cell, and `longest` has the width of its widest word. */
    int widths[COLUMNS], longest[COLUMNS];
} table;

/* Divides a line "| a | b |" into cells at its bars. "\|" is a bar inside a cell. */
static void split(row *made, const char *text, const char *end)
{
    char *cell = malloc((size_t)(end - text) + 1);
    int count = 0;
    for (text++; cell && text < end && count < COLUMNS; text++) {
        size_t length = 0;
        for (; text < end && *text != '|'; text++) {
            text += *text == '\\' && end - text > 1 && text[1] == '|';
            cell[length++] = *text;
        }
        if (text < end) /* the text after the last bar is not a cell */
            made->cells[count++] = cl_markdown_inline_convert(cell, length);
    }
    free(cell);
}

static void measure(table *made, const row *line)
{
    for (int i = 0; i < COLUMNS && line->cells[i]; i++) {
        int width = cl_markdown_inline_width(line->cells[i], NULL);
        int longest = cl_markdown_inline_longest(line->cells[i]);
        made->widths[i] = width > made->widths[i] ? width : made->widths[i];
        made->longest[i] = longest > made->longest[i] ? longest : made->longest[i];
        made->column_count = i + 1 > made->column_count ? i + 1 : made->column_count;
    }
}

/* Reads rows as long as lines begin with a bar. The second line, which separates the heading from the other rows, is
 * skipped. */
static const char *read_rows(table *made, const char *text)
{
    for (int line = 0; *text == '|'; line++) {
        const char *end = text + strcspn(text, "\n");
        row *grown = line == 1 ? NULL : realloc(made->rows, (size_t)(made->row_count + 1) * sizeof *grown);
        if (grown) {
            made->rows = grown;
            made->rows[made->row_count] = (row){ 0 };
            split(&made->rows[made->row_count], text, end);
            measure(made, &made->rows[made->row_count++]);
        }
        text = *end ? end + 1 : end;
    }
    return text;
}

/* Reduces the widths of the widest columns until all columns fit. Each column stays at least as wide as its widest
 * word. Returns false if the columns cannot fit. */
static bool fit(table *made, int columns)
{
    for (;;) {
        int used = GAP * (made->column_count - 1), widest = -1;
        for (int i = 0; i < made->column_count; i++) {
            used += made->widths[i];
            if (made->widths[i] > made->longest[i] && (widest < 0 || made->widths[i] > made->widths[widest]))
                widest = i;
        }
        if (used <= columns)
            return true;
        if (widest < 0)
            return false;
        made->widths[widest]--;
    }
}

static const char *cell_of(const row *line, int column)
{
    return line->cells[column] ? line->cells[column] : "";
}

static void print_row(const cl_markdown *out, const table *made, const row *line)
{
    const char *left[COLUMNS];
    for (int i = 0; i < made->column_count; i++)
        left[i] = cell_of(line, i);
    for (bool more = true; more;) {
        int last = made->column_count - 1; /* index of the last cell that still has text for this line */
        while (last > 0 && !*left[last])
            last--;
        more = false;
        for (int i = 0; i <= last; i++) {
            const char *end = cl_markdown_inline_fit(left[i], made->widths[i]);
            left[i] = cl_markdown_inline_put(out, left[i], end, i == last ? 0 : made->widths[i] + GAP);
            more |= *left[i] != 0;
        }
        fputc('\n', out->file);
    }
}

static void print_columns(const cl_markdown *out, const table *made)
{
    bool named = false, spaced = false;
    for (int i = 0; i < made->column_count; i++)
        named |= *cell_of(&made->rows[0], i) != 0;
    for (int i = 1; i < made->row_count; i++)
        for (int column = 0; column < made->column_count; column++)
            spaced |= cl_markdown_inline_width(cell_of(&made->rows[i], column), NULL) > made->widths[column];
    for (int i = named ? 0 : 1; i < made->row_count; i++) {
        print_row(out, made, &made->rows[i]);
        for (int column = 0; i == 0 && column < made->column_count; column++) {
            for (int dash = 0; dash < made->widths[column]; dash++)
                fputc('-', out->file);
            fprintf(out->file, column + 1 < made->column_count ? "%*s" : "\n", GAP, "");
        }
        if (i > 0 && spaced && i + 1 < made->row_count)
            fputc('\n', out->file);
    }
}

/* Prints each row as a record. The first line of a record is the row's first cell. Each further line is one other cell,
 * after the name of the cell's column. */
static void print_records(const cl_markdown *out, const table *made)
{
    int names = 0;
    for (int column = 1; column < made->column_count; column++) {
        int width = cl_markdown_inline_width(cell_of(&made->rows[0], column), NULL);
        names = width > names ? width : names;
    }
    for (int i = 1; i < made->row_count; i++) {
        cl_markdown_inline_flow(out, cell_of(&made->rows[i], 0), 0);
        for (int column = 1; column < made->column_count; column++) {
            const char *name = cell_of(&made->rows[0], column);
            fprintf(out->file, "    ");
            cl_markdown_inline_put(out, name, name + strlen(name), names + GAP);
            cl_markdown_inline_flow(out, cell_of(&made->rows[i], column), 4 + names + GAP);
        }
        if (i + 1 < made->row_count)
            fputc('\n', out->file);
    }
}

const char *cl_markdown_table(const cl_markdown *out, const char *text)
{
    table made = { 0 };
    text = read_rows(&made, text);
    if (made.row_count > 0 && fit(&made, out->columns))
        print_columns(out, &made);
    else
        print_records(out, &made);
    for (int i = 0; i < made.row_count; i++)
        for (int column = 0; column < COLUMNS; column++)
            free(made.rows[i].cells[column]);
    free(made.rows);
    return text;
}
