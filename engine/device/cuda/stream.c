/* stream.c - CUDA streams: events, waits between streams, copies.
 *
 * All streams are created with cudaStreamNonBlocking, and nothing uses the legacy default stream. */
#include "device/cuda/open.h"
#include "base/rng.h"

static ce_cuda_lane *lane_of(const cs_stream *stream)
{
    return stream->private_data;
}

cudaStream_t ce_cuda_stream(const cs_stream *stream)
{
    return lane_of(stream)->stream;
}

cudaStream_t ce_cuda_compute(cs_device *device)
{
    return ce_cuda_of(device)->lanes[CE_COMPUTE].stream;
}

/* ---- opening ---- */

/* The comm stream gets the highest priority: if kernels of both streams run at the same time, the results of
 * communication are needed first. */
static cs_status open_lane(ce_cuda_lane *lane, ce_stream_role role)
{
    int min = 0, greatest = 0;
    cudaError_t error = cudaDeviceGetStreamPriorityRange(&min, &greatest);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithPriority(&lane->stream, cudaStreamNonBlocking, role == CE_COMM ? greatest : min);
    for (int i = 0; i < CE_CUDA_EVENTS && error == cudaSuccess; i++)
        error = cudaEventCreateWithFlags(&lane->events[i], cudaEventDisableTiming);
    if (error != cudaSuccess)
        return ce_fail(CS_NO_DEVICE, "device \"cuda\": a stream cannot be made: %s", cudaGetErrorString(error));
    return CS_OK;
}

cs_status ce_cuda_streams_open(cs_device *device)
{
    ce_cuda *cuda = ce_cuda_of(device);
    for (int role = 0; role < CE_STREAM_ROLES; role++) {
        device->streams[role].private_data = &cuda->lanes[role];
        CE_TRY(open_lane(&cuda->lanes[role], (ce_stream_role)role));
    }
    return CS_OK;
}

void ce_cuda_streams_close(cs_device *device)
{
    for (int role = 0; role < CE_STREAM_ROLES; role++) {
        ce_cuda_lane *lane = &ce_cuda_of(device)->lanes[role];
        if (lane->stream)
            CE_CUDA(cudaStreamSynchronize(lane->stream));
        for (int i = 0; i < CE_CUDA_EVENTS; i++)
            if (lane->events[i])
                CE_CUDA(cudaEventDestroy(lane->events[i]));
        if (lane->stream)
            CE_CUDA(cudaStreamDestroy(lane->stream));
    }
}

/* ---- events and waits ---- */

uint64_t ce_cuda_record(cs_stream *stream)
{
    ce_cuda_lane *lane = lane_of(stream);
    uint32_t place = (uint32_t)(++lane->recorded % CE_CUDA_EVENTS);
    if (ce_cuda_graph_records(stream))
        return lane->recorded;
    lane->places[place] = place;
    CE_CUDA(cudaEventRecord(lane->events[place], lane->stream));
    return lane->recorded;
}

/* If the ring has overwritten the event, waits for a later event of the same stream; the later event completes after
 * the event that was asked for. If `stream` is NULL, the calling thread waits. */
void ce_cuda_wait(cs_stream *stream, ce_event event)
{
    if (event.sequence == 0 || ce_cuda_graph_waits(stream, event))
        return;
    ce_cuda_lane *lane = lane_of(event.stream);
    CE_ASSERT(event.sequence <= lane->recorded);
    cudaEvent_t recorded = lane->events[lane->places[event.sequence % CE_CUDA_EVENTS]];
    if (stream) {
        CE_CUDA(cudaStreamWaitEvent(ce_cuda_stream(stream), recorded, 0));
        return;
    }
    CE_CUDA(cudaSetDevice(
        ce_cuda_of(event.stream->device)->number)); /* the calling thread may not have a current device yet */
    CE_CUDA(cudaEventSynchronize(recorded));
}

void ce_cuda_sync(cs_stream *stream)
{
    ce_cuda_graph_forbid();
    CE_CUDA(cudaStreamSynchronize(ce_cuda_stream(stream)));
}

void ce_cuda_copy(cs_stream *stream, void *to, const void *from, size_t bytes)
{
    uint64_t what = ce_rng_mix(ce_rng_mix((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from), bytes);
    if (!ce_cuda_replays(what))
        CE_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, ce_cuda_stream(stream)));
}

void ce_cuda_clear(cs_device *device, void *memory, size_t bytes)
{
    if (!ce_cuda_replays(ce_rng_mix((uint64_t)(uintptr_t)memory, bytes)))
        CE_CUDA(cudaMemsetAsync(memory, 0, bytes, ce_cuda_compute(device)));
}

void ce_cuda_call(cs_stream *stream, void (*call)(void *argument), void *argument)
{
    (void)stream;
    call(argument);
}
