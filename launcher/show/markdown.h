/* markdown.h - prints a page of Markdown as text: wrapped to a width, with tables in columns.
 *
 * The pages of docs/ use this part of Markdown: headings, paragraphs, lists, tables, fenced code,
 * comments, links, **strong** text and `code`. A link to another page becomes the command that prints that page. */
#ifndef CL_MARKDOWN_H
#define CL_MARKDOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct {
    FILE *file;
    int columns; /* the width of the text in columns; at least 20 */
    bool styled; /* true: headings and strong text are printed bold, by escape sequences */
} cl_markdown;

void cl_markdown_print(const cl_markdown *out, const char *page);

/* Prints the table that begins at `text`. Returns the position behind the table. */
const char *cl_markdown_table(const cl_markdown *out, const char *text);

#endif
