/* cudnn_graph.c - builds graphs of cuDNN operations: tensor descriptors and operation descriptors. */
#include "base/must.h"
#include "device/cuda/cudnn.h"

#include <string.h>

void ce_cudnn_graph_open(ce_cudnn_graph *graph, const ce_cudnn_library *library)
{
    *graph = (ce_cudnn_graph){ .library = library, .next = CE_CUDNN_NUMBERS, .status = CUDNN_STATUS_SUCCESS };
}

void ce_cudnn_graph_close(ce_cudnn_graph *graph)
{
    while (graph->part_count > 0)
        graph->library->destroy(graph->parts[--graph->part_count]);
}

bool ce_cudnn_graph_check(ce_cudnn_graph *graph, cudnnStatus_t status, const char *what)
{
    if (graph->status == CUDNN_STATUS_SUCCESS && status != CUDNN_STATUS_SUCCESS) {
        graph->status = status;
        graph->what = what;
    }
    return graph->status == CUDNN_STATUS_SUCCESS;
}

cudnnBackendDescriptor_t ce_cudnn_graph_make(ce_cudnn_graph *graph, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t part = NULL;
    CE_ASSERT(graph->part_count < CE_CUDNN_PARTS);
    if (graph->status != CUDNN_STATUS_SUCCESS ||
        !ce_cudnn_graph_check(graph, graph->library->create(type, &part), "a descriptor"))
        return NULL;
    return graph->parts[graph->part_count++] = part;
}

void ce_cudnn_graph_set(ce_cudnn_graph *graph, cudnnBackendDescriptor_t part, cudnnBackendAttributeName_t name,
                        cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    if (graph->status == CUDNN_STATUS_SUCCESS)
        ce_cudnn_graph_check(graph, graph->library->set(part, name, type, count, values), "an attribute");
}

void ce_cudnn_graph_finish(ce_cudnn_graph *graph, cudnnBackendDescriptor_t part, const char *what)
{
    if (graph->status == CUDNN_STATUS_SUCCESS)
        ce_cudnn_graph_check(graph, graph->library->finalize(part), what);
}

static void set_number(ce_cudnn_graph *graph, cudnnBackendDescriptor_t part, cudnnBackendAttributeName_t name,
                       int64_t value)
{
    ce_cudnn_graph_set(graph, part, name, CUDNN_TYPE_INT64, 1, &value);
}

static void set_type(ce_cudnn_graph *graph, cudnnBackendDescriptor_t part, cudnnBackendAttributeName_t name,
                     cudnnDataType_t type)
{
    ce_cudnn_graph_set(graph, part, name, CUDNN_TYPE_DATA_TYPE, 1, &type);
}

