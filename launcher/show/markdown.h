/* markdown.h - prints a page of Markdown on a terminal.
 *
 * Links, **strong** text and `code` are printed as they are in the page. Comments and pictures are left out. */
#ifndef CL_MARKDOWN_H
#define CL_MARKDOWN_H

#include <stdbool.h>
#include <stdio.h>

typedef struct {
    FILE *file;
    int columns; /* the width of the text in columns; at least 20 */
    bool styled; /* true: headings and commands are printed bold, by escape sequences */
} cl_markdown;

void cl_markdown_print(const cl_markdown *out, const char *page);

#endif
