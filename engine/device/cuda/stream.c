/* stream.c - CUDA streams: events, waits between streams, copies.
 *
 * All streams are created with cudaStreamNonBlocking, and nothing uses the legacy default stream. */
#include "device/cuda/open.h"
#include "base/rng.h"

static cs_cuda_lane *lane_of(const cs_stream *stream)
{
    return stream->own;
}

cudaStream_t cs_cuda_stream(const cs_stream *stream)
{
    return lane_of(stream)->stream;
}

cudaStream_t cs_cuda_compute(cs_device *device)
{
    return cs_cuda_of(device)->lanes[CS_COMPUTE].stream;
}

/* ---- opening ---- */

/* The comm stream gets the highest priority: ranks wait for communication before they need what is computed
 * meanwhile. */
static cs_status open_lane(cs_cuda_lane *lane, cs_stream_role role)
{
    int min = 0, greatest = 0;
    cudaError_t error = cudaDeviceGetStreamPriorityRange(&min, &greatest);
    if (error == cudaSuccess)
        error = cudaStreamCreateWithPriority(&lane->stream, cudaStreamNonBlocking, role == CS_COMM ? greatest : min);
    for (int i = 0; i < CS_CUDA_EVENTS && error == cudaSuccess; i++)
        error = cudaEventCreateWithFlags(&lane->events[i], cudaEventDisableTiming);
    if (error != cudaSuccess)
        return cs_fail(CS_NO_DEVICE, "device \"cuda\": a stream cannot be made: %s", cudaGetErrorString(error));
    return CS_OK;
}

cs_status cs_cuda_streams_open(cs_device *device)
{
    cs_cuda *cuda = cs_cuda_of(device);
    for (int role = 0; role < CS_STREAM_ROLES; role++) {
        device->streams[role].own = &cuda->lanes[role];
        CS_TRY(open_lane(&cuda->lanes[role], (cs_stream_role)role));
    }
    return CS_OK;
}

void cs_cuda_streams_close(cs_device *device)
{
    for (int role = 0; role < CS_STREAM_ROLES; role++) {
        cs_cuda_lane *lane = &cs_cuda_of(device)->lanes[role];
        if (lane->stream)
            CS_CUDA(cudaStreamSynchronize(lane->stream));
        for (int i = 0; i < CS_CUDA_EVENTS; i++)
            if (lane->events[i])
                CS_CUDA(cudaEventDestroy(lane->events[i]));
        if (lane->stream)
            CS_CUDA(cudaStreamDestroy(lane->stream));
    }
}

/* ---- order ---- */

uint64_t cs_cuda_record(cs_stream *stream)
{
    cs_cuda_lane *lane = lane_of(stream);
    uint32_t place = (uint32_t)(++lane->recorded % CS_CUDA_EVENTS);
    if (cs_cuda_graph_records(stream))
        return lane->recorded;
    lane->places[place] = place;
    CS_CUDA(cudaEventRecord(lane->events[place], lane->stream));
    return lane->recorded;
}

/* If the ring has overwritten the event, this waits for a later event of the same stream, which includes the wanted
 * one. stream NULL: the calling thread waits. */
void cs_cuda_wait(cs_stream *stream, cs_event event)
{
    if (event.sequence == 0 || cs_cuda_graph_waits(stream, event))
        return;
    cs_cuda_lane *lane = lane_of(event.stream);
    CS_ASSERT(event.sequence <= lane->recorded);
    cudaEvent_t own = lane->events[lane->places[event.sequence % CS_CUDA_EVENTS]];
    if (stream) {
        CS_CUDA(cudaStreamWaitEvent(cs_cuda_stream(stream), own, 0));
        return;
    }
    CS_CUDA(cudaSetDevice(
        cs_cuda_of(event.stream->device)->number)); /* the calling thread may not have a current device yet */
    CS_CUDA(cudaEventSynchronize(own));
}

void cs_cuda_sync(cs_stream *stream)
{
    cs_cuda_graph_forbid();
    CS_CUDA(cudaStreamSynchronize(cs_cuda_stream(stream)));
}

void cs_cuda_copy(cs_stream *stream, void *to, const void *from, size_t bytes)
{
    uint64_t what = cs_rng_mix(cs_rng_mix((uint64_t)(uintptr_t)to, (uint64_t)(uintptr_t)from), bytes);
    if (!cs_cuda_replays(what))
        CS_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cs_cuda_stream(stream)));
}

void cs_cuda_clear(cs_device *device, void *memory, size_t bytes)
{
    if (!cs_cuda_replays(cs_rng_mix((uint64_t)(uintptr_t)memory, bytes)))
        CS_CUDA(cudaMemsetAsync(memory, 0, bytes, cs_cuda_compute(device)));
}

void cs_cuda_call(cs_stream *stream, void (*call)(void *argument), void *argument)
{
    (void)stream;
    call(argument);
}