static void set_part(ce_cudnn_graph *graph, cudnnBackendDescriptor_t part, cudnnBackendAttributeName_t name,
                     cudnnBackendDescriptor_t value)
{
    ce_cudnn_graph_set(graph, part, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void add_operation(ce_cudnn_graph *graph, cudnnBackendDescriptor_t part, const char *what)
{
    ce_cudnn_graph_finish(graph, part, what);
    CE_ASSERT(graph->operation_count < CE_CUDNN_OPERATIONS);
    graph->operations[graph->operation_count++] = part;
}

/* ---- tensors ---- */

typedef enum { MEMORY, VIRTUAL, BY_VALUE } place;

static ce_cudnn_tensor make_tensor(ce_cudnn_graph *graph, int64_t number, cudnnDataType_t type, ce_cudnn_tensor like,
                                   place where)
{
    bool yes = true;
    cudnnBackendDescriptor_t part = like.descriptor = ce_cudnn_graph_make(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set_number(graph, part, CUDNN_ATTR_TENSOR_UNIQUE_ID, number);
    set_number(graph, part, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, type == CUDNN_DATA_FLOAT ? sizeof(float) : 16);
    set_type(graph, part, CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    ce_cudnn_graph_set(graph, part, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, like.size);
    ce_cudnn_graph_set(graph, part, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, like.stride);
    if (where == VIRTUAL)
        ce_cudnn_graph_set(graph, part, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (where == BY_VALUE)
        ce_cudnn_graph_set(graph, part, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    ce_cudnn_graph_finish(graph, part, "a tensor");
    return like;
}

ce_cudnn_tensor ce_cudnn_graph_memory(ce_cudnn_graph *graph, int64_t number, cudnnDataType_t type,
                                      const int64_t size[4], const int64_t stride[4])
{
    ce_cudnn_tensor x;
    memcpy(x.size, size, sizeof x.size);
    memcpy(x.stride, stride, sizeof x.stride);
    return make_tensor(graph, number, type, x, MEMORY);
}

ce_cudnn_tensor ce_cudnn_graph_number(ce_cudnn_graph *graph, int64_t number)
{
    ce_cudnn_tensor x = { .size = { 1, 1, 1, 1 }, .stride = { 1, 1, 1, 1 } };
    return make_tensor(graph, number, CUDNN_DATA_FLOAT, x, BY_VALUE);
}

ce_cudnn_tensor ce_cudnn_graph_virtual(ce_cudnn_graph *graph, cudnnDataType_t type, const int64_t size[4])
{
    ce_cudnn_tensor x = { .stride = { size[1] * size[2] * size[3], size[2] * size[3], size[3], 1 } };
    memcpy(x.size, size, sizeof x.size);
    return make_tensor(graph, graph->next++, type, x, VIRTUAL);
}

ce_cudnn_tensor ce_cudnn_graph_transposed(ce_cudnn_graph *graph, ce_cudnn_tensor x, cudnnDataType_t type)
{
    ce_cudnn_tensor y = x;
    y.size[2] = x.size[3], y.size[3] = x.size[2];
    y.stride[2] = x.stride[3], y.stride[3] = x.stride[2];
    y = make_tensor(graph, graph->next++, type, y, VIRTUAL);
    cudnnBackendDescriptor_t part = ce_cudnn_graph_make(graph, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_part(graph, part, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x.descriptor);
    set_part(graph, part, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y.descriptor);
    add_operation(graph, part, "a reshape");
    return y;
}

/* ---- operations ---- */

/* The arguments of a pointwise operation. If the operation has no operand `b` or `t`, that member is NULL. If it has no
 * axis, `axis` is 0. */
typedef struct {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t math;
    int64_t axis;
    cudnnBackendDescriptor_t y, x, b, t;
} pointwise;

static void add_pointwise(ce_cudnn_graph *graph, const pointwise *given)
{
    cudnnBackendDescriptor_t how = ce_cudnn_graph_make(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    ce_cudnn_graph_set(graph, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &given->mode);
    set_type(graph, how, CUDNN_ATTR_POINTWISE_MATH_PREC, given->math);
    if (given->axis)
        set_number(graph, how, CUDNN_ATTR_POINTWISE_AXIS, given->axis);
    ce_cudnn_graph_finish(graph, how, "a pointwise operation's kind");

    cudnnBackendDescriptor_t part = ce_cudnn_graph_make(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_part(graph, part, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_part(graph, part, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, given->x);
    if (given->b)
        set_part(graph, part, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, given->b);
    if (given->t)
        set_part(graph, part, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, given->t);
    set_part(graph, part, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, given->y);
    add_operation(graph, part, "a pointwise operation");
}

void ce_cudnn_graph_map(ce_cudnn_graph *graph, cudnnPointwiseMode_t mode, ce_cudnn_tensor y, ce_cudnn_tensor x,
                        ce_cudnn_tensor b)
{
    pointwise given = { mode, CUDNN_DATA_FLOAT, 0, y.descriptor, x.descriptor, b.descriptor, NULL };
    add_pointwise(graph, &given);
}

ce_cudnn_tensor ce_cudnn_graph_two(ce_cudnn_graph *graph, cudnnPointwiseMode_t mode, ce_cudnn_tensor x,
                                   ce_cudnn_tensor b)
{
    ce_cudnn_tensor y = ce_cudnn_graph_virtual(graph, CUDNN_DATA_FLOAT, x.size);
    ce_cudnn_graph_map(graph, mode, y, x, b);
    return y;
}

ce_cudnn_tensor ce_cudnn_graph_one(ce_cudnn_graph *graph, cudnnPointwiseMode_t mode, ce_cudnn_tensor x)
{
    return ce_cudnn_graph_two(graph, mode, x, (ce_cudnn_tensor){ 0 });
}

static ce_cudnn_tensor index_of(ce_cudnn_graph *graph, ce_cudnn_tensor x, int64_t axis)
{
    ce_cudnn_tensor y = ce_cudnn_graph_virtual(graph, CUDNN_DATA_INT32, x.size);
    pointwise given = { .mode = CUDNN_POINTWISE_GEN_INDEX, .math = CUDNN_DATA_INT32, .axis = axis };
    given.y = y.descriptor, given.x = x.descriptor;
    add_pointwise(graph, &given);
    return y;
}

ce_cudnn_tensor ce_cudnn_graph_causal(ce_cudnn_graph *graph, ce_cudnn_tensor scores, ce_cudnn_tensor hidden)
{
    ce_cudnn_tensor row = index_of(graph, scores, 2), column = index_of(graph, scores, 3);
    ce_cudnn_tensor seen = ce_cudnn_graph_virtual(graph, CUDNN_DATA_BOOLEAN, scores.size);
    ce_cudnn_tensor y = ce_cudnn_graph_virtual(graph, CUDNN_DATA_FLOAT, scores.size);
    pointwise given = { CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, 0,   seen.descriptor,
                        row.descriptor,         column.descriptor,  NULL };
    add_pointwise(graph, &given);
    given = (pointwise){ CUDNN_POINTWISE_BINARY_SELECT,
                         CUDNN_DATA_FLOAT,
                         0,
                         y.descriptor,
                         scores.descriptor,
                         hidden.descriptor,
                         seen.descriptor };
    add_pointwise(graph, &given);
    return y;
}

void ce_cudnn_graph_product(ce_cudnn_graph *graph, ce_cudnn_tensor c, ce_cudnn_tensor a, ce_cudnn_tensor b)
{
    cudnnBackendDescriptor_t how = ce_cudnn_graph_make(graph, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set_type(graph, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    ce_cudnn_graph_finish(graph, how, "a product's kind");
    cudnnBackendDescriptor_t part = ce_cudnn_graph_make(graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_part(graph, part, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a.descriptor);
    set_part(graph, part, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b.descriptor);
    set_part(graph, part, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c.descriptor);
    set_part(graph, part, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    add_operation(graph, part, "a product");
}

void ce_cudnn_graph_reduce(ce_cudnn_graph *graph, cudnnReduceTensorOp_t how, ce_cudnn_tensor y, ce_cudnn_tensor x)
{
    cudnnBackendDescriptor_t kind = ce_cudnn_graph_make(graph, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set_type(graph, kind, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT);
    ce_cudnn_graph_set(graph, kind, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
    ce_cudnn_graph_finish(graph, kind, "a reduction's kind");
    cudnnBackendDescriptor_t part = ce_cudnn_graph_make(graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_part(graph, part, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x.descriptor);
    set_part(graph, part, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y.descriptor);
    set_part(graph, part, CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
    add_operation(graph, part, "a reduction");
}
