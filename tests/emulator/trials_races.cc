/* trials_races.cc - programs for the test of the race detector. Each fault is a pair: a kernel or program with the
 * fault, which must be reported, and its corrected version, for which nothing may be reported. */
#include "traffic.h"
#include "trials.h"

#include "device/cuda/kernel.cuh"
#include "device/cuda/tensor.cuh"

#include <string.h>

template <typename T> static T *new_memory(size_t count)
{
    T *memory = nullptr;
    CE_CUDA(cudaMalloc(&memory, count * sizeof(T)));
    CE_CUDA(cudaMemset(memory, 0, count * sizeof(T)));
    return memory;
}

/* Runs a kernel with memory for one number per thread. The kernel receives `corrected`: true for the version without
 * the fault. */
template <unsigned blocks, unsigned threads> static bool run(void (*kernel)(int *, bool), bool corrected)
{
    ce_launch(nullptr, (ce_shape{ blocks, threads, 1024 }), kernel, new_memory<int>(blocks * threads), corrected);
    return true;
}

/* ---- within a block ---- */

/* Each thread reads what its neighbour has written. */
__global__ void pass_on(int *out, bool meet)
{
    CE_SHARED int slots[64];
    slots[threadIdx.x] = 0;
    __syncthreads();
    slots[threadIdx.x] = (int)threadIdx.x;
    if (meet)
        __syncthreads();
    out[threadIdx.x] = slots[(threadIdx.x + 1) % 64];
}

__global__ void pass_on_in_warp(int *out, bool meet)
{
    CE_SHARED int slots[32];
    slots[threadIdx.x] = 0;
    __syncwarp();
    slots[threadIdx.x] = (int)threadIdx.x;
    if (meet)
        __syncwarp();
    out[threadIdx.x] = slots[(threadIdx.x + 1) % 32];
}

/* The writes of the second iteration race with the reads of the first one. */
__global__ void write_again(int *out, bool meet)
{
    CE_SHARED int slots[64];
    for (int round = 0; round < 2; round++) {
        slots[threadIdx.x] = round;
        __syncthreads();
        out[threadIdx.x] += slots[63 - threadIdx.x];
        if (meet)
            __syncthreads();
    }
}

__global__ void pass_on_in_device_memory(int *out, bool meet)
{
    out[threadIdx.x] = (int)threadIdx.x;
    if (meet)
        __syncthreads();
    int next = out[(threadIdx.x + 1) % 64];
    __syncthreads();
    out[threadIdx.x] += next;
}

/* An asynchronous copy writes what another thread reads meanwhile. */
__global__ void copy_behind(int *out, bool meet)
{
    int *tile = (int *)ce_shared_memory();
    ce_tensor_copy(tile + 4 * threadIdx.x, out + 4 * (threadIdx.x % 16), true);
    ce_tensor_commit();
    if (!meet)
        __syncthreads();
    ce_tensor_wait<0>();
    if (meet)
        __syncthreads();
    out[threadIdx.x % 64] = tile[4 * (63 - threadIdx.x)];
}

/* ---- between blocks of a launch ---- */

__global__ void count_blocks(int *out, bool atomically)
{
    if (threadIdx.x)
        return;
    if (atomically)
        atomicAdd(out, 1);
    else
        *out += 1;
}

__global__ void read_other_block(int *out, bool own)
{
    unsigned mine = blockIdx.x * 32 + threadIdx.x, read = own ? mine : (mine + 32) % 64;
    int value = out[read];
    out[mine] = value + 1;
}

/* ---- shared memory that was not written ---- */

__global__ void sum_static(int *out, bool set)
{
    CE_SHARED int total;
    if (set && threadIdx.x == 0)
        total = 0;
    __syncthreads();
    atomicAdd(&total, 1);
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = total;
}

__global__ void read_static(int *out, bool all)
{
    CE_SHARED int slots[65];
    slots[threadIdx.x] = 1;
    if (all && threadIdx.x == 0)
        slots[64] = 1;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = slots[threadIdx.x + 1];
}

__global__ void read_dynamic(int *out, bool all)
{
    int *slots = (int *)ce_shared_memory();
    slots[threadIdx.x] = 1;
    if (all && threadIdx.x == 0)
        slots[64] = 1;
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = slots[threadIdx.x + 1];
}

