/* driver.c - a substitute for the CUDA driver's library on machines without a GPU. cuDNN compiles kernels and passes
 * them to this library, which returns success and does nothing with the kernels. */

#define EXPORT __attribute__((visibility("default")))

enum { NO_GPU = 34, NOT_THERE = 500 }; /* the error codes that the toolkit's stub library returns */

/* Functions that cuDNN looks up but never calls, or that only need to return success. */
/* clang-format off */
#define NAMES(X)                                                                                                       \
    X(cuLaunchKernel) X(cuLaunchKernelEx) X(cuLaunchCooperativeKernel) X(cuLinkCreate) X(cuLinkCreate_v2)              \
    X(cuLinkAddData) X(cuLinkAddData_v2) X(cuLinkAddFile_v2) X(cuLinkComplete) X(cuLinkDestroy) X(cuGetErrorString)    \
    X(cuGetErrorName) X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetAttribute) X(cuDevicePrimaryCtxRetain)           \
    X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxReset) X(cuCtxPushCurrent) X(cuCtxPopCurrent) X(cuCtxGetLimit)    \
    X(cuCtxGetCurrent) X(cuCtxGetDevice) X(cuStreamGetCtx) X(cuStreamSynchronize) X(cuLibraryUnload)                   \
    X(cuLibraryLoadFromFile) X(cuKernelSetAttribute) X(cuKernelGetAttribute) X(cuTensorMapEncodeTiled)                 \
    X(cuOccupancyMaxPotentialClusterSize) X(cuOccupancyMaxActiveBlocksPerMultiprocessor) X(cuModuleLoadData)           \
    X(cuModuleLoadDataEx) X(cuModuleLoadFatBinary) X(cuModuleUnload) X(cuModuleGetFunction) X(cuModuleGetGlobal_v2)    \
    X(cuMemcpyDtoH_v2) X(cuFuncSetAttribute) X(cuFuncGetAttribute)
/* clang-format on */

#define SUCCEED(name)                                                                                                  \
    EXPORT int name(void);                                                                                             \
    int name(void)                                                                                                     \
    {                                                                                                                  \
        return 0;                                                                                                      \
    }
NAMES(SUCCEED)

EXPORT int cuInit(unsigned flags);
EXPORT int cuDriverGetVersion(int *version);
EXPORT int cuLibraryLoadData(void **library, const void *code);
EXPORT int cuLibraryGetKernel(void **kernel, void *library, const char *name);
EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long flags, int *status);

int cuInit(unsigned flags)
{
    (void)flags;
    return NO_GPU;
}

int cuDriverGetVersion(int *version)
{
    *version = 13000;
    return 0;
}

int cuLibraryLoadData(void **library, const void *code)
{
    (void)code;
    *library = library;
    return 0;
}

int cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
    (void)library;
    (void)name;
    *kernel = kernel;
    return 0;
}

int cuGetProcAddress_v2(const char *name, void **function, int version, unsigned long flags, int *status)
{
    (void)name;
    (void)version;
    (void)flags;
    *function = 0;
    *status = 1;
    return NOT_THERE;
}
