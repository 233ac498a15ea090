/* report.c - a report on this machine's GPUs, driver and libraries, one fact per line (for `cspeed report`). */
#include "device/cuda/open.h"

#include <cublasLt.h>
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the version of the kernel driver: the first word of digits and dots in the first line of its /proc file. */
const char *ce_cuda_driver(char *text, size_t capacity)
{
    char line[256] = "";
    int version = 0;
    FILE *file = fopen("/proc/driver/nvidia/version", "re");
    if (file && !fgets(line, sizeof line, file))
        line[0] = '\0';
    if (file)
        fclose(file);
    for (char *rest, *word = strtok_r(line, " \t\n", &rest); word; word = strtok_r(NULL, " \t\n", &rest))
        if (isdigit((unsigned char)*word) && strchr(word, '.') && word[strspn(word, "0123456789.")] == '\0') {
            snprintf(text, capacity, "driver %s", word);
            return text;
        }
    (void)cudaDriverGetVersion(&version);
    snprintf(text, capacity, "%s", version ? "driver of unknown version" : "no driver");
    return text;
}

/* ---- libraries ---- */

typedef void (*any_function)(void);

/* Returns the address of a function of a library, which is loaded if necessary. Returns NULL if the library or the
 * function does not exist. POSIX guarantees that dlsym's result can be converted to a function pointer. */
static any_function find(const char *library, const char *name)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
    void *symbol = handle ? dlsym(handle, name) : NULL;
    any_function function;
    memcpy(&function, &symbol, sizeof function);
    return function;
}

static void print_libraries(FILE *out)
{
    int runtime = 0, driver = 0, nccl = 0;
    size_t products = cublasLtGetVersion();
    char text[64];
    const char *given = getenv("CSPEED_CUDNN");
    any_function found = find(given ? given : CE_CUDNN_LIBRARY, "cudnnGetVersion");
    size_t dnn = found ? ((size_t(*)(void))found)() : 0;
    (void)cudaRuntimeGetVersion(&runtime);
    (void)cudaDriverGetVersion(&driver);
    fprintf(out, "module built with\t%s\n", CE_CUDA_BUILT);
    fprintf(out, "CUDA runtime\t%d.%d\n", runtime / 1000, runtime % 1000 / 10);
    if (driver)
        fprintf(out, "CUDA driver\t%s, for CUDA up to %d.%d\n", ce_cuda_driver(text, sizeof text), driver / 1000,
                driver % 1000 / 10);
    else
        fprintf(out, "CUDA driver\tabsent\n");
    fprintf(out, "cuBLASLt\t%zu.%zu.%zu, built with %d.%d.%d\n", products / 10000, products / 100 % 100, products % 100,
            CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH);
    found = find("libnccl.so.2", "ncclGetVersion");
    if (found && ((int (*)(int *))found)(&nccl) == 0)
        fprintf(out, "NCCL\t%d.%d.%d\n", nccl / 10000, nccl / 100 % 100, nccl % 100);
    else
        fprintf(out, "NCCL\tabsent\n");
    if (dnn)
        fprintf(out, "cuDNN\t%zu.%zu.%zu%s\n", dnn / 10000, dnn / 100 % 100, dnn % 100,
                ce_cudnn_attention ? "" : ", not used: built without its header");
    else
        fprintf(out, "cuDNN\tabsent: attention uses the module's own kernels\n");
}

/* ---- GPUs ---- */

/* Returns an attribute of a GPU, or -1 if it is not available. */
static int attribute(int number, enum cudaDeviceAttr which)
{
    int value = -1;
    return cudaDeviceGetAttribute(&value, which, number) == cudaSuccess ? value : -1;
}

static void print_memory(FILE *out, int number, size_t total)
{
    size_t unused = 0, whole = 0;
    cudaError_t error = cudaSetDevice(number);
    if (error == cudaSuccess)
        error = cudaMemGetInfo(&unused, &whole);
    if (error == cudaSuccess)
        fprintf(out, "%.1f GiB (%.1f free)", (double)total / (1 << 30), (double)unused / (1 << 30));
    else
        fprintf(out, "%.1f GiB (free: %s)", (double)total / (1 << 30), cudaGetErrorString(error));
}

static void print_gpu(FILE *out, int number)
{
    struct cudaDeviceProp properties;
    char bus[32] = "not told";
    cudaError_t error = cudaGetDeviceProperties(&properties, number);
    if (error != cudaSuccess) {
        fprintf(out, "device %d\t%s\n", number, cudaGetErrorString(error));
        return;
    }
    (void)cudaDeviceGetPCIBusId(bus, sizeof bus, number);
    fprintf(out, "device %d\t%s, compute capability %d.%d%s, ", number, properties.name, properties.major,
            properties.minor, properties.major < 8 ? " (8.0 is needed)" : "");
    print_memory(out, number, properties.totalGlobalMem);
    int clock = attribute(number, cudaDevAttrClockRate), ecc = attribute(number, cudaDevAttrEccEnabled);
    fprintf(out, ", %d multiprocessors, %d MHz, L2 %d MiB, PCIe %s, ECC %s\n",
            attribute(number, cudaDevAttrMultiProcessorCount), clock > 0 ? clock / 1000 : -1,
            attribute(number, cudaDevAttrL2CacheSize) >> 20, bus,
            ecc < 0 ? "not told"
            : ecc   ? "on"
                    : "off");
}

static int between(int from, int to, enum cudaDeviceP2PAttr which)
{
    int value = 0;
    return cudaDeviceGetP2PAttribute(&value, which, from, to) == cudaSuccess ? value : 0;
}

/* If a GPU supports native atomic operations on another GPU's memory, their link is NVLink: PCIe offers only loads and
 * stores. */
static void print_peers(FILE *out, int from, int count)
{
    fprintf(out, "device %d to others\t", from);
    for (int to = 0; to < count; to++) {
        int access = 0;
        if (to == from)
            continue;
        (void)cudaDeviceCanAccessPeer(&access, from, to);
        fprintf(out, "%s%d: %s (rank %d)", to > (from == 0) ? ", " : "", to,
                !access                                                  ? "through the host"
                : between(from, to, cudaDevP2PAttrNativeAtomicSupported) ? "direct, with atomics (NVLink)"
                                                                         : "direct",
                between(from, to, cudaDevP2PAttrPerformanceRank));
    }
    fprintf(out, "\n");
}

char *ce_cuda_report(void)
{
    char *text = NULL;
    size_t size = 0;
    int count;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    print_libraries(out);
    if (ce_cuda_count(&count) != CS_OK)
        fprintf(out, "devices\tnone: %s\n", cs_error());
    for (int i = 0; i < count; i++)
        print_gpu(out, i);
    for (int i = 0; count > 1 && i < count; i++)
        print_peers(out, i, count);
    fclose(out);
    return text;
}
