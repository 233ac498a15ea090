/* markdown.c - prints a page of Markdown on a terminal, one block after the other. Paragraphs are wrapped to the width,
 * each row of a table is printed as a record, and headings are bold. */
#include "show/markdown.h"
#include "show/wrap.h"

#include <string.h>

static const char *next_line(const char *text)
{
    text += strcspn(text, "\n");
    return *text ? text + 1 : text;
}

static bool is_blank(const char *text)
{
    return text[strspn(text, " \t")] == '\n' || text[strspn(text, " \t")] == 0;
}

static bool begins(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* Returns the number of bytes of the list marker ("- " or "12. ") at the beginning of the line, with the spaces before
 * it; 0: no list item begins there. */
static int item_sign(const char *text)
{
    int before = (int)strspn(text, " "), digits = (int)strspn(text + before, "0123456789");
    if (digits > 0 && begins(text + before + digits, ". "))
        return before + digits + 2;
    return begins(text + before, "- ") || begins(text + before, "* ") ? before + 2 : 0;
}

static bool begins_block(const char *text)
{
    return is_blank(text) || *text == '#' || *text == '|' || begins(text, "```") || begins(text, "<!--") ||
           item_sign(text) > 0;
}

static void flow(const cl_markdown *out, const char *text, size_t length, int used, int indent, bool strong)
{
    strong = strong && out->styled;
    fputs(strong ? "\033[1m" : "", out->file);
    cl_wrap_flow(out->file, text, length, out->columns, used, indent);
    fputs(strong ? "\033[0m" : "", out->file);
}

/* Prints one line, indented, and returns the next line. */
static const char *print_line(const cl_markdown *out, const char *text, int indent, bool strong)
{
    strong = strong && out->styled;
    fprintf(out->file, "%*s%s%.*s%s\n", indent, "", strong ? "\033[1m" : "", (int)strcspn(text, "\n"), text,
            strong ? "\033[0m" : "");
    return next_line(text);
}

static const char *print_fenced(const cl_markdown *out, const char *text)
{
    for (text = next_line(text); *text && !begins(text, "```");)
        text = print_line(out, text, 4, begins(text, "$ "));
    return next_line(text);
}

/* Prints a paragraph or an item of a list, whose marker has `sign` bytes. */
static const char *print_paragraph(const cl_markdown *out, const char *text, int sign)
{
    const char *begin = text + sign;
    do
        text = next_line(text);
    while (*text && !begins_block(text));
    fprintf(out->file, "%.*s", sign, begin - sign);
    flow(out, begin, (size_t)(text - begin), sign, sign, false);
    return text;
}

/* Finds the next cell of a row. *row is at the bar before the cell, and is moved to the bar behind it. Returns false at
 * the end of the row. */
static bool next_cell(const char **row, const char **cell, int *length)
{
    const char *end = *row + 1;
    *cell = end + strspn(end, " ");
    while (*end && *end != '\n' && *end != '|')
        end += *end == '\\' && end[1] ? 2 : 1;
    if (*end != '|')
        return false;
    *row = end;
    while (end > *cell && end[-1] == ' ')
        end--;
    *length = end > *cell ? (int)(end - *cell) : 0;
    return true;
}

/* Prints a row of a table: its first cell, then a line for each further cell with the name of its column. */
static void print_record(const cl_markdown *out, const char *head, const char *row)
{
    const char *name, *cell;
    int name_length, length;
    for (int column = 0; next_cell(&head, &name, &name_length) && next_cell(&row, &cell, &length); column++) {
        int used = column == 0 ? 0 : 4;
        if (length == 0)
            continue;
        fprintf(out->file, "%*s", used, "");
        if (column > 0 && name_length > 0) {
            fprintf(out->file, "%.*s: ", name_length, name);
            used += name_length + 2;
        }
        flow(out, cell, (size_t)length, used, column == 0 ? 4 : 8, column == 0);
    }
}

static const char *print_table(const cl_markdown *out, const char *text)
{
    const char *head = text;
    for (text = next_line(next_line(text)); *text == '|'; text = next_line(text))
        print_record(out, head, text);
    return text;
}

static const char *print_block(const cl_markdown *out, const char *text)
{
    if (*text == '#') {
        flow(out, text, strcspn(text, "\n"), 0, 2, true);
        return next_line(text);
    }
    if (*text == '|')
        return print_table(out, text);
    if (begins(text, "```"))
        return print_fenced(out, text);
    return begins(text, "    ") && item_sign(text) == 0 ? print_line(out, text, 0, false)
                                                        : print_paragraph(out, text, item_sign(text));
}

void cl_markdown_print(const cl_markdown *out, const char *page)
{
    /* true: no empty line is printed now, so that two blocks are never separated by more than one empty line */
    bool blank = true;
    while (*page) {
        const char *hidden = begins(page, "<!--") ? strstr(page, "-->") : begins(page, "![") ? page : NULL;
        if (hidden) { /* a comment or a picture */
            page = next_line(hidden);
        } else if (is_blank(page)) {
            if (!blank)
                fputc('\n', out->file);
            blank = true;
            page = next_line(page);
        } else {
            page = print_block(out, page);
            blank = false;
        }
    }
}