/* ---- between streams ---- */

__global__ void set_number(int *at, int value)
{
    *at = value;
}

__global__ void copy_number(int *to, const int *from)
{
    *to = *from;
}

struct two_streams {
    cudaStream_t first, second;
    cudaEvent_t event;

    two_streams()
    {
        CE_CUDA(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
        CE_CUDA(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
        CE_CUDA(cudaEventCreate(&event));
    }
    void order() const
    {
        CE_CUDA(cudaEventRecord(event, first));
        CE_CUDA(cudaStreamWaitEvent(second, event, 0));
    }
};

/* The emulator runs the streams in the right order by chance; the missing wait must be found nevertheless. */
static bool read_in_other_stream(bool waits)
{
    two_streams streams;
    int *a = new_memory<int>(1), *b = new_memory<int>(1);
    ce_launch(streams.first, (ce_shape{ 1, 1 }), set_number, a, 1);
    if (waits)
        streams.order();
    ce_launch(streams.second, (ce_shape{ 1, 1 }), copy_number, b, a);
    CE_CUDA(cudaStreamSynchronize(streams.first));
    CE_CUDA(cudaStreamSynchronize(streams.second));
    return true;
}

/* Two streams read, then one of them writes. A detector that stores only the last reader misses the race with the other
 * stream. */
static bool write_after_readers(bool waits)
{
    two_streams streams;
    int *a = new_memory<int>(1), *b = new_memory<int>(1), *c = new_memory<int>(1);
    ce_launch(streams.first, (ce_shape{ 1, 1 }), copy_number, b, a);
    ce_launch(streams.second, (ce_shape{ 1, 1 }), copy_number, c, a);
    if (waits)
        streams.order();
    CE_CUDA(cudaMemsetAsync(a, 0, sizeof *a, streams.second));
    CE_CUDA(cudaStreamSynchronize(streams.first));
    CE_CUDA(cudaStreamSynchronize(streams.second));
    return true;
}

static bool host_waits_between(bool waits)
{
    two_streams streams;
    int *a = new_memory<int>(1), here = 0;
    ce_launch(streams.first, (ce_shape{ 1, 1 }), set_number, a, 1);
    if (waits)
        CE_CUDA(cudaStreamSynchronize(streams.first));
    CE_CUDA(cudaMemcpyAsync(&here, a, sizeof here, cudaMemcpyDefault, streams.second));
    CE_CUDA(cudaStreamSynchronize(streams.first));
    CE_CUDA(cudaStreamSynchronize(streams.second));
    return true;
}

static bool graph_has_edge(bool waits)
{
    two_streams streams;
    int *a = new_memory<int>(1), *b = new_memory<int>(1);
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CE_CUDA(cudaStreamBeginCapture(streams.first, cudaStreamCaptureModeThreadLocal));
    streams.order();
    ce_launch(streams.first, (ce_shape{ 1, 1 }), set_number, a, 1);
    if (waits)
        streams.order();
    ce_launch(streams.second, (ce_shape{ 1, 1 }), copy_number, b, a);
    CE_CUDA(cudaEventRecord(streams.event, streams.second));
    CE_CUDA(cudaStreamWaitEvent(streams.first, streams.event, 0));
    CE_CUDA(cudaStreamEndCapture(streams.first, &graph));
    CE_CUDA(cudaGraphInstantiate(&ready, graph, 0));
    CE_CUDA(cudaGraphLaunch(ready, streams.first));
    ce_launch(streams.first, (ce_shape{ 1, 1 }), set_number, a, 2);
    CE_CUDA(cudaGraphLaunch(ready, streams.first));
    CE_CUDA(cudaStreamSynchronize(streams.first));
    return true;
}

/* ---- traffic ---- */

enum { ROW = 1024 };

/* Subtracts the mean of a row from the row. If `kept` is true, the row stays in registers; otherwise it is read from
 * memory twice. */
__global__ void center(float *y, const float *x, bool kept)
{
    CE_SHARED float slots[8];
    float mine[ROW / 256], sum = 0;
    for (int i = 0; i < ROW / 256; i++)
        sum += mine[i] = x[(int)threadIdx.x + 256 * i];
    sum = ce_block_sum(sum, slots);
    for (int i = 0; i < ROW / 256; i++)
        y[(int)threadIdx.x + 256 * i] = (kept ? mine[i] : x[(int)threadIdx.x + 256 * i]) - sum / ROW;
}

static bool moves(bool kept, uint64_t read_bytes)
{
    const emulator_traffic *rows;
    float *x = new_memory<float>(ROW), *y = new_memory<float>(ROW);
    emulator_traffic_clear();
    ce_launch(nullptr, (ce_shape{ 1, 256 }), center, y, (const float *)x, kept);
    return emulator_traffic_rows(&rows) == 1 && strstr(rows->name, "center") && rows->runs == 1 &&
           rows->read.distinct == ROW * sizeof(float) && rows->written.distinct == ROW * sizeof(float) &&
           rows->read.sectors * 32 == read_bytes && rows->read.requested == read_bytes &&
           rows->written.sectors * 32 == ROW * sizeof(float);
}

static const emulator_right right[] = {
    { "neighbours meet", [] { return run<1, 64>(pass_on, true); } },
    { "lanes meet", [] { return run<1, 32>(pass_on_in_warp, true); } },
    { "rounds are apart", [] { return run<1, 64>(write_again, true); } },
    { "neighbours meet in device memory", [] { return run<1, 64>(pass_on_in_device_memory, true); } },
    { "a copy is waited for before the barrier", [] { return run<1, 64>(copy_behind, true); } },
    { "blocks count by atomics", [] { return run<4, 32>(count_blocks, true); } },
    { "blocks read their own", [] { return run<2, 32>(read_other_block, true); } },
    { "a static sum is set", [] { return run<2, 32>(sum_static, true); } },
    { "all of static memory is set", [] { return run<2, 64>(read_static, true); } },
    { "all of dynamic memory is set", [] { return run<2, 64>(read_dynamic, true); } },
    { "a stream waits for its input", [] { return read_in_other_stream(true); } },
    { "a writer waits for both readers", [] { return write_after_readers(true); } },
    { "the host waits", [] { return host_waits_between(true); } },
    { "a graph has the edge", [] { return graph_has_edge(true); } },
    { "a row that is read once", [] { return moves(true, ROW * sizeof(float)); } },
    { "a row that is read twice", [] { return moves(false, 2 * ROW * sizeof(float)); } },
};

#define UNSET "nobody has written since the block began"

static const emulator_wrong wrong[] = {
    { "neighbours do not meet", [] { run<1, 64>(pass_on, false); }, "of the same block, with no barrier between" },
    { "lanes do not meet", [] { run<1, 32>(pass_on_in_warp, false); }, "of the same block, with no barrier" },
    { "rounds are not apart", [] { run<1, 64>(write_again, false); }, "of the same block, with no barrier" },
    { "neighbours do not meet in device memory", [] { run<1, 64>(pass_on_in_device_memory, false); },
      "of the same block, with no barrier" },
    { "a copy is waited for behind the barrier", [] { run<1, 64>(copy_behind, false); }, "of dynamic shared memory" },
    { "blocks count without atomics", [] { run<4, 32>(count_blocks, false); },
      "by thread 0 of block 0 of the same launch" },
    { "blocks read what others write", [] { run<2, 32>(read_other_block, false); }, "of block 0 of the same launch" },
    { "a static sum is not set", [] { run<2, 32>(sum_static, false); }, UNSET },
    { "static memory is not all set", [] { run<2, 64>(read_static, false); }, UNSET },
    { "dynamic memory is not all set", [] { run<2, 64>(read_dynamic, false); }, UNSET },
    { "a stream does not wait for its input", [] { read_in_other_stream(false); }, "no event, wait or edge" },
    { "a writer waits for one reader", [] { write_after_readers(false); }, "race: cudaMemset in stream" },
    { "the host does not wait", [] { host_waits_between(false); }, "race: a copy in stream" },
    { "a graph lacks the edge", [] { graph_has_edge(false); }, "no event, wait or edge" },
};

extern "C" const emulator_trials emulator_race_trials;
const emulator_trials emulator_race_trials = {
    right, sizeof right / sizeof *right, nullptr, 0, wrong, sizeof wrong / sizeof *wrong,
};
