/* pages.h - the pages of docs/, which the build puts into the command (pages.cmake). */
#ifndef CL_PAGES_H
#define CL_PAGES_H

typedef struct {
    const char *name, *text; /* "checkpoints", and the Markdown of docs/checkpoints.md */
} cl_page;

extern const cl_page cl_pages[]; /* in the order of their names; the last one has the name NULL */

#endif
