/* graph.cc - emulated stream capture and CUDA graphs.
 *
 * The nodes of a graph run in an order that obeys only the captured edges: by default the order of capture. With
 * CSPEED_EMULATOR_ORDER=reverse a node that was captured early runs as late as the edges allow, so that a missing edge
 * gives a wrong result.
 *
 * Calls that the CUDA runtime forbids during a capture return its errors and invalidate the capture. */
#include "emulator.h"

#include <stdlib.h>
#include <string.h>
#include <thread>

struct node {
    std::function<void()> run;
    std::set<size_t> after, before;
};

struct emulator_capture {
    std::vector<node> nodes;
    std::vector<emulator_queue> members; /* the first one is the stream where the capture began */
    std::thread::id thread;
    bool local = false, over = false, spoilt = false;
    std::vector<std::vector<bool>> before; /* for each node that has run: whether each other node precedes it */
};

struct CUgraph_st {
    std::shared_ptr<emulator_capture> captured;
};

struct CUgraphExec_st {
    std::shared_ptr<emulator_capture> captured;
};

static std::set<std::shared_ptr<emulator_capture>> under_way;
static uint64_t launched;

/* ---- capturing ---- */

static size_t add_node(emulator_place &place, std::function<void()> run)
{
    std::vector<node> &nodes = place.capture->nodes;
    nodes.push_back({ std::move(run), place.tips, {} });
    for (size_t before : place.tips)
        nodes[before].before.insert(nodes.size() - 1);
    place.tips = { nodes.size() - 1 };
    return nodes.size() - 1;
}

cudaError_t emulator_capture_add(emulator_place &place, std::function<void()> item)
{
    if (place.capture->spoilt)
        return emulator_fail(cudaErrorStreamCaptureInvalidated);
    add_node(place, std::move(item));
    return cudaSuccess;
}

static cudaError_t spoil(emulator_capture &capture, cudaError_t error)
{
    capture.spoilt = true;
    return emulator_fail(error);
}

/* Makes the stream wait for an event. If the event was recorded in a capture and the stream is in no capture, the
 * stream joins the event's capture, and an empty node of the graph stands for the wait. Before the capture ends, the
 * stream in which the capture began must have waited for the empty node. */
cudaError_t emulator_capture_wait(const emulator_queue &queue, const emulator_place &event, bool recorded)
{
    emulator_place &own = queue->place;
    if (own.capture && !recorded)
        return cudaSuccess;
    if (own.capture && event.capture && event.capture != own.capture && !event.capture->over)
        return spoil(*own.capture, cudaErrorStreamCaptureMerge);
    if (own.capture && event.capture != own.capture)
        return spoil(*own.capture, cudaErrorStreamCaptureIsolation);
    if (event.capture->over)
        return emulator_fail(cudaErrorCapturedEvent);
    if (own.capture) {
        own.tips.insert(event.tips.begin(), event.tips.end());
        return cudaSuccess;
    }
    own = event;
    own.capture->members.push_back(queue);
    add_node(own, [] {});
    return cudaSuccess;
}

cudaError_t emulator_capture_forbids_legacy()
{
    for (const std::shared_ptr<emulator_capture> &capture : under_way) {
        bool heeds = capture->thread == std::this_thread::get_id();
        for (const emulator_queue &member : capture->members)
            heeds = heeds || member->waits_for_legacy;
        if (heeds)
            return spoil(*capture, cudaErrorStreamCaptureImplicit);
    }
    return cudaSuccess;
}

cudaError_t emulator_capture_forbids(const emulator_queue &touched)
{
    if (emulator_broken != cudaSuccess)
        return emulator_fail(emulator_broken);
    if (touched && touched->place.capture)
        return spoil(*touched->place.capture, cudaErrorStreamCaptureUnsupported);
    for (const std::shared_ptr<emulator_capture> &capture : under_way)
        if (!capture->local || capture->thread == std::this_thread::get_id())
            return spoil(*capture, cudaErrorStreamCaptureUnsupported);
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    emulator_guard guard(emulator_lock);
    emulator_queue queue = emulator_stream_of(stream);
    if (!stream)
        return emulator_fail(cudaErrorStreamCaptureUnsupported);
    if (queue->place.capture)
        return emulator_fail(cudaErrorIllegalState);
    auto capture = std::make_shared<emulator_capture>();
    capture->thread = std::this_thread::get_id();
    capture->local = mode != cudaStreamCaptureModeGlobal;
    capture->members = { queue };
    queue->place.capture = capture;
    under_way.insert(capture);
    return cudaSuccess;
}

