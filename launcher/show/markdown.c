/* markdown.c - prints a page of Markdown as text, one block after the other. */
#include "show/markdown_inline.h"

#include <stdlib.h>
#include <string.h>

static const char *line_end(const char *text)
{
    return text + strcspn(text, "\n");
}

static const char *next_line(const char *text)
{
    text = line_end(text);
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

/* Returns the number of bytes of the list marker ("- " or "12. ") at the beginning of the line; 0: no list item begins
 * there. */
static int item_sign(const char *text)
{
    int digits = (int)strspn(text, "0123456789");
    if (digits > 0 && text[digits] == '.' && text[digits + 1] == ' ')
        return digits + 2;
    return begins(text, "- ") || begins(text, "* ") ? 2 : 0;
}

static bool begins_block(const char *text)
{
    return is_blank(text) || *text == '#' || *text == '|' || begins(text, "```") || begins(text, "<!--") ||
           item_sign(text + strspn(text, " ")) > 0;
}

static void print_text(const cl_markdown *out, const char *text, const char *end, int indent)
{
    char *converted = cl_markdown_inline_convert(text, (size_t)(end - text));
    if (converted)
        cl_markdown_inline_flow(out, converted, indent);
    free(converted);
}

static const char *print_heading(const cl_markdown *out, const char *text)
{
    int level = (int)strspn(text, "#"), length = (int)(line_end(text) - text) - level;
    char *strong = NULL, *title = NULL;
    if (asprintf(&strong, "**%.*s**", length, text + level) >= 0)
        title = cl_markdown_inline_convert(strong, strlen(strong));
    free(strong);
    if (!title)
        return next_line(text);
    cl_markdown_inline_flow(out, title, 0);
    int width = level > 2 || out->styled ? 0 : cl_markdown_inline_width(title, NULL);
    for (int i = 0; i < width && i < out->columns; i++)
        fputc(level == 1 ? '=' : '-', out->file);
    fputs(width ? "\n" : "", out->file);
    free(title);
    return next_line(text);
}

/* Prints the lines of a fenced code block, indented. A command line (after "$ ") is bold. */
static const char *print_fenced(const cl_markdown *out, const char *text)
{
    for (text = next_line(text); *text && !begins(text, "```"); text = next_line(text)) {
        bool command = out->styled && begins(text, "$ ");
        fprintf(out->file, "    %s%.*s%s\n", command ? "\033[1m" : "", (int)(line_end(text) - text), text,
                command ? "\033[0m" : "");
    }
    return next_line(text);
}

static const char *print_paragraph(const cl_markdown *out, const char *text, int indent)
{
    const char *begin = text;
    do
        text = next_line(text);
    while (*text && !begins_block(text));
    print_text(out, begin, text, indent);
    return text;
}

static const char *print_item(const cl_markdown *out, const char *text)
{
    int before = (int)strspn(text, " "), sign = item_sign(text + before);
    fprintf(out->file, "%.*s", before + sign, text);
    return print_paragraph(out, text + before + sign, before + sign);
}

static const char *print_block(const cl_markdown *out, const char *text)
{
    if (*text == '#')
        return print_heading(out, text);
    if (*text == '|')
        return cl_markdown_table(out, text);
    if (begins(text, "```"))
        return print_fenced(out, text);
    if (item_sign(text + strspn(text, " ")) > 0)
        return print_item(out, text);
    return print_paragraph(out, text, 0);
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
