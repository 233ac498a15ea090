/* near.c - comparing tensors with a tolerance, and the device on which operations are tested. */
#include "near.h"
#include "reference.h"

#include <math.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/half.h"
#include "base/must.h"
#include "plan/gpus.h"

enum { GUARD = 64, MARK = 0x5a, BLOCKS = 256 };

/* A block of memory that near_new allocated. */
typedef struct {
    char *memory;
    size_t bytes; /* size of `memory` with its guard bytes, which are the last bytes */
} block;

/* The copy of a block on the device. */
typedef struct {
    block here;
    char *there;
    /* lasts: near_new allocated `here`; fresh: `here` was copied to the device after the last fetch */
    bool lasts, fresh;
} twin;

static block blocks[BLOCKS];
static twin twins[BLOCKS];
static int block_count, twin_count;
static cs_device *device;

double near_element(cs_tensor x, int64_t index)
{
    switch (x.dtype) {
    case CS_F32:
        return (double)((const float *)x.data)[index];
    case CS_BF16:
        return (double)ce_bf16_to_float(((const uint16_t *)x.data)[index]);
    case CS_F16:
        return (double)ce_f16_to_float(((const uint16_t *)x.data)[index]);
    default:
        abort();
    }
}

void near_set(cs_tensor x, int64_t index, double value)
{
    switch (x.dtype) {
    case CS_F32:
        ((float *)x.data)[index] = (float)value;
        return;
    case CS_BF16:
        ((uint16_t *)x.data)[index] = ce_float_to_bf16((float)value);
        return;
    case CS_F16:
        ((uint16_t *)x.data)[index] = ce_float_to_f16((float)value);
        return;
    default:
        abort();
    }
}

bool near_all(const char *what, cs_tensor got, const double *want, double tolerance)
{
    static const double rounding[] = { [CS_F32] = 0x1p-24, [CS_BF16] = 0x1p-8, [CS_F16] = 0x1p-11 };
    double largest = 0, worst = 0;
    int64_t where = 0, count = cs_count(got);
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(want[i]));
    for (int64_t i = 0; i < count && !isnan(worst); i++) {
        double apart = fabs(near_element(got, i) - want[i]);
        if (!(apart <= worst)) { /* !(<=), so that a NaN counts as the worst value */
            worst = apart;
            where = i;
        }
    }
    if (worst <= (tolerance + rounding[got.dtype]) * largest)
        return true;
    printf("%s: element %lld of %lld is %.9g, not %.9g; the largest is %.3g\n", what, (long long)where,
           (long long)count, near_element(got, where), want[where], largest);
    return false;
}

bool near_tensors(const char *what, cs_tensor got, cs_tensor want, double tolerance)
{
    double *numbers = near_doubles(want);
    bool near = near_all(what, got, numbers, tolerance);
    free(numbers);
    return near;
}

bool near_same_bits(const char *what, cs_tensor got, cs_tensor want)
{
    size_t bytes = cs_dtype_bytes(got.dtype);
    const char *a = got.data, *b = want.data;
    for (int64_t i = 0; i < cs_count(got); i++) {
        if (memcmp(a + (size_t)i * bytes, b + (size_t)i * bytes, bytes) != 0) {
            printf("%s: element %lld differs: %.9g and %.9g\n", what, (long long)i, near_element(got, i),
                   near_element(want, i));
            return false;
        }
    }
    return true;
}

static size_t padded_bytes(size_t bytes)
{
    return (bytes + 2 * GUARD - 1) / GUARD * GUARD;
}

cs_tensor near_new(cs_dtype dtype, int64_t rows, int64_t columns)
{
    size_t bytes = (size_t)(rows * columns) * cs_dtype_bytes(dtype);
    char *memory = aligned_alloc(64, padded_bytes(bytes));
    if (!memory || block_count == BLOCKS)
        abort();
    memset(memory, 0, bytes);
    memset(memory + bytes, MARK, padded_bytes(bytes) - bytes);
    blocks[block_count++] = (block){ memory, padded_bytes(bytes) };
    return cs_matrix(memory, dtype, rows, columns);
}

cs_tensor near_random(cs_dtype dtype, int64_t rows, int64_t columns, uint64_t seed, double size)
{
    cs_tensor x = near_new(dtype, rows, columns);
    for (int64_t i = 0; i < rows * columns; i++)
        near_set(x, i, size * (double)reference_normal(seed, (uint64_t)i));
    return x;
}

cs_tensor near_copy(cs_tensor x)
{
    cs_tensor copy = near_new(x.dtype, cs_rows(x), cs_columns(x));
    memcpy(copy.data, x.data, (size_t)cs_count(x) * cs_dtype_bytes(x.dtype));
    return copy;
}

double *near_doubles(cs_tensor x)
{
    double *numbers = malloc((size_t)(cs_count(x) + 1) * sizeof *numbers);
    if (!numbers)
        abort();
    for (int64_t i = 0; i < cs_count(x); i++)
        numbers[i] = near_element(x, i);
    return numbers;
}

static void drop(int number)
{
    ce_device_free(device, twins[number].there);
    twins[number] = twins[--twin_count];
}

void near_free(cs_tensor x)
{
    size_t bytes = (size_t)cs_count(x) * cs_dtype_bytes(x.dtype);
    const char *memory = x.data;
    for (size_t i = bytes; memory && i < padded_bytes(bytes); i++)
        if (memory[i] != MARK)
            abort();
    for (int i = 0; i < block_count; i++)
        if (blocks[i].memory == memory)
            blocks[i--] = blocks[--block_count];
    for (int i = 0; i < twin_count; i++)
        if (twins[i].here.memory == memory)
            drop(i--);
    free(x.data);
}

