/* markdown_inline.h - the text inside a paragraph, a list item or a table cell: conversion from Markdown, widths, and
 * lines.
 *
 * Converted text is UTF-8 with one space between words. Strong text stands between control characters of no width. */
#ifndef CL_MARKDOWN_INLINE_H
#define CL_MARKDOWN_INLINE_H

#include "show/markdown.h"

/* Converts `length` bytes of Markdown. The result is malloc'ed; it is NULL if memory is short. */
char *cl_markdown_inline_convert(const char *markdown, size_t length);

/* Returns the terminal columns of the text: 2 for a wide character (Chinese, Japanese, Korean). If `end` is NULL, the
 * text ends at the NUL. */
int cl_markdown_inline_width(const char *text, const char *end);
int cl_markdown_inline_longest(const char *text); /* returns the number of columns of the widest word */

/* Returns the end of the text that fits into `width` columns without dividing a word. If the first word is wider than
 * that, it is divided. */
const char *cl_markdown_inline_fit(const char *text, int width);

/* Prints the text [text, end), and then spaces until `width` columns are filled. Returns the position where the next
 * line begins. */
const char *cl_markdown_inline_put(const cl_markdown *out, const char *text, const char *end, int width);

/* Prints the whole text in lines. The first line begins after `indent` columns that are already printed; the other
 * lines are indented by `indent` columns. */
void cl_markdown_inline_flow(const cl_markdown *out, const char *text, int indent);

#endif
