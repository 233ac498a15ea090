/* library.c - opens a shared library that is a part of this program but is loaded only when it is needed. */
#include "base/library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FOLDER_BYTES = 3072 };

/* Removes the last component of a path. */
static void make_folder(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        *slash = 0;
}

static void find_program_folder(char folder[FOLDER_BYTES])
{
    ssize_t length = readlink("/proc/self/exe", folder, FOLDER_BYTES - 1);
    folder[length > 0 ? length : 0] = 0;
    make_folder(folder);
}

/* Finds the folder of the file that contains this function: libcspeed.so, or a program into which it is linked. */
static void find_library_folder(char folder[FOLDER_BYTES])
{
    static const char inside;
    Dl_info self;
    folder[0] = 0;
    if (dladdr(&inside, &self) && self.dli_fname && strchr(self.dli_fname, '/'))
        snprintf(folder, FOLDER_BYTES, "%s", self.dli_fname);
    make_folder(folder);
}

/* Writes the n-th path, counted from 0, at which the library may be. Returns false if there is no such path. */
static bool place(int n, const char *name, const char *given, char *path, size_t capacity)
{
    char folder[FOLDER_BYTES];
    if (given)
        return snprintf(path, capacity, "%s", given) > 0 && n == 0;
    if (n == 1)
        find_library_folder(folder);
    else
        find_program_folder(folder);
    switch (n) {
    case 0:
    case 1:
        return snprintf(path, capacity, "%s/%s", folder, name) > 0;
    case 2:
        return snprintf(path, capacity, "%s/" CE_LIBRARIES_FROM_BIN "/%s", folder, name) > 0;
    case 3:
        return snprintf(path, capacity, "%s/" CE_LIBRARIES_FROM_PROGRAMS "/%s", folder, name) > 0;
    case 4:
        return snprintf(path, capacity, "%s", name) > 0;
    default:
        return false;
    }
}

void ce_library_open(ce_library *library, const char *name, const char *variable)
{
    const char *given = getenv(variable);
    bool found = false;
    library->handle = NULL;
    snprintf(library->why, sizeof library->why, "the file does not exist");
    for (int n = 0; !library->handle && place(n, name, given, library->path, sizeof library->path); n++) {
        if (strchr(library->path, '/') && access(library->path, F_OK) != 0)
            continue;
        library->handle = dlopen(library->path, RTLD_LAZY | RTLD_LOCAL);
        const char *why = library->handle ? NULL : dlerror();
        /* The error of the first file that exists is kept. The last attempt uses the name without a folder, and its
         * error would only say that this name was not found. */
        if (why && !found)
            snprintf(library->why, sizeof library->why, "%s", why);
        found = found || strchr(library->path, '/');
    }
}
