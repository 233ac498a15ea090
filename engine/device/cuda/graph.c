/* graph.c - CUDA graphs: the work that is put into the compute and comm streams between ce_cuda_graph_begin and
 * ce_cuda_graph_end is captured and later replayed.
 *
 * A key identifies a graph. At the first use of a key, the work runs normally: kernels allocate workspace and products
 * are tuned. At the second use, the work is captured without being executed, and the graph is launched. At later uses
 * the caller's code still runs, to update the state of the host, but the code's operations are not put into the
 * streams; at the end the graph is launched. A hash over all operations, in order, shows whether the operations are
 * equal to the captured operations. If the hash differs, nothing is launched and the run ends with an error.
 *
 * The streams are joined before and after a graph. So events recorded before a graph are complete when the graph
 * begins, and operations inside the graph need not wait for these events. A later wait for an event that was recorded
 * inside a graph waits for the end of that graph. Inside a graph, a kernel has the priority of the stream from which it
 * was captured. */
#include "device/cuda/open.h"
#include "base/log.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

/* The greatest number of graphs that are stored. It is enough for forward and backward, for the first micro-batch of a
 * step and for later micro-batches, at some lengths of a curriculum. If a graph does not fit, it replaces the least
 * recently used graph. If more than GRAPHS keys alternate, each key's graph is replaced before the key is used again,
 * so all of the work runs without graphs. */
enum { GRAPHS = 32 };

typedef struct {
    uint64_t key, hash;    /* hash: a hash over the captured operations, in order */
    cudaGraphExec_t ready; /* the graph, ready to be launched; NULL: it is not captured yet */
    uint64_t used;         /* value of `turn` when the key was last used; 0: the entry is free */
} graph;

struct ce_cuda_graphs {
    graph known[GRAPHS];
    graph *open; /* the graph that is being captured or replayed; NULL: there is none */
    bool capturing;
    uint64_t turn, hash;
    /* for the compute stream and the comm stream: the number of the first event that is recorded inside the graph */
    uint64_t first[2];
    /* for the compute stream and the comm stream: the events that the capture has recorded; events[role][0] is event
     * number first[role] */
    cudaEvent_t *events[2];
    int count[2], capacity[2];
    pthread_mutex_t lock; /* locked during a capture, so that no other thread queries a stream */
};

/* The graphs of the device for which this thread captures or replays a graph; NULL: this thread does neither. */
static _Thread_local ce_cuda_graphs *active;

cs_status ce_cuda_graphs_open(cs_device *device)
{
    ce_cuda_graphs *graphs = ce_cuda_of(device)->graphs = calloc(1, sizeof *graphs);
    if (!graphs)
        return ce_fail(CS_NO_MEMORY, "no memory for a list of graphs");
    pthread_mutex_init(&graphs->lock, NULL);
    return CS_OK;
}

/* Destroys the captured graphs, but keeps their keys marked as used once. So each graph is captured again at the next
 * use of its key. */
void ce_cuda_graphs_drop(cs_device *device)
{
    ce_cuda_graphs *graphs = ce_cuda_of(device)->graphs;
    if (graphs->open)
        ce_fatal(CS_UNSUPPORTED, "not supported: a kernel that needs memory for the first time while "
                                 "cspeed.cuda_graphs captures or replays it; set it to false");
    for (int i = 0; i < GRAPHS; i++) {
        if (graphs->known[i].ready)
            CE_CUDA(cudaGraphExecDestroy(graphs->known[i].ready));
        graphs->known[i].ready = NULL;
    }
}

void ce_cuda_graphs_close(cs_device *device)
{
    ce_cuda_graphs *graphs = ce_cuda_of(device)->graphs;
    if (!graphs)
        return;
    ce_cuda_graphs_drop(device);
    for (int role = 0; role < 2; role++)
        free(graphs->events[role]);
    pthread_mutex_destroy(&graphs->lock);
    free(graphs);
}

/* ---- while a graph is open (captured or replayed) ---- */

bool ce_cuda_replays(uint64_t what)
{
    if (!active)
        return false;
    active->hash = ce_rng_mix(active->hash, what);
    return !active->capturing;
}

void ce_cuda_graph_forbid(void)
{
    if (active)
        ce_fatal(CS_UNSUPPORTED, "not supported: waiting for the device during forward or backward with "
                                 "cspeed.cuda_graphs, because a graph starts only after it is complete; set it to "
                                 "false");
}

static cudaEvent_t new_event(ce_cuda_graphs *graphs, ce_stream_role role)
{
    if (graphs->count[role] == graphs->capacity[role]) {
        graphs->capacity[role] = graphs->capacity[role] ? 2 * graphs->capacity[role] : 256;
        graphs->events[role] = realloc(graphs->events[role], (size_t)graphs->capacity[role] * sizeof(cudaEvent_t));
        if (!graphs->events[role])
            ce_fatal(CS_NO_MEMORY, "no memory for the events of a graph");
    }
    cudaEvent_t *event = &graphs->events[role][graphs->count[role]++];
    CE_CUDA(cudaEventCreateWithFlags(event, cudaEventDisableTiming));
    return *event;
}

bool ce_cuda_graph_records(const cs_stream *stream)
{
    if (!active)
        return false;
    if (!ce_cuda_replays((uint64_t)stream->role))
        CE_CUDA(cudaEventRecord(new_event(active, stream->role), ce_cuda_stream(stream)));
    return true;
}

