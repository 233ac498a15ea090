/* trials.cc - programs for the emulator's own test: checks that must hold, and faults that it must report. */
#include "emulator.h"
#include "trials_graph.h"

#include "device/cuda/kernel.cuh"
#include "device/cuda/tensor.cuh"

#include <stdlib.h>

struct own_stream {
    cudaStream_t stream = nullptr;

    own_stream()
    {
        CE_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    }
    ~own_stream()
    {
        CE_CUDA(cudaStreamDestroy(stream));
    }
    operator cudaStream_t() const
    {
        return stream;
    }
};

template <typename T> static T *new_memory(size_t count)
{
    T *memory = nullptr;
    CE_CUDA(cudaMalloc(&memory, count * sizeof(T)));
    return memory;
}

static int fetched(const int *from)
{
    int value = 0;
    CE_CUDA(cudaMemcpy(&value, from, sizeof value, cudaMemcpyDefault));
    return value;
}

static void run_all()
{
    CE_CUDA(cudaDeviceSynchronize());
}

/* ---- checks that must hold ---- */

__global__ void set_value(int *at, int value)
{
    *at = value;
}

__global__ void add_one(int *to, const int *from)
{
    *to = *from + 1;
}

static bool work_waits_for_somebody()
{
    own_stream stream;
    int *memory = new_memory<int>(1);
    ce_launch(stream, (ce_shape{ 1, 1 }), set_value, memory, 5);
    int before = fetched(memory);
    CE_CUDA(cudaStreamSynchronize(stream));
    return before == -1 && fetched(memory) == 5;
}

static bool events_bring_order()
{
    own_stream first, second;
    cudaEvent_t event;
    int *a = new_memory<int>(1), *b = new_memory<int>(1), *missed = new_memory<int>(1);
    CE_CUDA(cudaEventCreate(&event));
    ce_launch(first, (ce_shape{ 1, 1 }), set_value, a, 5);
    CE_CUDA(cudaEventRecord(event, first));
    ce_launch(second, (ce_shape{ 1, 1 }), add_one, missed, a); /* does not wait for the event */
    CE_CUDA(cudaStreamWaitEvent(second, event, 0));
    ce_launch(second, (ce_shape{ 1, 1 }), add_one, b, a);
    CE_CUDA(cudaStreamSynchronize(second));
    CE_CUDA(cudaEventDestroy(event));
    return fetched(b) == 6 && fetched(missed) == 0;
}

__global__ void sum_block(int *sum)
{
    CE_SHARED int slots[8];
    int all = ce_block_sum((int)threadIdx.x, slots);
    if (threadIdx.x == 77)
        sum[blockIdx.x] = all;
}

static bool blocks_meet()
{
    int *sums = new_memory<int>(3);
    ce_launch(nullptr, (ce_shape{ 3, 256 }), sum_block, sums);
    return fetched(sums) == 255 * 128 && fetched(sums + 2) == 255 * 128;
}

__global__ void multiply_tiles(float *c, const bf16 *a, const bf16 *b)
{
    bf16 *tile = (bf16 *)ce_shared_memory();
    for (int i = (int)threadIdx.x; i < 32; i += 32)
        for (int part = 0; part < 2; part++) {
            ce_tensor_copy(tile + (i * 2 + part) * 8, i < 16 ? a + (i * 2 + part) * 8 : b + ((i - 16) * 2 + part) * 8,
                           true);
        }
    ce_tensor_commit();
    ce_tensor_wait<0>();
    __syncthreads();
    int lane = (int)threadIdx.x, row = lane % 16, half_of_row = lane / 16 * 8;
    uint32_t rows[4], columns[4];
    ce_tensor_load(rows, tile + row * 16 + half_of_row);
    ce_tensor_load_transposed(columns, tile + 256 + row * 16 + half_of_row);
    float low[4] = {}, high[4] = {};
    ce_tensor_multiply<bf16>(low, rows, columns[0], columns[1]);
    ce_tensor_multiply<bf16>(high, rows, columns[2], columns[3]);
    for (int i = 0; i < 4; i++) {
        int at = (lane / 4 + i / 2 * 8) * 16 + lane % 4 * 2 + i % 2;
        c[at] = low[i];
        c[at + 8] = high[i];
    }
}

