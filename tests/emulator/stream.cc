/* stream.cc - emulated streams and events, with lazy execution; graph.cc has stream capture.
 *
 * An operation runs only when something waits for it, so that a missing wait shows as a missing result. With
 * CSPEED_EMULATOR_EAGER=1 an operation runs as soon as it is put into its stream. A wait for another stream's event
 * first runs that stream up to the event. */
#include "shadow.h"

#include <map>
#include <set>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct CUstream_st {
    emulator_queue queue = std::make_shared<emulator_stream>();
};

struct CUevent_st {
    bool timed = true;
    emulator_place place; /* position in a capture, if the event was last recorded in one */
    emulator_queue queue; /* empty: never recorded */
    uint64_t at = 0;
    std::shared_ptr<long long> when; /* when the event completed: nanoseconds on the host's clock; 0: not yet */
    emulator_clock clock;
};

std::recursive_mutex emulator_lock;

static std::set<emulator_queue> queues;
static std::map<const void *, int> granted; /* bytes of dynamic shared memory that a kernel has requested */
static CUstream_st *legacy;
static uint64_t launched; /* kernels launched outside of graphs */

static void number_queue(const emulator_queue &queue)
{
    static unsigned count;
    queue->number = count++;
    queues.insert(queue);
}

static emulator_queue legacy_queue()
{
    if (!legacy) {
        legacy = new CUstream_st;
        number_queue(legacy->queue);
    }
    return legacy->queue;
}

emulator_queue emulator_stream_of(cudaStream_t stream)
{
    return stream ? stream->queue : legacy_queue();
}

uint64_t emulator_waiting()
{
    uint64_t count = 0;
    for (const emulator_queue &queue : queues)
        count += queue->items.size();
    return count;
}

void emulator_pause()
{
    emulator_lock.unlock();
    usleep(50);
    emulator_lock.lock();
}

static void run_to(const emulator_queue &queue, uint64_t until)
{
    emulator_open open;
    while (queue->done < until) {
        if (queue->running) { /* another thread executes an item of this queue */
            emulator_pause();
            continue;
        }
        std::function<void()> item = std::move(queue->items.front());
        queue->running = true;
        queue->items.pop_front();
        if (emulator_broken == cudaSuccess)
            item();
        queue->running = false;
        queue->done++;
    }
}

uint64_t emulator_host_waits, emulator_pageable_copies;

/* The host waits for a stream. With CSPEED_EMULATOR_ORDER=reverse the other streams run to their ends first, so that a
 * missing wait gives a wrong result. */
static void await(const emulator_queue &queue, uint64_t until, const emulator_clock &clock)
{
    const char *order = getenv("CSPEED_EMULATOR_ORDER");
    emulator_host_waits += queue->done < until;
    emulator_join(emulator_host_clock, clock);
    if (order && strcmp(order, "reverse") == 0)
        for (const emulator_queue &other : std::set<emulator_queue>(queues))
            if (other != queue)
                run_to(other, other->given);
    run_to(queue, until);
}

void emulator_run_all()
{
    emulator_host_waits += emulator_waiting() > 0;
    for (const emulator_queue &queue : std::set<emulator_queue>(queues)) {
        emulator_join(emulator_host_clock, queue->clock);
        run_to(queue, queue->given);
    }
}

/* Runs the work of all blocking streams, because the legacy stream must wait for the blocking streams. */
static void run_heeding()
{
    for (const emulator_queue &queue : std::set<emulator_queue>(queues))
        if (queue->waits_for_legacy) {
            emulator_join(legacy_queue()->clock, queue->clock);
            run_to(queue, queue->given);
        }
}

cudaError_t emulator_enqueue(cudaStream_t stream, std::function<void()> item)
{
    emulator_queue queue = emulator_stream_of(stream);
    cudaError_t refused = stream ? emulator_broken : emulator_capture_forbids_legacy();
    if (refused == cudaSuccess)
        refused = emulator_broken;
    if (refused != cudaSuccess)
        return emulator_fail(refused);
    if (queue->place.capture)
        return emulator_capture_add(queue->place, std::move(item));
    if (!stream)
        run_heeding();
    queue->items.push_back(emulator_ordered(*queue, std::move(item)));
    queue->given++;
    const char *eager = getenv("CSPEED_EMULATOR_EAGER");
    if (!stream) /* the host waits for the legacy stream's operations */
        await(queue, queue->given, queue->clock);
    else if (eager && strcmp(eager, "1") == 0)
        run_to(queue, queue->given);
    return emulator_broken;
}

