/* trials_graph.cc - programs for the emulator's own test: stream capture and CUDA graphs. */
#include "emulator.h"
#include "trials_graph.h"

#include "device/cuda/kernel.cuh"

static __global__ void add_to(int *to, const int *from, int more)
{
    *to = *from + more;
}

struct pair {
    cudaStream_t main, side;
    cudaEvent_t forked, joined;
    int *a, *b;

    pair()
    {
        CE_CUDA(cudaStreamCreateWithFlags(&main, cudaStreamNonBlocking));
        CE_CUDA(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking));
        CE_CUDA(cudaEventCreate(&forked));
        CE_CUDA(cudaEventCreate(&joined));
        CE_CUDA(cudaMalloc(&a, sizeof *a));
        CE_CUDA(cudaMalloc(&b, sizeof *b));
        CE_CUDA(cudaMemset(a, 0, sizeof *a));
        CE_CUDA(cudaMemset(b, 0, sizeof *b));
    }

    ~pair()
    {
        CE_CUDA(cudaDeviceSynchronize());
        CE_CUDA(cudaEventDestroy(forked));
        CE_CUDA(cudaEventDestroy(joined));
        CE_CUDA(cudaStreamDestroy(main));
        CE_CUDA(cudaStreamDestroy(side));
        CE_CUDA(cudaFree(a));
        CE_CUDA(cudaFree(b));
    }

    void begin()
    {
        CE_CUDA(cudaStreamBeginCapture(main, cudaStreamCaptureModeThreadLocal));
    }

    void go_over(cudaStream_t from, cudaStream_t to, cudaEvent_t event)
    {
        CE_CUDA(cudaEventRecord(event, from));
        CE_CUDA(cudaStreamWaitEvent(to, event, 0));
    }

    void add(cudaStream_t stream, int *to, const int *from, int more)
    {
        ce_launch(stream, (ce_shape{ 1, 1 }), add_to, to, from, more);
    }

    cudaError_t end()
    {
        cudaGraph_t graph = nullptr;
        cudaError_t error = cudaStreamEndCapture(main, &graph);
        if (graph)
            cudaGraphDestroy(graph);
        return error;
    }

    void run(int times)
    {
        cudaGraph_t graph;
        cudaGraphExec_t ready;
        CE_CUDA(cudaStreamEndCapture(main, &graph));
        CE_CUDA(cudaGraphInstantiate(&ready, graph, 0));
        CE_CUDA(cudaGraphDestroy(graph));
        for (int i = 0; i < times; i++)
            CE_CUDA(cudaGraphLaunch(ready, main));
        CE_CUDA(cudaGraphExecDestroy(ready));
    }

    bool holds(int in_a, int in_b)
    {
        int got[2];
        CE_CUDA(cudaStreamSynchronize(main));
        CE_CUDA(cudaMemcpy(&got[0], a, sizeof *a, cudaMemcpyDefault));
        CE_CUDA(cudaMemcpy(&got[1], b, sizeof *b, cudaMemcpyDefault));
        return got[0] == in_a && got[1] == in_b;
    }
};

static bool captured_work_runs_by_its_graph()
{
    pair p;
    p.begin();
    p.add(p.main, p.a, p.a, 3);
    /* a query is forbidden during a capture and invalidates the capture */
    bool waits = cudaStreamQuery(p.side) != cudaSuccess;
    waits = waits && p.end() == cudaErrorStreamCaptureInvalidated && p.holds(0, 0);
    p.begin();
    p.add(p.main, p.a, p.a, 3);
    p.run(4);
    return waits && p.holds(12, 0);
}

static bool streams_fork_and_join()
{
    pair p;
    p.begin();
    p.add(p.main, p.a, p.a, 1);
    p.go_over(p.main, p.side, p.forked);
    p.add(p.side, p.b, p.a, 10);
    p.go_over(p.side, p.main, p.joined);
    p.add(p.main, p.a, p.b, 100);
    p.run(2);
    return p.holds(222, 122);
}

