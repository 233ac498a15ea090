/* markdown.h - prints a page of Markdown as text: wrapped to a width, with tables in columns.
 *
 * The pages of docs/ use this part of Markdown: headings, paragraphs, lists, tables, fenced and indented code,
 * comments, links, **strong** text and `code`. Links to another page become the command that prints it. */
#ifndef CL_MARKDOWN_H
#define CL_MARKDOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct {
    FILE *file;
    int columns; /* the width; at least 20 */
    bool styled; /* headings and strong text are bold, by escape sequences */
} cl_markdown;

void cl_markdown_print(const cl_markdown *out, const char *page);

/* Prints the table that begins at `text`, and returns the position behind the table. */
const char *cl_markdown_table(const cl_markdown *out, const char *text);

#endif
