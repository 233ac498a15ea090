/* markdown_inline.h - the text inside a paragraph, an item or a cell: conversion from Markdown, widths, and lines.
 *
 * Converted text is UTF-8 with one space between words. Strong text stands between control characters of no width. */
#ifndef CL_MARKDOWN_INLINE_H
#define CL_MARKDOWN_INLINE_H

#include "show/markdown.h"

/* Converts `length` bytes of Markdown. The result is malloc'ed; NULL if memory is short. */
char *cl_markdown_inline_convert(const char *markdown, size_t length);

/* Columns of the text in a terminal: 2 for a wide character (Chinese, Japanese, Korean). `end` NULL: up to the NUL. */
int cl_markdown_inline_width(const char *text, const char *end);
int cl_markdown_inline_longest(const char *text); /* columns of the widest word */

/* Returns the end of the words at the beginning of `text` that fit into `width` columns; a word that is wider is
 * divided. */
const char *cl_markdown_inline_fit(const char *text, int width);

/* Prints [text, end), and then spaces up to `width` columns. Returns where the next line begins. */
const char *cl_markdown_inline_put(const cl_markdown *out, const char *text, const char *end, int width);

/* Prints the whole text in lines. The first line continues a line on which `indent` columns are already printed; the
 * other lines are indented by `indent` columns. */
void cl_markdown_inline_flow(const cl_markdown *out, const char *text, int indent);

#endif