/* ---- streams ---- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int)
{
    emulator_guard guard(emulator_lock);
    *stream = new CUstream_st;
    (*stream)->queue->waits_for_legacy = !(flags & cudaStreamNonBlocking);
    number_queue((*stream)->queue);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    emulator_guard guard(emulator_lock);
    if (!stream)
        return emulator_fail(cudaErrorInvalidResourceHandle);
    run_to(stream->queue, stream->queue->given);
    queues.erase(stream->queue);
    delete stream;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    emulator_guard guard(emulator_lock);
    emulator_queue queue = emulator_stream_of(stream);
    cudaError_t refused = emulator_capture_forbids(queue);
    if (refused != cudaSuccess)
        return refused;
    if (!stream)
        run_heeding();
    await(queue, queue->given, queue->clock);
    return emulator_broken;
}

cudaError_t cudaDeviceSynchronize(void)
{
    emulator_guard guard(emulator_lock);
    cudaError_t refused = emulator_capture_forbids(nullptr);
    if (refused == cudaSuccess)
        emulator_run_all();
    return refused == cudaSuccess ? emulator_broken : refused;
}

/* Each query of a stream or an event executes one operation. */
static cudaError_t one_on(const emulator_queue &queue, uint64_t until, const emulator_clock &clock)
{
    if (queue->done >= until) {
        emulator_join(emulator_host_clock, clock);
        return emulator_broken;
    }
    if (queue->running)
        return cudaErrorNotReady;
    run_to(queue, queue->done + 1);
    return cudaErrorNotReady;
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    emulator_guard guard(emulator_lock);
    emulator_queue queue = emulator_stream_of(stream);
    cudaError_t refused = emulator_capture_forbids(queue);
    return refused == cudaSuccess ? one_on(queue, queue->given, queue->clock) : refused;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
    emulator_guard guard(emulator_lock);
    bool far_to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool far_from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind != cudaMemcpyDefault && (emulator_is_device(to) != far_to || emulator_is_device(from) != far_from))
        return emulator_fail(cudaErrorInvalidValue);
    emulator_pageable_copies += stream && bytes && (emulator_is_pageable(to) || emulator_is_pageable(from));
    if (!emulator_stream_of(stream)->place.capture)
        emulator_hide(to, bytes);
    return emulator_enqueue(stream, [=] {
        emulator_check_range("a copy's target", to, bytes);
        emulator_check_range("a copy's source", from, bytes);
        shadow_touch("a copy", from, bytes, EMULATOR_READ);
        shadow_touch("a copy", to, bytes, EMULATOR_WRITE);
        emulator_move(to, from, bytes);
        emulator_show(to, bytes);
    });
}

cudaError_t cudaMemsetAsync(void *memory, int value, size_t bytes, cudaStream_t stream)
{
    emulator_guard guard(emulator_lock);
    if (!emulator_is_device(memory) && bytes)
        return emulator_fail(cudaErrorInvalidValue);
    return emulator_enqueue(stream, [=] {
        emulator_check_range("cudaMemset", memory, bytes);
        shadow_touch("cudaMemset", memory, bytes, EMULATOR_WRITE);
        memset(memory, value, bytes);
    });
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    emulator_guard guard(emulator_lock);
    cudaError_t refused = emulator_capture_forbids(nullptr);
    if (refused != cudaSuccess)
        return refused;
    return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}

cudaError_t cudaMemset(void *memory, int value, size_t bytes)
{
    return cudaMemsetAsync(memory, value, bytes, nullptr);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void *argument)
{
    emulator_guard guard(emulator_lock);
    return emulator_enqueue(stream, [=] { call(argument); });
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = new CUevent_st;
    (*event)->timed = !(flags & cudaEventDisableTiming);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (!event)
        return emulator_fail(cudaErrorInvalidResourceHandle);
    delete event;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    emulator_guard guard(emulator_lock);
    std::shared_ptr<long long> when = std::make_shared<long long>(0);
    event->queue = emulator_stream_of(stream);
    event->place = event->queue->place;
    if (event->place.capture)
        return cudaSuccess;
    event->at = event->queue->given + 1;
    event->when = when;
    cudaError_t result = emulator_enqueue(stream, [when] { *when = clock64(); });
    event->clock = event->queue->clock;
    return result;
}

