/* cudnn_plan.c - chooses the cuDNN engine that runs an attention, and creates its execution plan. */
#include "base/status.h"
#include "device/cuda/cudnn.h"

enum { ENGINES = 16 };

/* Makes cuDNN's operation graph from all operations of `graph`. */
static cudnnBackendDescriptor_t close_graph(ce_cudnn_graph *graph, const ce_cudnn_target *target)
{
    cudnnBackendDescriptor_t whole = ce_cudnn_graph_make(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    ce_cudnn_graph_set(graph, whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                       graph->operation_count, graph->operations);
    if (target->handle)
        ce_cudnn_graph_set(graph, whole, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &target->handle);
    ce_cudnn_graph_finish(graph, whole, "attention's graph");
    return whole;
}

/* Asks the heuristic for engine configurations, the best first. Returns their number. */
static int64_t ask(ce_cudnn_graph *graph, const ce_cudnn_target *target, cudnnBackendDescriptor_t whole,
                   cudnnBackendDescriptor_t configs[ENGINES])
{
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    cudnnBackendDescriptor_t asked = ce_cudnn_graph_make(graph, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t count = 0;
    ce_cudnn_graph_set(graph, asked, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &whole);
    ce_cudnn_graph_set(graph, asked, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (target->device)
        ce_cudnn_graph_set(graph, asked, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                           &target->device);
    ce_cudnn_graph_finish(graph, asked, "the heuristic");
    for (int i = 0; i < ENGINES; i++)
        configs[i] = ce_cudnn_graph_make(graph, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (graph->status == CUDNN_STATUS_SUCCESS)
        ce_cudnn_graph_check(graph,
                             graph->library->get(asked, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                 ENGINES, &count, configs),
                             "the heuristic's answer");
    return count < ENGINES ? count : ENGINES;
}

/* Returns whether an engine is deterministic. */
static bool is_deterministic(ce_cudnn_graph *graph, cudnnBackendDescriptor_t config)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendDescriptor_t engine = ce_cudnn_graph_make(graph, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    int64_t count = 0;
    if (!engine || graph->library->get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                       &engine) != CUDNN_STATUS_SUCCESS)
        return false;
    if (graph->library->get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                            CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes) != CUDNN_STATUS_SUCCESS)
        return false;
    for (int64_t i = 0; i < count; i++)
        if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
            return false;
    return true;
}

/* Creates a plan with this engine configuration. Returns false if the engine cannot run the graph. */
static bool make_plan(ce_cudnn_plan *plan, const ce_cudnn_target *target, cudnnBackendDescriptor_t config)
{
    const ce_cudnn_library *library = plan->graph.library;
    int64_t count = 0;
    if (library->create(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan->plan) != CUDNN_STATUS_SUCCESS)
        return false;
    if (library->set(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config))
        return false;
    if (target->handle &&
        library->set(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &target->handle))
        return false;
    if (target->device && library->set(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                       1, &target->device))
        return false;
    return library->finalize(plan->plan) == CUDNN_STATUS_SUCCESS &&
           library->get(plan->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                        &plan->workspace) == CUDNN_STATUS_SUCCESS;
}

/* up to version 9.15, backward is wrong if the keys do not fill whole tiles */
static bool is_known_wrong(const ce_cudnn_library *library, const ce_cudnn_shape *shape)
{
    return shape->grad && shape->length % 128 != 0 && library->version() <= 91500;
}

/* Creates a plan with the first of `count` engine configurations that can run the graph within `max` bytes of
 * workspace. */
static bool choose(ce_cudnn_plan *plan, const ce_cudnn_target *target, const cudnnBackendDescriptor_t *configs,
                   int64_t count, int64_t max)
{
    const ce_cudnn_library *library = plan->graph.library;
    int64_t fewest = 0;
    for (int64_t i = 0; i < count; i++) {
        if (is_deterministic(&plan->graph, configs[i]) && make_plan(plan, target, configs[i])) {
            if (plan->workspace <= max)
                return true;
            fewest = fewest && fewest < plan->workspace ? fewest : plan->workspace;
        }
        if (plan->plan)
            library->destroy(plan->plan);
        plan->plan = NULL;
    }
    plan->workspace = fewest;
    return false;
}

cs_status ce_cudnn_plan_open(ce_cudnn_plan *plan, const ce_cudnn_library *library, const ce_cudnn_target *target,
                             const ce_cudnn_shape *shape, int64_t max)
{
    cudnnBackendDescriptor_t configs[ENGINES], whole;
    ce_cudnn_graph *graph = &plan->graph;
    *plan = (ce_cudnn_plan){ .shape = *shape };
    if (is_known_wrong(library, shape))
        return ce_fail(CS_UNSUPPORTED,
                       "its version %zu computes wrong results for lengths that are not multiples of 128",
                       library->version());
    ce_cudnn_graph_open(graph, library);
    ce_cudnn_attention_graph(graph, shape);
    whole = close_graph(graph, target);
    int64_t count = ask(graph, target, whole, configs);
    if (choose(plan, target, configs, count, max))
        return CS_OK;
    ce_cudnn_graph_close(graph);
    if (graph->status != CUDNN_STATUS_SUCCESS)
        return ce_fail(CS_UNSUPPORTED, "it refuses %s: %s", graph->what, library->describe(graph->status));
    return ce_fail(CS_UNSUPPORTED, "none of its %lld engines runs it within %lld bytes of workspace", (long long)count,
                   (long long)max);
}

void ce_cudnn_plan_close(ce_cudnn_plan *plan)
{
    if (plan->plan)
        plan->graph.library->destroy(plan->plan);
    ce_cudnn_graph_close(&plan->graph);
    plan->plan = NULL;
}
