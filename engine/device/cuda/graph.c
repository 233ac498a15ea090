/* graph.c - CUDA graphs: what both streams are given between begin and end, captured once and launched as one.
 *
 * The first time of a key runs as ever: then kernels take their workspace and products are measured. The second time is
 * captured, which runs nothing, and launched. From then on the caller's code runs all the same, for the host's state,
 * but what it would put into a stream is left out, and at the end the graph is launched. That it is the same is held to
 * by a number made of all that was put in, in order: where it differs, nothing is launched and the run ends.
 *
 * The streams are joined before a graph and after it: what was recorded before is done when it begins, so that nothing
 * inside waits for it, and what was recorded inside stands for its end afterwards. Kernels keep the priority of their
 * stream. */
#include "device/cuda/open.h"
#include "base/log.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

/* Forward and backward, the first micro-batch of a step and later ones, at some lengths of a curriculum. The one that
 * was not wanted for longest gives way; where more take turns none comes back, and all run as ever. */
enum { GRAPHS = 32 };

typedef struct {
    uint64_t key, marks;   /* marks: of what was captured, in order           */
    cudaGraphExec_t ready; /* NULL: not captured yet                          */
    uint64_t used;         /* the turn of its last use; 0: the place is free */
} graph;

struct cs_cuda_graphs {
    graph known[GRAPHS];
    graph *open; /* that is captured or replayed now; NULL: none */
    bool capturing;
    uint64_t turn, marks;
    uint64_t first[2];      /* by role: the number of the first event inside */
    cudaEvent_t *events[2]; /* of what is being captured, from that number on */
    int count[2], room[2];
    pthread_mutex_t lock; /* held while capturing: no other thread may ask how a stream is */
};

/* A capture is one thread's, and so is what is left out. */
static _Thread_local cs_cuda_graphs *playing;

cs_status cs_cuda_graphs_open(cs_device *device)
{
    cs_cuda_graphs *graphs = cs_cuda_of(device)->graphs = calloc(1, sizeof *graphs);
    if (!graphs)
        return cs_fail(CS_NO_MEMORY, "no memory for a list of graphs");
    pthread_mutex_init(&graphs->lock, NULL);
    return CS_OK;
}

/* Kept as keys that were seen: each is captured anew when it comes back. */
void cs_cuda_graphs_drop(cs_device *device)
{
    cs_cuda_graphs *graphs = cs_cuda_of(device)->graphs;
    if (graphs->open)
        cs_fatal(CS_UNSUPPORTED, "not supported: a kernel that needs memory for the first time while "
                                 "cspeed.cuda_graphs captures or replays it; set it to false");
    for (int i = 0; i < GRAPHS; i++) {
        if (graphs->known[i].ready)
            CS_CUDA(cudaGraphExecDestroy(graphs->known[i].ready));
        graphs->known[i].ready = NULL;
    }
}

void cs_cuda_graphs_close(cs_device *device)
{
    cs_cuda_graphs *graphs = cs_cuda_of(device)->graphs;
    if (!graphs)
        return;
    cs_cuda_graphs_drop(device);
    for (int role = 0; role < 2; role++)
        free(graphs->events[role]);
    pthread_mutex_destroy(&graphs->lock);
    free(graphs);
}

/* ---- while one is open ---- */

bool cs_cuda_replays(uint64_t what)
{
    if (!playing)
        return false;
    playing->marks = cs_rng_mix(playing->marks, what);
    return !playing->capturing;
}

void cs_cuda_graph_forbid(void)
{
    if (playing)
        cs_fatal(CS_UNSUPPORTED, "not supported: waiting for the device inside of forward or backward with "
                                 "cspeed.cuda_graphs, because a graph runs when all of it is known; set it to false");
}

