/* library.h - opens a shared library that is a part of this program but is loaded only when it is needed. */
#ifndef CS_BASE_LIBRARY_H
#define CS_BASE_LIBRARY_H

#include <stddef.h>

typedef struct {
    void *handle;    /* of dlopen; NULL: no candidate could be opened */
    char path[4096]; /* of the library that was opened */
    char why[4096];  /* why none could be opened: what the system's loader says about the last one that exists */
} ce_library;

/* Opens the library `name`. The environment variable `variable` gives its path; otherwise it is searched beside the
 * program, beside libcspeed.so, in the library folder of the installed tree that the program is in, and by the system's
 * loader. Symbols are resolved at their first use, because not every program has all functions that a library calls. */
void ce_library_open(ce_library *library, const char *name, const char *variable);

#endif
