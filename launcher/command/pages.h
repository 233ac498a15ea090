/* pages.h - the pages of docs/. The build (pages.cmake) puts their text into the executable file of cspeed. */
#ifndef CL_PAGES_H
#define CL_PAGES_H

typedef struct {
    /* name and text of a page: for example "checkpoints", and the Markdown of docs/checkpoints.md */
    const char *name, *text;
} cl_page;

extern const cl_page cl_pages[]; /* the pages in the order of their names; the name of the last entry is NULL */

#endif