/* Events that were recorded before the graph are complete, so nothing waits for them. */
bool ce_cuda_graph_waits(const cs_stream *stream, ce_event event)
{
    if (!active)
        return false;
    ce_stream_role from = event.stream->role;
    if (!stream)
        ce_cuda_graph_forbid();
    if (event.sequence < active->first[from])
        return true;
    uint64_t at = event.sequence - active->first[from];
    if (!ce_cuda_replays(ce_rng_mix((uint64_t)from, at)))
        CE_CUDA(cudaStreamWaitEvent(ce_cuda_stream(stream), active->events[from][at], 0));
    return true;
}

bool ce_cuda_is_busy(const cs_stream *stream)
{
    ce_cuda_graphs *graphs = ce_cuda_of(stream->device)->graphs;
    if (pthread_mutex_trylock(&graphs->lock) != 0)
        return false;
    bool busy = cudaStreamQuery(ce_cuda_stream(stream)) == cudaErrorNotReady;
    pthread_mutex_unlock(&graphs->lock);
    return busy;
}

/* ---- beginning a graph ---- */

/* Returns the entry of a key and sets *known to true. If the key is not known, returns the entry to replace. */
static graph *find(ce_cuda_graphs *graphs, uint64_t key, bool *known)
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

/* Makes later work of the stream `later` wait for all work that the stream `earlier` has so far. */
static void follow(cs_device *device, ce_stream_role later, ce_stream_role earlier)
{
    ce_stream_follow(&device->streams[later], &device->streams[earlier]);
}

/* Begins a capture or a replay. The compute stream is captured. When the comm stream waits for the compute stream, CUDA
 * adds the comm stream to the capture. */
static void enter(cs_device *device, graph *it)
{
    ce_cuda_graphs *graphs = ce_cuda_of(device)->graphs;
    follow(device, CE_COMPUTE, CE_COMM);
    for (int role = 0; role < 2; role++) {
        graphs->first[role] = ce_cuda_of(device)->lanes[role].recorded + 1;
        graphs->count[role] = 0;
    }
    graphs->open = it;
    graphs->capturing = !it->ready;
    graphs->hash = 0;
    if (graphs->capturing) {
        pthread_mutex_lock(&graphs->lock);
        CE_CUDA(cudaStreamBeginCapture(ce_cuda_compute(device), cudaStreamCaptureModeThreadLocal));
    }
    active = graphs;
    follow(device, CE_COMM, CE_COMPUTE);
}

void ce_cuda_graph_begin(cs_device *device, uint64_t key)
{
    ce_cuda_graphs *graphs = ce_cuda_of(device)->graphs;
    bool known;
    CE_ASSERT(!active);
    graph *it = find(graphs, key, &known);
    if (known) {
        enter(device, it);
    } else {
        if (it->ready)
            CE_CUDA(cudaGraphExecDestroy(it->ready));
        *it = (graph){ .key = key };
    }
    it->used = ++graphs->turn;
}

/* ---- ending a graph ---- */

static void finish_capture(cs_device *device)
{
    ce_cuda_graphs *graphs = ce_cuda_of(device)->graphs;
    cudaGraph_t captured;
    size_t count = 0;
    CE_CUDA(cudaStreamEndCapture(ce_cuda_compute(device), &captured));
    pthread_mutex_unlock(&graphs->lock);
    size_t free_before = ce_cuda_free_bytes(device);
    CE_CUDA(cudaGraphGetNodes(captured, NULL, &count));
    CE_CUDA(cudaGraphInstantiate(&graphs->open->ready, captured, cudaGraphInstantiateFlagUseNodePriority));
    CE_CUDA(cudaGraphDestroy(captured));
    for (int role = 0; role < 2; role++)
        for (int i = 0; i < graphs->count[role]; i++)
            CE_CUDA(cudaEventDestroy(graphs->events[role][i]));
    size_t left = ce_cuda_free_bytes(device);
    ce_log(CE_LOG_DEBUG, "a graph of %zu operations was captured; it takes %zu bytes of the GPU", count,
           free_before > left ? free_before - left : 0);
    graphs->open->hash = graphs->hash;
}

/* Replaces the events that were recorded inside the graph: a later wait for one of them waits for an event at the
 * graph's end. */
static void redirect_events(cs_device *device, ce_stream_role role)
{
    ce_cuda_lane *lane = &ce_cuda_of(device)->lanes[role];
    uint64_t last = lane->recorded, count = last + 1 - ce_cuda_of(device)->graphs->first[role];
    uint32_t place = (uint32_t)(ce_cuda_record(&device->streams[role]) % CE_CUDA_EVENTS);
    for (uint64_t i = 0; i < count && i < CE_CUDA_EVENTS; i++)
        lane->places[(last - i) % CE_CUDA_EVENTS] = place;
}

void ce_cuda_graph_end(cs_device *device)
{
    ce_cuda_graphs *graphs = ce_cuda_of(device)->graphs;
    graph *it = graphs->open;
    if (!it)
        return;
    follow(device, CE_COMPUTE, CE_COMM);
    if (graphs->capturing)
        finish_capture(device);
    else if (graphs->hash != it->hash)
        ce_fatal(CS_UNSUPPORTED, "not supported: a model whose forward or backward changes from step to step, with "
                                 "cspeed.cuda_graphs, because the captured operations are repeated; set it to false");
    active = NULL;
    graphs->open = NULL;
    CE_CUDA(cudaGraphLaunch(it->ready, ce_cuda_compute(device)));
    redirect_events(device, CE_COMPUTE);
    follow(device, CE_COMM, CE_COMPUTE);
    redirect_events(device, CE_COMM);
}