static cudaEvent_t new_event(cs_cuda_graphs *graphs, cs_stream_role role)
{
    if (graphs->count[role] == graphs->room[role]) {
        graphs->room[role] = graphs->room[role] ? 2 * graphs->room[role] : 256;
        graphs->events[role] = realloc(graphs->events[role], (size_t)graphs->room[role] * sizeof(cudaEvent_t));
        if (!graphs->events[role])
            cs_fatal(CS_NO_MEMORY, "no memory for the events of a graph");
    }
    cudaEvent_t *event = &graphs->events[role][graphs->count[role]++];
    CS_CUDA(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    return *event;
}

bool cs_cuda_graph_records(const cs_stream *stream)
{
    if (!playing)
        return false;
    if (!cs_cuda_replays((uint64_t)stream->role))
        CS_CUDA(cudaEventRecord(new_event(playing, stream->role), cs_cuda_stream(stream)));
    return true;
}

/* What was recorded before is done. */
bool cs_cuda_graph_waits(const cs_stream *stream, cs_event event)
{
    if (!playing)
        return false;
    cs_stream_role from = event.stream->role;
    if (!stream)
        cs_cuda_graph_forbid();
    if (event.sequence < playing->first[from])
        return true;
    uint64_t at = event.sequence - playing->first[from];
    if (!cs_cuda_replays(cs_rng_mix((uint64_t)from, at)))
        CS_CUDA(cudaStreamWaitEvent(cs_cuda_stream(stream), playing->events[from][at], 0));
    return true;
}

bool cs_cuda_is_busy(const cs_stream *stream)
{
    cs_cuda_graphs *graphs = cs_cuda_of(stream->device)->graphs;
    if (pthread_mutex_trylock(&graphs->lock) != 0)
        return false;
    bool busy = cudaStreamQuery(cs_cuda_stream(stream)) == cudaErrorNotReady;
    pthread_mutex_unlock(&graphs->lock);
    return busy;
}

/* ---- begin ---- */

/* The key's place, or one for it, which is then new. */
static graph *find(cs_cuda_graphs *graphs, uint64_t key, bool *known)
{
    graph *oldest = graphs->known;
    for (int i = 0; i < GRAPHS; i++) {
        graph *it = &graphs->known[i];
        *known = it->used && it->key == key;
        if (*known)
            return it;
        if (it->used < oldest->used)
            oldest = it;
    }
    return oldest;
}

/* What `later` is given from here on comes after all that `earlier` was given. */
static void follow(cs_device *device, cs_stream_role later, cs_stream_role earlier)
{
    cs_stream_follow(&device->streams[later], &device->streams[earlier]);
}

/* The comm stream is captured from because it waits for a stream that is. */
static void enter(cs_device *device, graph *it)
{
    cs_cuda_graphs *graphs = cs_cuda_of(device)->graphs;
    follow(device, CS_COMPUTE, CS_COMM);
    for (int role = 0; role < 2; role++) {
        graphs->first[role] = cs_cuda_of(device)->lanes[role].recorded + 1;
        graphs->count[role] = 0;
    }
    graphs->open = it;
    graphs->capturing = !it->ready;
    graphs->marks = 0;
    if (graphs->capturing) {
        pthread_mutex_lock(&graphs->lock);
        CS_CUDA(cudaStreamBeginCapture(cs_cuda_compute(device), cudaStreamCaptureModeThreadLocal));
    }
    playing = graphs;
    follow(device, CS_COMM, CS_COMPUTE);
}

void cs_cuda_graph_begin(cs_device *device, uint64_t key)
{
    cs_cuda_graphs *graphs = cs_cuda_of(device)->graphs;
    bool known;
    CS_ASSERT(!playing);
    graph *it = find(graphs, key, &known);
    if (known) {
        enter(device, it);
    } else {
        if (it->ready)
            CS_CUDA(cudaGraphExecDestroy(it->ready));
        *it = (graph){ .key = key };
    }
    it->used = ++graphs->turn;
}

/* ---- end ---- */

static void finish_capture(cs_device *device)
{
    cs_cuda_graphs *graphs = cs_cuda_of(device)->graphs;
    cudaGraph_t captured;
    size_t count = 0;
    CS_CUDA(cudaStreamEndCapture(cs_cuda_compute(device), &captured));
    pthread_mutex_unlock(&graphs->lock);
    size_t room = cs_cuda_room(device);
    CS_CUDA(cudaGraphGetNodes(captured, NULL, &count));
    CS_CUDA(cudaGraphInstantiate(&graphs->open->ready, captured, cudaGraphInstantiateFlagUseNodePriority));
    CS_CUDA(cudaGraphDestroy(captured));
    for (int role = 0; role < 2; role++)
        for (int i = 0; i < graphs->count[role]; i++)
            CS_CUDA(cudaEventDestroy(graphs->events[role][i]));
    size_t left = cs_cuda_room(device);
    cs_log(CS_LOG_DEBUG, "a graph of %zu operations was captured; it takes %zu bytes of the GPU", count,
           room > left ? room - left : 0);
    graphs->open->marks = graphs->marks;
}

/* From here on events that were recorded inside are done when all that the stream was given by now is. */
static void stand_for(cs_device *device, cs_stream_role role)
{
    cs_cuda_lane *lane = &cs_cuda_of(device)->lanes[role];
    uint64_t last = lane->recorded, count = last + 1 - cs_cuda_of(device)->graphs->first[role];
    uint32_t place = (uint32_t)(cs_cuda_record(&device->streams[role]) % CS_CUDA_EVENTS);
    for (uint64_t i = 0; i < count && i < CS_CUDA_EVENTS; i++)
        lane->places[(last - i) % CS_CUDA_EVENTS] = place;
}

void cs_cuda_graph_end(cs_device *device)
{
    cs_cuda_graphs *graphs = cs_cuda_of(device)->graphs;
    graph *it = graphs->open;
    if (!it)
        return;
    follow(device, CS_COMPUTE, CS_COMM);
    if (graphs->capturing)
        finish_capture(device);
    else if (graphs->marks != it->marks)
        cs_fatal(CS_UNSUPPORTED, "not supported: a model whose forward or backward is not the same each time, with "
                                 "cspeed.cuda_graphs, because what was captured is run again; set it to false");
    playing = NULL;
    graphs->open = NULL;
    CS_CUDA(cudaGraphLaunch(it->ready, cs_cuda_compute(device)));
    stand_for(device, CS_COMPUTE);
    follow(device, CS_COMM, CS_COMPUTE);
    stand_for(device, CS_COMM);
}