/* Returns an error if the event was recorded in a capture, because it will never complete. */
static cudaError_t event_refuses(cudaEvent_t event)
{
    return event->place.capture ? emulator_fail(cudaErrorCapturedEvent) : emulator_capture_forbids(nullptr);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    emulator_guard guard(emulator_lock);
    cudaError_t refused = event_refuses(event);
    if (refused == cudaSuccess && event->queue)
        await(event->queue, event->at, event->clock);
    return refused == cudaSuccess ? emulator_broken : refused;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    emulator_guard guard(emulator_lock);
    cudaError_t refused = event_refuses(event);
    return refused == cudaSuccess && event->queue ? one_on(event->queue, event->at, event->clock) : refused;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t from, cudaEvent_t to)
{
    emulator_guard guard(emulator_lock);
    if (!from->timed || !to->timed || !from->queue || !to->queue)
        return emulator_fail(cudaErrorInvalidResourceHandle);
    if (!*from->when || !*to->when)
        return cudaErrorNotReady;
    *milliseconds = (float)((double)(*to->when - *from->when) * 1e-6);
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    emulator_guard guard(emulator_lock);
    emulator_queue queue = event->queue;
    uint64_t at = event->at;
    if (event->place.capture || emulator_stream_of(stream)->place.capture)
        return emulator_capture_wait(emulator_stream_of(stream), event->place, queue != nullptr);
    if (!queue || queue == emulator_stream_of(stream))
        return cudaSuccess;
    emulator_join(emulator_stream_of(stream)->clock, event->clock);
    return emulator_enqueue(stream, [queue, at] { run_to(queue, at); });
}

/* ---- kernels ---- */

static bool fits(const cudaLaunchConfig_t *config)
{
    dim3 block = config->blockDim, grid = config->gridDim;
    return block.x && block.y && block.z && block.z <= 64 &&
           (uint64_t)block.x * block.y * block.z <= EMULATOR_BLOCK_THREADS && grid.x && grid.y && grid.z &&
           grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535;
}

/* Without a request, static and dynamic shared memory together are limited to EMULATOR_SHARED bytes. */
static size_t dynamic_max(const void *kernel)
{
    auto asked = granted.find(kernel);
    return asked == granted.end() ? EMULATOR_SHARED - emulator_kernel_of(kernel).static_bytes : (size_t)asked->second;
}

cudaError_t emulator_launch(const cudaLaunchConfig_t *config, const void *kernel, std::function<void()> thread)
{
    emulator_guard guard(emulator_lock);
    emulator_kernel &facts = emulator_kernel_of(kernel);
    dim3 block = config->blockDim;
    if (!fits(config))
        return emulator_fail(cudaErrorInvalidConfiguration);
    if (config->dynamicSmemBytes > dynamic_max(kernel))
        return emulator_fail(cudaErrorInvalidValue);
    emulator_note_launch(facts, block.x * block.y * block.z, config->dynamicSmemBytes);
    launched += !emulator_stream_of(config->stream)->place.capture;
    return emulator_enqueue(config->stream, [=, &facts, copy = *config] {
        emulator_run_grid(facts.name.c_str(), copy.gridDim, copy.blockDim, copy.dynamicSmemBytes, thread);
    });
}

uint64_t emulator_kernels_launched()
{
    return launched;
}

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute attribute, int value)
{
    emulator_guard guard(emulator_lock);
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaSuccess;
    if (value < 0 || (size_t)value + emulator_kernel_of(kernel).static_bytes > EMULATOR_SHARED_MAX)
        return emulator_fail(cudaErrorInvalidValue);
    granted[kernel] = value;
    return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *kernel)
{
    emulator_guard guard(emulator_lock);
    *attributes = {};
    attributes->maxThreadsPerBlock = EMULATOR_BLOCK_THREADS;
    attributes->numRegs = 32;
    attributes->binaryVersion = 80;
    attributes->ptxVersion = 80;
    attributes->sharedSizeBytes = emulator_kernel_of(kernel).static_bytes;
    attributes->maxDynamicSharedSizeBytes = (int)dynamic_max(kernel);
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *, int threads, size_t shared)
{
    if (threads < 1 || threads > EMULATOR_BLOCK_THREADS || shared > EMULATOR_SHARED_MAX)
        return emulator_fail(cudaErrorInvalidValue);
    int by_threads = 2048 / threads, by_shared = (int)(EMULATOR_PROCESSOR_SHARED / (shared + 1024));
    *blocks = std::min(std::min(by_threads, by_shared), 32);
    return cudaSuccess;
}