/* The program needs b = a + 10 to run before a is changed, but no edge orders the two. */
static bool a_missing_edge_shows()
{
    bool right[2];
    for (int reverse = 0; reverse < 2; reverse++) {
        pair p;
        p.begin();
        p.go_over(p.main, p.side, p.forked);
        p.add(p.side, p.b, p.a, 10);
        p.add(p.main, p.a, p.a, 1);
        p.go_over(p.side, p.main, p.joined);
        p.run(1);
        if (reverse)
            setenv("CSPEED_EMULATOR_ORDER", "reverse", 1);
        right[reverse] = p.holds(1, 10);
        unsetenv("CSPEED_EMULATOR_ORDER");
    }
    return right[0] && !right[1];
}

static bool borders_are_kept()
{
    pair p;
    CE_CUDA(cudaEventRecord(p.forked, p.side));
    p.begin();
    bool outside = cudaStreamWaitEvent(p.main, p.forked, 0) == cudaErrorStreamCaptureIsolation &&
                   p.end() == cudaErrorStreamCaptureInvalidated;
    p.begin();
    p.go_over(p.main, p.side, p.forked);
    bool unjoined = p.end() == cudaErrorStreamCaptureUnjoined;
    bool captured = cudaStreamWaitEvent(p.side, p.forked, 0) == cudaErrorCapturedEvent &&
                    cudaEventSynchronize(p.forked) == cudaErrorCapturedEvent;
    CE_CUDA(cudaEventRecord(p.forked, p.main));
    return outside && unjoined && captured && cudaEventSynchronize(p.forked) == cudaSuccess;
}

static bool spoils(cudaError_t (*call)(pair &p))
{
    pair p;
    p.begin();
    p.add(p.main, p.a, p.a, 3);
    cudaError_t error = call(p);
    return error == cudaErrorStreamCaptureUnsupported && p.end() == cudaErrorStreamCaptureInvalidated;
}

static bool what_waits_or_takes_memory_spoils_it()
{
    static cudaError_t (*const calls[])(pair & p) = {
        [](pair &p) { return cudaStreamSynchronize(p.main); },
        [](pair &) { return cudaDeviceSynchronize(); },
        [](pair &p) { return cudaMemcpy(p.a, p.b, sizeof(int), cudaMemcpyDefault); },
        [](pair &p) { return cudaFree(p.a); },
        [](pair &) {
            void *memory;
            return cudaMalloc(&memory, 4);
        },
    };
    for (auto call : calls)
        if (!spoils(call))
            return false;
    return true;
}

/* A use of the legacy stream invalidates a capture. If a blocking stream is captured, any thread's use does so; if a
 * non-blocking stream is captured, only a use by the capturing thread. */
static bool the_legacy_stream_spoils_it()
{
    pair p;
    cudaStream_t heeding;
    cudaGraph_t graph;
    CE_CUDA(cudaStreamCreate(&heeding));
    CE_CUDA(cudaStreamBeginCapture(heeding, cudaStreamCaptureModeRelaxed));
    bool heeded = cudaMemsetAsync(p.a, 0, sizeof(int), nullptr) == cudaErrorStreamCaptureImplicit &&
                  cudaStreamEndCapture(heeding, &graph) == cudaErrorStreamCaptureInvalidated;
    CE_CUDA(cudaStreamDestroy(heeding));
    p.begin();
    return heeded && cudaMemsetAsync(p.a, 0, sizeof(int), nullptr) == cudaErrorStreamCaptureImplicit &&
           p.end() == cudaErrorStreamCaptureInvalidated;
}

const emulator_right emulator_graph_trials[] = {
    { "captured work runs by its graph", captured_work_runs_by_its_graph },
    { "streams fork and join", streams_fork_and_join },
    { "a missing edge shows", a_missing_edge_shows },
    { "borders are kept", borders_are_kept },
    { "what waits or takes memory spoils it", what_waits_or_takes_memory_spoils_it },
    { "the legacy stream spoils it", the_legacy_stream_spoils_it },
};
const int emulator_graph_trial_count = sizeof emulator_graph_trials / sizeof *emulator_graph_trials;