/* Returns the nodes `tips` and all nodes that precede them. */
static std::set<size_t> reached(const emulator_capture &capture, const std::set<size_t> &tips)
{
    std::set<size_t> all = tips;
    std::vector<size_t> left(tips.begin(), tips.end());
    while (!left.empty()) {
        size_t at = left.back();
        left.pop_back();
        for (size_t before : capture.nodes[at].after)
            if (all.insert(before).second)
                left.push_back(before);
    }
    return all;
}

static bool is_joined(const emulator_capture &capture)
{
    std::set<size_t> all = reached(capture, capture.members[0]->place.tips);
    for (const emulator_queue &member : capture.members)
        for (size_t tip : member->place.tips)
            if (!all.count(tip))
                return false;
    return true;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    emulator_guard guard(emulator_lock);
    std::shared_ptr<emulator_capture> capture = emulator_stream_of(stream)->place.capture;
    *graph = nullptr;
    if (!capture)
        return emulator_fail(cudaErrorIllegalState);
    if (capture->members[0] != emulator_stream_of(stream))
        return spoil(*capture, cudaErrorStreamCaptureUnmatched);
    if (capture->thread != std::this_thread::get_id())
        return emulator_fail(cudaErrorStreamCaptureWrongThread);
    bool joined = is_joined(*capture);
    capture->over = true;
    under_way.erase(capture);
    for (const emulator_queue &member : capture->members)
        member->place = {};
    capture->members.clear();
    if (capture->spoilt || !joined)
        return emulator_fail(joined ? cudaErrorStreamCaptureInvalidated : cudaErrorStreamCaptureUnjoined);
    *graph = new CUgraph_st{ capture };
    return cudaSuccess;
}

/* ---- running ---- */

/* Returns the order in which each node runs as late as possible. It is built from the end: of the nodes whose
 * successors all have a place, the one captured first gets the last free place. */
static std::vector<size_t> latest_order(const emulator_capture &capture)
{
    std::vector<size_t> order, open;
    std::set<size_t> ready;
    for (const node &one : capture.nodes) {
        if (one.before.empty())
            ready.insert(open.size());
        open.push_back(one.before.size());
    }
    while (!ready.empty()) {
        size_t at = *ready.begin();
        ready.erase(at);
        order.insert(order.begin(), at);
        for (size_t next : capture.nodes[at].after)
            if (--open[next] == 0)
                ready.insert(next);
    }
    return order;
}

static void find_before(emulator_capture &capture)
{
    for (size_t i = capture.before.size(); i < capture.nodes.size(); i++) {
        std::vector<bool> all(capture.nodes.size());
        for (size_t before : reached(capture, capture.nodes[i].after))
            all[before] = true;
        capture.before.push_back(std::move(all));
    }
}

static void run_node(const emulator_capture &capture, size_t at)
{
    emulator_order_node(at, &capture.before[at]);
    capture.nodes[at].run();
}

static void run_nodes(emulator_capture &capture)
{
    find_before(capture);
    const char *order = getenv("CSPEED_EMULATOR_ORDER");
    if (order && strcmp(order, "reverse") == 0)
        for (size_t at : latest_order(capture))
            run_node(capture, at);
    else
        for (size_t at = 0; at < capture.nodes.size(); at++)
            run_node(capture, at);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count)
{
    if (nodes)
        return emulator_fail(cudaErrorNotSupported);
    *count = graph->captured->nodes.size();
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ready, cudaGraph_t graph, unsigned long long)
{
    emulator_guard guard(emulator_lock);
    cudaError_t refused = emulator_capture_forbids(nullptr);
    if (refused != cudaSuccess)
        return refused;
    *ready = new CUgraphExec_st{ graph->captured };
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t ready, cudaStream_t stream)
{
    emulator_guard guard(emulator_lock);
    if (emulator_stream_of(stream)->place.capture)
        return emulator_fail(cudaErrorNotSupported); /* a real runtime adds the graph as a node to the captured graph */
    launched++;
    return emulator_enqueue(stream, [captured = ready->captured] { run_nodes(*captured); });
}

/* Launches that are already in a stream still run. */
cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t ready)
{
    delete ready;
    return cudaSuccess;
}

uint64_t emulator_graphs_launched()
{
    return launched;
}
