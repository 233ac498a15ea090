/* module.c - opens libcspeed_cuda.so, or returns a message that says why this is not possible. */
#include "device/module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME "libcspeed_cuda.so"

enum { FOLDER_BYTES = 3072 };

bool ce_module_has_driver(void)
{
    if (getenv("CSPEED_CUDA_MODULE"))
        return true;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver)
        dlclose(driver);
    return driver != NULL;
}

/* Cuts the last part of a path off. */
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

/* The folder of the file that contains this function: libcspeed.so, or a program into which it is linked. */
static void find_library_folder(char folder[FOLDER_BYTES])
{
    static const char inside;
    Dl_info self;
    folder[0] = 0;
    if (dladdr(&inside, &self) && self.dli_fname && strchr(self.dli_fname, '/'))
        snprintf(folder, FOLDER_BYTES, "%s", self.dli_fname);
    make_folder(folder);
}

/* Writes candidate path number n. Returns false if there are no more. */
static bool place(int n, char *path, size_t room)
{
    char folder[FOLDER_BYTES];
    const char *given = getenv("CSPEED_CUDA_MODULE");
    if (given)
        return snprintf(path, room, "%s", given) > 0 && n == 0;
    if (n == 1)
        find_library_folder(folder);
    else
        find_program_folder(folder);
    switch (n) {
    case 0:
    case 1:
        return snprintf(path, room, "%s/" NAME, folder) > 0;
    case 2:
        return snprintf(path, room, "%s/" CS_LIBRARIES_FROM_BIN "/" NAME, folder) > 0;
    case 3:
        return snprintf(path, room, "%s/" CS_LIBRARIES_FROM_PROGRAMS "/" NAME, folder) > 0;
    case 4:
        return snprintf(path, room, NAME) > 0;
    default:
        return false;
    }
}

static cs_status check(void *library, const char *path, const ce_module **module)
{
    const ce_module *found = dlsym(library, "ce_module_cuda");
    if (!found)
        return ce_fail(CS_NO_DEVICE, "device \"cuda\": %s is no module of this program: %s", path, dlerror());
    if (found->edition != CS_MODULE_EDITION || strcmp(found->release, CS_VERSION) != 0)
        return ce_fail(CS_NO_DEVICE, "device \"cuda\": %s belongs to another build of this program; build both again",
                       path);
    *module = found;
    return CS_OK;
}

cs_status ce_module_open(const ce_module **module)
{
    const ce_module *opened = NULL;
    char path[4096], why[4096] = "";
    for (int n = 0; !opened && place(n, path, sizeof path); n++) {
        bool exists = !strchr(path, '/') || access(path, F_OK) == 0;
        /* RTLD_LAZY, because not every program has all the functions that the module calls. */
        void *library = exists ? dlopen(path, RTLD_LAZY | RTLD_LOCAL) : NULL;
        if (library)
            CS_TRY(check(library, path, &opened));
        else if (exists)
            snprintf(why, sizeof why, "%s", dlerror());
    }
    *module = opened;
    if (opened)
        return CS_OK;
    return ce_fail(CS_NO_DEVICE,
                   "device \"cuda\": " NAME " cannot be opened: %s. Build with the CUDA toolkit (nvcc) "
                   "found by cmake, or use \"cpu\"",
                   why[0] ? why : "it is not there");
}
