/* module.c - opens libcspeed_cuda.so, or returns a message that says why this is not possible. */
#include "device/module.h"
#include "base/library.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define NAME "libcspeed_cuda.so"
#define VARIABLE "CSPEED_CUDA_MODULE"

bool ce_module_has_driver(void)
{
    if (getenv(VARIABLE))
        return true;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (driver)
        dlclose(driver);
    return driver != NULL;
}

cs_status ce_module_open(const ce_module **module)
{
    ce_library library;
    *module = NULL;
    ce_library_open(&library, NAME, VARIABLE);
    if (!library.handle)
        return ce_fail(CS_NO_DEVICE,
                       "device \"cuda\": " NAME " cannot be opened: %s. Build with the CUDA toolkit (nvcc) "
                       "found by cmake, or use \"cpu\"",
                       library.why);
    const ce_module *found = dlsym(library.handle, "ce_module_cuda");
    if (!found)
        return ce_fail(CS_NO_DEVICE, "device \"cuda\": %s is not a module of this program: %s", library.path,
                       dlerror());
    if (found->edition != CE_MODULE_EDITION || strcmp(found->release, CS_VERSION) != 0)
        return ce_fail(CS_NO_DEVICE,
                       "device \"cuda\": %s was built with another version of this program; build both again",
                       library.path);
    *module = found;
    return CS_OK;
}
