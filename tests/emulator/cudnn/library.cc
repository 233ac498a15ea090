/* library.cc - a fake cuDNN library: descriptors, a heuristic and plans, for graphs of attention only.
 *
 * Its heuristic returns three engines: the first is nondeterministic and runs nothing; the second has no plan; the
 * third executes the graph. The environment variable CSPEED_EMULATOR_CUDNN sets the version that the library reports.
 * The emulated CUDA module loads this library, whose operations run in the module's streams. */
#include "descriptor.h"
#include "emulator.h"

#include <stdlib.h>

enum { ENGINES = 3, UNSTEADY = 0, PLANLESS = 1 };

struct cudnnContext {
    cudaStream_t stream = nullptr;
};

static int runs;

/* For tests: the number of runs of plans. */
extern "C" int emulator_cudnn_runs(void)
{
    return runs;
}

/* ---- reading a graph ---- */

static cudnnStatus_t check_tensor(const descriptor &it)
{
    if (it.has.at(CUDNN_ATTR_TENSOR_DIMENSIONS).count != 4 || it.has.at(CUDNN_ATTR_TENSOR_STRIDES).count != 4)
        return CUDNN_STATUS_NOT_SUPPORTED;
    for (int64_t i = 0; i < 4; i++)
        if (it.get<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, i) < 1 || it.get<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, i) < 1)
            return CUDNN_STATUS_BAD_PARAM;
    return it.get<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT) % 4 == 0 ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

static int read_tensor(graph *into, const descriptor &of, int name)
{
    if (!of.has.count(name))
        return -1;
    const descriptor &it = of.part(name);
    tensor made = {};
    made.number = it.get<int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    made.type = it.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE);
    made.is_virtual = it.get_or(CUDNN_ATTR_TENSOR_IS_VIRTUAL, false);
    made.by_value = it.get_or(CUDNN_ATTR_TENSOR_IS_BY_VALUE, false);
    made.alignment = it.get<int64_t>(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
    for (int i = 0; i < 4; i++) {
        made.size[i] = it.get<int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS, i);
        made.stride[i] = it.get<int64_t>(CUDNN_ATTR_TENSOR_STRIDES, i);
    }
    return into->add(made);
}