/* Multiplies 16 x 16 matrices of small integers, so that all elements and sums are exact. */
static bool tiles_multiply()
{
    bf16 *a = new_memory<bf16>(256), *b = new_memory<bf16>(256);
    float *c = new_memory<float>(256), got[256];
    bf16 here_a[256], here_b[256];
    for (int i = 0; i < 256; i++) {
        here_a[i] = bf16((float)(i * 7 % 11 - 5));
        here_b[i] = bf16((float)(i * 5 % 13 - 6));
    }
    CE_CUDA(cudaMemcpy(a, here_a, sizeof here_a, cudaMemcpyDefault));
    CE_CUDA(cudaMemcpy(b, here_b, sizeof here_b, cudaMemcpyDefault));
    ce_launch(nullptr, (ce_shape{ 1, 32, 1024 }), multiply_tiles, c, a, b);
    CE_CUDA(cudaMemcpy(got, c, sizeof got, cudaMemcpyDefault));
    for (int row = 0; row < 16; row++)
        for (int column = 0; column < 16; column++) {
            float want = 0;
            for (int k = 0; k < 16; k++)
                want += (float)here_a[row * 16 + k] * (float)here_b[k * 16 + column];
            if (got[row * 16 + column] != want)
                return false;
        }
    return true;
}

__global__ void hold_shared(int *at)
{
    CE_SHARED int held[2048];
    for (int i = (int)threadIdx.x; i < 2048; i += 32)
        held[i] = i;
    __syncthreads();
    *at = held[2047];
}

/* 8 KiB of static and 41 KiB of dynamic shared memory exceed 48 KiB together; 8 and 156 KiB exceed 163 KiB. */
static bool static_shared_memory_counts()
{
    cudaLaunchConfig_t config = {};
    int *at = new_memory<int>(1);
    config.gridDim = dim3(1);
    config.blockDim = dim3(32);
    config.dynamicSmemBytes = 41 * 1024;
    bool refused = cudaLaunchKernelEx(&config, hold_shared, at) == cudaErrorInvalidValue;
    bool max = cudaFuncSetAttribute(hold_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 156 * 1024) ==
               cudaErrorInvalidValue;
    ce_launch(nullptr, (ce_shape{ 1, 32, 41 * 1024 }), hold_shared, at); /* ce_launch requests the memory itself */
    return cudaGetLastError() == cudaErrorInvalidValue && refused && max && fetched(at) == 2047;
}

static bool limits_are_held()
{
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1, 65536);
    config.blockDim = dim3(32);
    bool tall = cudaLaunchKernelEx(&config, set_value, (int *)nullptr, 0) == cudaErrorInvalidConfiguration;
    config.gridDim = dim3(1);
    config.blockDim = dim3(1025);
    bool wide = cudaLaunchKernelEx(&config, set_value, (int *)nullptr, 0) == cudaErrorInvalidConfiguration;
    config.blockDim = dim3(32);
    config.dynamicSmemBytes = 48 * 1024 + 1;
    bool shared = cudaLaunchKernelEx(&config, set_value, (int *)nullptr, 0) == cudaErrorInvalidValue;
    return tall && wide && shared && cudaGetLastError() == cudaErrorInvalidValue;
}

/* ---- faults that must be reported ---- */

static void host_reads()
{
    volatile int *memory = new_memory<int>(1);
    (void)*memory;
}

static void copy_passes_the_end()
{
    int from[3] = {};
    CE_CUDA(cudaMemcpy(new_memory<int>(2), from, sizeof from, cudaMemcpyDefault));
}

static void kernel_passes_the_end()
{
    int *memory = new_memory<int>(3);
    ce_launch(nullptr, (ce_shape{ 1, 1 }), set_value, memory + 3, 1);
    run_all();
    CE_CUDA(cudaFree(memory));
}

__global__ void write_shared(int at)
{
    ce_shared_memory()[at] = 1;
}

static void shared_passes_the_end()
{
    ce_launch(nullptr, (ce_shape{ 1, 32, 64 }), write_shared, 64);
    run_all();
}

__global__ void some_meet()
{
    if (threadIdx.x < 33)
        __syncthreads();
}

__global__ void meet_apart()
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
}

__global__ void lanes_stay_away()
{
    if (threadIdx.x != 5)
        ce_warp_sum(1);
}

__global__ void warp_is_not_whole()
{
    ce_warp_sum(1);
}

template <unsigned threads> static void run(void (*kernel)())
{
    ce_launch(nullptr, (ce_shape{ 1, threads }), kernel);
    run_all();
}

__global__ void load_tile(unsigned char *unused)
{
    uint32_t tiles[4];
    ce_tensor_load(tiles, ce_shared_memory() + 2 * threadIdx.x);
    *unused = (unsigned char)tiles[0];
}

