/* library.h - opens a shared library that is a part of this program but is loaded only when it is needed. */
#ifndef CE_BASE_LIBRARY_H
#define CE_BASE_LIBRARY_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

typedef struct {
    void *handle;    /* the handle from dlopen; NULL if the library could not be opened */
    char path[4096]; /* the path of the library that was opened */
    /* Why the library could not be opened: the dynamic loader's message about the first file that exists, or, if no
     * file exists, about the name without a folder. */
    char why[4096];
} ce_library;

/* Opens the library `name`. If the environment variable `variable` is set, it gives the path. Otherwise the library is
 * searched beside the program, beside libcspeed.so, in the library folder of the installed tree that the program is in,
 * and by the system's dynamic loader. Symbols are resolved at their first use, because not every program has all
 * functions that a library calls. */
void ce_library_open(ce_library *library, const char *name, const char *variable);

/* Stores the address of the function `name` of a library opened by dlopen in the function pointer at `function`. Returns
 * false, and stores NULL, if the library does not have it. POSIX guarantees that dlsym's result can be converted to a
 * function pointer. */
static inline bool ce_library_find(void *handle, const char *name, void *function)
{
    void *symbol = dlsym(handle, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

#endif
