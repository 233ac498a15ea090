/* pages.h - the pages of docs/. The build (pages.cmake) puts their text into the executable file of cspeed. */
#ifndef CL_PAGES_H
#define CL_PAGES_H

typedef struct {
    const char *name, *text; /* for example "checkpoints", and the Markdown text of docs/checkpoints.md */
} cl_page;

extern const cl_page cl_pages[]; /* the pages in the order of their names; the name of the last entry is NULL */

#endif