static void tile_is_not_aligned()
{
    ce_launch(nullptr, (ce_shape{ 1, 32, 1024 }), load_tile, new_memory<unsigned char>(1));
    run_all();
}

static bool pageable_copies_are_counted()
{
    own_stream stream;
    int *memory = new_memory<int>(1), *pinned = nullptr, pageable = 3;
    uint64_t before = emulator_pageable_copies;
    CE_CUDA(cudaMallocHost(&pinned, sizeof *pinned));
    CE_CUDA(cudaMemcpyAsync(memory, pinned, sizeof *pinned, cudaMemcpyDefault, stream));
    bool none = emulator_pageable_copies == before;
    CE_CUDA(cudaMemcpyAsync(memory, &pageable, sizeof pageable, cudaMemcpyDefault, stream));
    CE_CUDA(cudaStreamSynchronize(stream));
    CE_CUDA(cudaFreeHost(pinned));
    return none && emulator_pageable_copies == before + 1;
}

static bool processors_are_as_given()
{
    int few = 0, many = 0;
    unsetenv("CSPEED_EMULATOR_PROCESSORS");
    CE_CUDA(cudaDeviceGetAttribute(&few, cudaDevAttrMultiProcessorCount, 0));
    setenv("CSPEED_EMULATOR_PROCESSORS", "132", 1);
    CE_CUDA(cudaDeviceGetAttribute(&many, cudaDevAttrMultiProcessorCount, 0));
    unsetenv("CSPEED_EMULATOR_PROCESSORS");
    return few == 4 && many == 132;
}

__global__ void assert_small(int value)
{
    CE_KERNEL_ASSERT(value < 4);
}

/* After a failed assertion each later call must return the error. The trial returns only if one call does not. */
static void an_assertion_stays()
{
    cudaLaunchConfig_t config = {};
    own_stream stream;
    int *memory = new_memory<int>(1);
    void *more;
    config.gridDim = config.blockDim = dim3(1);
    ce_launch(stream, (ce_shape{ 3, 8 }), assert_small, 4); /* each thread of a block prints a line */
    cudaError_t seen[] = { cudaStreamSynchronize(stream),
                           cudaMalloc(&more, 4),
                           cudaFree(memory),
                           cudaMemsetAsync(memory, 0, 4, stream),
                           cudaDeviceSynchronize(),
                           cudaStreamQuery(stream),
                           cudaGetLastError(),
                           cudaGetLastError(),
                           cudaLaunchKernelEx(&config, set_value, memory, 5) };
    for (cudaError_t error : seen)
        if (error != cudaErrorAssert)
            return;
    emulator_fatal("every call: %s", cudaGetErrorString(cudaErrorAssert));
}

static const emulator_right right[] = {
    { "work waits for somebody", work_waits_for_somebody },
    { "events bring order", events_bring_order },
    { "blocks meet", blocks_meet },
    { "tiles multiply", tiles_multiply },
    { "limits are held", limits_are_held },
    { "static shared memory counts", static_shared_memory_counts },
    { "pageable copies are counted", pageable_copies_are_counted },
    { "processors are as given", processors_are_as_given },
};

static const emulator_wrong wrong[] = {
    { "the host reads device memory", host_reads, "signal 11" },
    { "a copy passes the end", copy_passes_the_end, "pass the end of the block of 8 bytes" },
    { "a kernel passes the end", kernel_passes_the_end, "behind the block of 12 bytes" },
    { "shared memory's end is passed", shared_passes_the_end, "wrote behind its 64 bytes of shared memory" },
    { "threads end before the barrier", [] { run<64>(some_meet); }, "ended while the others wait in __syncthreads" },
    { "two barriers", [] { run<64>(meet_apart); }, "while others of its block wait in that at" },
    { "a lane stays away", [] { run<32>(lanes_stay_away); }, "is not in __shfl_xor_sync" },
    { "a warp is not whole", [] { run<48>(warp_is_not_whole); }, "in a warp that is not whole" },
    { "an assertion stays", an_assertion_stays, "every call: device-side assert triggered" },
    { "a tile is not aligned", tile_is_not_aligned, "is not aligned to 16 bytes" },
};

extern "C" const emulator_trials emulator_trials_of_module;
const emulator_trials emulator_trials_of_module = {
    right, sizeof right / sizeof *right, emulator_graph_trials, emulator_graph_trial_count,
    wrong, sizeof wrong / sizeof *wrong,
};