static operation read_pointwise(graph *into, const descriptor &it)
{
    const descriptor &how = it.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    operation made = {};
    made.what = POINTWISE;
    made.mode = how.get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
    made.math = how.get<cudnnDataType_t>(CUDNN_ATTR_POINTWISE_MATH_PREC);
    made.axis = how.get_or(CUDNN_ATTR_POINTWISE_AXIS, (int64_t)-1);
    made.y = read_tensor(into, it, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    made.x = read_tensor(into, it, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    made.b = read_tensor(into, it, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    made.t = read_tensor(into, it, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    return made;
}

static operation read_operation(graph *into, const descriptor &it)
{
    operation made = {};
    made.b = made.t = -1;
    switch (it.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        return read_pointwise(into, it);
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        made.what = PRODUCT;
        made.math = it.part(CUDNN_ATTR_OPERATION_MATMUL_DESC).get<cudnnDataType_t>(CUDNN_ATTR_MATMUL_COMP_TYPE);
        made.x = read_tensor(into, it, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
        made.b = read_tensor(into, it, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
        made.y = read_tensor(into, it, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
        return made;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: {
        const descriptor &how = it.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC);
        made.what = REDUCTION;
        made.math = how.get<cudnnDataType_t>(CUDNN_ATTR_REDUCTION_COMP_TYPE);
        made.reducer = how.get<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
        made.x = read_tensor(into, it, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
        made.y = read_tensor(into, it, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
        return made;
    }
    default:
        made.what = RESHAPE;
        made.x = read_tensor(into, it, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
        made.y = read_tensor(into, it, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
        return made;
    }
}

static cudnnStatus_t read_graph(descriptor *it)
{
    it->whole = std::make_shared<graph>();
    for (int64_t i = 0; i < it->has.at(CUDNN_ATTR_OPERATIONGRAPH_OPS).count; i++)
        it->whole->operations.push_back(read_operation(it->whole.get(), it->part(CUDNN_ATTR_OPERATIONGRAPH_OPS, i)));
    return it->whole->order();
}

/* ---- finishing ---- */

static cudnnStatus_t finish_plan(descriptor *it)
{
    const descriptor &config = it->part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    it->whole = config.whole;
    it->engine = config.engine;
    return it->engine == PLANLESS ? CUDNN_STATUS_NOT_SUPPORTED : CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t given)
{
    descriptor *it = (descriptor *)given;
    if (it->finished || !descriptor_is_whole(*it))
        return CUDNN_STATUS_BAD_PARAM;
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    if (it->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR)
        status = check_tensor(*it);
    if (it->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
        status = read_graph(it);
    if (it->type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
        it->whole = it->part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH).whole;
        status = it->whole->recognise();
    }
    if (it->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        status = finish_plan(it);
    it->finished = status == CUDNN_STATUS_SUCCESS;
    return status;
}

/* ---- queries ---- */

/* Writes results to descriptors that the caller has created. */
static void fill(const descriptor &from, int64_t capacity, int64_t *count, void *values, int64_t max)
{
    for (*count = 0; *count < max && *count < capacity; ++*count) {
        descriptor *to = ((descriptor **)values)[*count];
        to->whole = from.whole;
        to->engine = from.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR ? (int)*count : from.engine;
        to->finished = true;
    }
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t given, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, int64_t capacity, int64_t *count, void *values)
{
    const descriptor *it = (const descriptor *)given;
    if (!it->finished)
        return CUDNN_STATUS_NOT_INITIALIZED;
    *count = 1;
    if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS)
        fill(*it, capacity, count, values, ENGINES);
    else if (name == CUDNN_ATTR_ENGINECFG_ENGINE)
        fill(*it, capacity, count, values, 1);
    else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE)
        *(cudnnBackendNumericalNote_t *)values =
            it->engine == UNSTEADY ? CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC : CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
        *(int64_t *)values = it->whole->workspace;
    else
        return CUDNN_STATUS_NOT_SUPPORTED;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- running ---- */

static void check(const graph &given, const bindings &on, void *workspace)
{
    for (const auto &it : given.tensors)
        if (!it.is_virtual && !it.by_value)
            emulator_check_range("cuDNN", on.at(it.number).memory, (size_t)it.span() * (it.is_narrow() ? 2 : 4));
    emulator_check_range("cuDNN's workspace", workspace, (size_t)given.workspace);
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
    emulator_guard guard(emulator_lock);
    const descriptor *it = (const descriptor *)plan, *on = (const descriptor *)pack;
    std::shared_ptr<graph> whole = it->whole;
    bindings bound;
    if (!it->finished || !on->finished || it->engine == UNSTEADY)
        return CUDNN_STATUS_BAD_PARAM;
    void *workspace = on->get<void *>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    for (int64_t i = 0; i < on->has.at(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS).count; i++)
        bound[on->get<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, i)] = {
            on->get<void *>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i), 0
        };
    for (const auto &given : whole->tensors) {
        if (given.is_virtual)
            continue;
        if (!bound.count(given.number) ||
            (!given.by_value && (intptr_t)bound[given.number].memory % given.alignment != 0))
            return CUDNN_STATUS_BAD_PARAM;
        if (given.by_value)
            bound[given.number].value = *(const float *)bound[given.number].memory;
        else if (!emulator_is_device(bound[given.number].memory))
            return CUDNN_STATUS_BAD_PARAM;
    }
    if (whole->workspace && !emulator_is_device(workspace))
        return CUDNN_STATUS_BAD_PARAM;
    runs++;
    emulator_enqueue(handle->stream, [whole, bound, workspace] {
        emulator_open open;
        check(*whole, bound, workspace);
        if (whole->workspace)
            memset(workspace, 0xff, (size_t)whole->workspace);
        graph_run(*whole, bound);
    });
    return CUDNN_STATUS_SUCCESS;
}

/* ---- handles ---- */

size_t cudnnGetVersion(void)
{
    const char *given = getenv("CSPEED_EMULATOR_CUDNN");
    return given ? strtoull(given, nullptr, 10) : 91900;
}

const char *cudnnGetErrorString(cudnnStatus_t status)
{
    switch (status) {
    case CUDNN_STATUS_SUCCESS:
        return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_NOT_INITIALIZED:
        return "CUDNN_STATUS_NOT_INITIALIZED";
    case CUDNN_STATUS_BAD_PARAM:
        return "CUDNN_STATUS_BAD_PARAM";
    default:
        return "CUDNN_STATUS_NOT_SUPPORTED";
    }
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle)
{
    *handle = new cudnnContext;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle)
{
    delete handle;
    return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}
