/* cudnn_library.c - loads cuDNN at run time by dlopen; cspeed works without it. */
#include "base/library.h"
#include "base/status.h"
#include "device/cuda/cudnn.h"

#include <stdlib.h>

/* Versions older than OLDEST compute wrong attention in some cases. The versions 9.10.0 and 9.10.1 are wrong in
 * backward. Earlier versions are wrong because of the number that they use as minus infinity. */
enum { OLDEST = 91002 };

/* Stores the address of the function `name` of the library. If the library does not have the function, sets *missing to
 * its name. */
static void find(void *library, const char *name, void *function, const char **missing)
{
    if (!ce_library_find(library, name, function))
        *missing = name;
}

static const char *find_all(ce_cudnn_library *to)
{
    const char *missing = NULL;
    find(to->library, "cudnnGetVersion", &to->version, &missing);
    find(to->library, "cudnnGetErrorString", &to->describe, &missing);
    find(to->library, "cudnnCreate", &to->open, &missing);
    find(to->library, "cudnnDestroy", &to->close, &missing);
    find(to->library, "cudnnSetStream", &to->set_stream, &missing);
    find(to->library, "cudnnBackendCreateDescriptor", &to->create, &missing);
    find(to->library, "cudnnBackendDestroyDescriptor", &to->destroy, &missing);
    find(to->library, "cudnnBackendFinalize", &to->finalize, &missing);
    find(to->library, "cudnnBackendSetAttribute", &to->set, &missing);
    find(to->library, "cudnnBackendGetAttribute", &to->get, &missing);
    find(to->library, "cudnnBackendExecute", &to->execute, &missing);
    return missing;
}

cs_status ce_cudnn_library_open(ce_cudnn_library *library)
{
    const char *given = getenv("CSPEED_CUDNN"), *name = given ? given : CE_CUDNN_LIBRARY;
    *library = (ce_cudnn_library){ .library = dlopen(name, RTLD_LAZY | RTLD_LOCAL) };
    if (!library->library)
        return ce_fail(CS_NO_DEVICE, "cuDNN: %s", dlerror());
    const char *missing = find_all(library);
    if (missing)
        return ce_fail(CS_UNSUPPORTED, "cuDNN: %s has no %s", name, missing);
    size_t version = library->version();
    if (version < OLDEST)
        return ce_fail(CS_UNSUPPORTED, "cuDNN: %s is version %zu.%zu.%zu, and 9.10.2 is needed", name, version / 10000,
                       version / 100 % 100, version % 100);
    return CS_OK;
}