/* ---- the device ---- */

const char *near_device(void)
{
    const char *kind = getenv("CSPEED_TEST_DEVICE");
    return kind ? kind : "cpu";
}

cs_device *near_open(int threads)
{
    CE_ASSERT(!device);
    CS_MUST(
        ce_device_open(&device, &(ce_device_settings){ .kind = near_device(), .threads = threads, .local_ranks = 1 }));
    return device;
}

void near_close(void)
{
    while (twin_count)
        drop(0);
    ce_device_close(device);
    device = NULL;
}

bool near_is_cpu(void)
{
    return strcmp(near_device(), "cpu") == 0;
}

bool near_find_emulator(void)
{
    const char *module = CS_BIN "/libcspeed_cuda_emulated.so";
    bool there = getenv("CSPEED_CUDA_MODULE") || access(module, R_OK) == 0;
    if (there)
        setenv("CSPEED_CUDA_MODULE", module, 0);
    return there;
}

bool near_emulated(const char *test)
{
    bool there = near_find_emulator();
    if (!there)
        printf("%s: skipped, the emulated module is not built\n", test);
    return there;
}

int near_gpus(const char *test, int min)
{
    char text[16], why[128];
    if (!near_emulated(test))
        return 0;
    snprintf(text, sizeof text, "%d", min);
    setenv("CSPEED_EMULATOR_DEVICES", text, 1);
    int count = near_counts() ? min : cl_gpus_count(why);
    if (count < min)
        printf("%s: skipped, it needs %d GPUs, and there are %d\n", test, min, count);
    return count < min ? 0 : count;
}

/* Calls the function of this name in the module and returns its result, or 0 if the module has no such function. */
static uint64_t ask(void *module, const char *name)
{
    uint64_t (*count)(void);
    *(void **)&count = module ? dlsym(module, name) : NULL;
    return count ? count() : 0;
}

bool near_counts(void)
{
    void *module = dlopen(getenv("CSPEED_CUDA_MODULE"), RTLD_LAZY | RTLD_LOCAL);
    bool counts = module && dlsym(module, "emulator_kernels_launched");
    if (module)
        dlclose(module);
    return counts;
}

near_launches near_launched(void)
{
    void *module = dlopen(getenv("CSPEED_CUDA_MODULE"), RTLD_LAZY | RTLD_LOCAL);
    near_launches now = { ask(module, "emulator_kernels_launched"), ask(module, "emulator_graphs_launched") };
    if (module)
        dlclose(module);
    return now;
}

uint64_t near_pinned_max(void)
{
    void *module = dlopen(getenv("CSPEED_CUDA_MODULE"), RTLD_LAZY | RTLD_LOCAL);
    uint64_t max = ask(module, "emulator_pinned_max");
    if (module)
        dlclose(module);
    return max;
}

near_launches near_since(near_launches before)
{
    near_launches now = near_launched();
    return (near_launches){ now.kernels - before.kernels, now.graphs - before.graphs };
}

int near_limit(int anywhere, int slowly)
{
    return CS_SANITIZED || !near_is_cpu() ? slowly : anywhere;
}

int near_threads(int max)
{
    return near_is_cpu() ? max : 1;
}

static bool holds(block it, const void *data)
{
    return (const char *)data >= it.memory && (const char *)data < it.memory + it.bytes;
}

static twin *twin_of(cs_tensor x)
{
    for (int i = 0; i < twin_count; i++)
        if (holds(twins[i].here, x.data))
            return &twins[i];
    if (twin_count == BLOCKS)
        abort();
    twin *new = &twins[twin_count++];
    *new = (twin){ .here = { x.data, (size_t)cs_count(x) * cs_dtype_bytes(x.dtype) } };
    for (int i = 0; i < block_count; i++)
        if (holds(blocks[i], x.data))
            *new = (twin){ .here = blocks[i], .lasts = true };
    new->there = ce_device_alloc(device, new->here.bytes);
    return new;
}

cs_tensor near_at(cs_tensor x)
{
    if (!x.data || !ce_device_has_own_memory(device))
        return x;
    twin *it = twin_of(x);
    if (!it->fresh)
        ce_stream_copy(ce_device_stream(device, CE_COMPUTE), it->there, it->here.memory, it->here.bytes);
    it->fresh = true;
    x.data = it->there + ((char *)x.data - it->here.memory);
    return x;
}

ce_state_ranges near_ranges(cs_tensor (*at)(cs_tensor x), ce_state_range *ranges, int64_t count)
{
    ce_state_ranges all = { .count = count };
    for (int64_t i = 0; i < count; i++) {
        ranges[i].tile = all.tiles;
        all.tiles += ce_state_tiles((ce_range){ ranges[i].from, ranges[i].to });
    }
    all.table = at(cs_vector(ranges, CS_I64, count * (int64_t)(sizeof *ranges / sizeof(int64_t)))).data;
    return all;
}

void near_fetch(void)
{
    cs_stream *stream = ce_device_stream(device, CE_COMPUTE);
    for (int i = 0; i < twin_count; i++)
        if (twins[i].fresh)
            ce_stream_copy(stream, twins[i].here.memory, twins[i].there, twins[i].here.bytes);
    ce_stream_sync(stream);
    for (int i = twin_count - 1; i >= 0; i--) {
        twins[i].fresh = false;
        if (!twins[i].lasts)
            drop(i);
    }
}
