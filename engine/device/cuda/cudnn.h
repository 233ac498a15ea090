/* cudnn.h - attention through cuDNN's graph API, if its library is found at run time; internal to cudnn*.c.
 *
 * An attention is described to cuDNN as a graph of small operations on tensors. Tensors between two operations are
 * virtual: they are never stored. cuDNN's heuristic returns engines that run the whole graph as one fused kernel; an
 * execution plan is made of an engine and its configuration. Code that builds a graph need not check each call: after
 * the first failure all later calls do nothing, and graph->status and graph->what describe that failure. */
#ifndef CE_DEVICE_CUDA_CUDNN_H
#define CE_DEVICE_CUDA_CUDNN_H

#include "device/table.h"

#include <cudnn_graph.h>

/* ---- cudnn_library.c: loading the library ---- */

typedef struct {
    void *library;
    size_t (*version)(void);
    const char *(*describe)(cudnnStatus_t status);
    cudnnStatus_t (*open)(cudnnHandle_t *handle);
    cudnnStatus_t (*close)(cudnnHandle_t handle);
    cudnnStatus_t (*set_stream)(cudnnHandle_t handle, cudaStream_t stream);
    cudnnStatus_t (*create)(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *descriptor);
    cudnnStatus_t (*destroy)(cudnnBackendDescriptor_t descriptor);
    cudnnStatus_t (*finalize)(cudnnBackendDescriptor_t descriptor);
    cudnnStatus_t (*set)(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t count, const void *values);
    cudnnStatus_t (*get)(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t capacity, int64_t *count, void *values);
    cudnnStatus_t (*execute)(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack);
} ce_cudnn_library;

/* Loads the library that the environment variable CSPEED_CUDNN names, by default libcudnn.so.9. The library is never
 * unloaded. Errors: CS_NO_DEVICE if the library is not found, CS_UNSUPPORTED if the library is too old. */
cs_status ce_cudnn_library_open(ce_cudnn_library *library);

/* ---- cudnn_graph.c: building a graph of operations ---- */

enum { CE_CUDNN_PARTS = 160, CE_CUDNN_OPERATIONS = 40 };

typedef struct {
    const ce_cudnn_library *library;
    cudnnBackendDescriptor_t parts[CE_CUDNN_PARTS]; /* all descriptors of the graph, in the order of creation */
    cudnnBackendDescriptor_t operations[CE_CUDNN_OPERATIONS];
    int part_count, operation_count;
    int64_t next; /* identifier of the next virtual tensor */
    cudnnStatus_t status;
    const char *what; /* the first call that cuDNN refused */
} ce_cudnn_graph;

/* A tensor (samples, heads, rows, columns), which is in memory or virtual. */
typedef struct {
    cudnnBackendDescriptor_t descriptor;
    int64_t size[4], stride[4];
} ce_cudnn_tensor;

void ce_cudnn_graph_open(ce_cudnn_graph *graph, const ce_cudnn_library *library);
void ce_cudnn_graph_close(ce_cudnn_graph *graph);
bool ce_cudnn_graph_check(ce_cudnn_graph *graph, cudnnStatus_t status,
                          const char *what); /* returns false if the graph has failed */
/* Creates a descriptor, which the graph owns. The caller sets the descriptor's attributes and then finishes it. Returns
 * NULL if the graph has failed. */
cudnnBackendDescriptor_t ce_cudnn_graph_make(ce_cudnn_graph *graph, cudnnBackendDescriptorType_t type);
void ce_cudnn_graph_set(ce_cudnn_graph *graph, cudnnBackendDescriptor_t part, cudnnBackendAttributeName_t name,
                        cudnnBackendAttributeType_t type, int64_t count, const void *values);
void ce_cudnn_graph_finish(ce_cudnn_graph *graph, cudnnBackendDescriptor_t part, const char *what);

/* Declare inputs and outputs of a plan. Their addresses are given at each run. `number` identifies the input or output.
 * ce_cudnn_graph_memory declares a tensor in device memory, ce_cudnn_graph_number one float in host memory. */
ce_cudnn_tensor ce_cudnn_graph_memory(ce_cudnn_graph *graph, int64_t number, cudnnDataType_t type,
                                      const int64_t size[4], const int64_t stride[4]);
ce_cudnn_tensor ce_cudnn_graph_number(ce_cudnn_graph *graph, int64_t number);
/* Creates a virtual tensor with contiguous rows. */
ce_cudnn_tensor ce_cudnn_graph_virtual(ce_cudnn_graph *graph, cudnnDataType_t type, const int64_t size[4]);
/* Returns the transpose of x, with rows and columns exchanged but no copy. `type` may differ from the type of x if x is
 * virtual. */
ce_cudnn_tensor ce_cudnn_graph_transposed(ce_cudnn_graph *graph, ce_cudnn_tensor x, cudnnDataType_t type);

/* Add a pointwise operation y = mode(x, b). Operands are broadcast along dimensions of size 1. ce_cudnn_graph_one and
 * ce_cudnn_graph_two return y as a virtual fp32 tensor of x's size; ce_cudnn_graph_one has no b. */
void ce_cudnn_graph_map(ce_cudnn_graph *graph, cudnnPointwiseMode_t mode, ce_cudnn_tensor y, ce_cudnn_tensor x,
                        ce_cudnn_tensor b);
ce_cudnn_tensor ce_cudnn_graph_one(ce_cudnn_graph *graph, cudnnPointwiseMode_t mode, ce_cudnn_tensor x);
ce_cudnn_tensor ce_cudnn_graph_two(ce_cudnn_graph *graph, cudnnPointwiseMode_t mode, ce_cudnn_tensor x,
                                   ce_cudnn_tensor b);
/* Adds the causal mask. The result has `scores` for keys up to the row's own position, and `hidden` for later keys. */
ce_cudnn_tensor ce_cudnn_graph_causal(ce_cudnn_graph *graph, ce_cudnn_tensor scores, ce_cudnn_tensor hidden);
/* Adds the product c = a b, accumulated in fp32. b may have fewer heads than a. */
void ce_cudnn_graph_product(ce_cudnn_graph *graph, ce_cudnn_tensor c, ce_cudnn_tensor a, ce_cudnn_tensor b);
/* Adds the reduction of x over the dimensions in which y is smaller than x. */
void ce_cudnn_graph_reduce(ce_cudnn_graph *graph, cudnnReduceTensorOp_t how, ce_cudnn_tensor y, ce_cudnn_tensor x);

/* ---- cudnn_attention.c: the graphs of attention ---- */

typedef struct {
    int64_t samples, length, queries, keys, width;
    int64_t dtype; /* cs_dtype */
    int64_t grad;  /* 1: backward; 0: forward */
    /* the number of query heads and of key heads in a row of memory; at least `queries` and `keys` */
    int64_t row_queries, row_keys;
} ce_cudnn_shape;

/* The numbers that identify a plan's inputs and outputs. */
typedef enum {
    CE_CUDNN_Q = 1,
    CE_CUDNN_K,
    CE_CUDNN_V,
    CE_CUDNN_Y,
    CE_CUDNN_LSE,
    CE_CUDNN_SCALE,
    CE_CUDNN_HIDDEN,
    CE_CUDNN_DY,
    CE_CUDNN_DQ,
    CE_CUDNN_DK,
    CE_CUDNN_DV,
    CE_CUDNN_DELTA,
    CE_CUDNN_ONE,
    CE_CUDNN_NUMBERS
} ce_cudnn_number;

/* Builds the graph of forward, which computes y and lse from q, k, v; or of backward, which computes dq, dk, dv, and
 * also delta (B, H, T), from q, k, v, dy, y and lse. */
void ce_cudnn_attention_graph(ce_cudnn_graph *graph, const ce_cudnn_shape *shape);

/* ---- cudnn_plan.c: choosing an engine ---- */

/* The GPU for which plans are made: an open handle, or the description of a GPU that need not be present. */
typedef struct {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t device; /* the description; NULL: plans are made for the GPU of the handle */
} ce_cudnn_target;

typedef struct {
    ce_cudnn_graph graph; /* the graph owns the descriptors, which must live as long as the plan */
    cudnnBackendDescriptor_t plan;
    ce_cudnn_shape shape; /* the shape of the attention that one run computes */
    /* bytes of workspace; after a failed open, the smallest number of bytes that an engine needs, or 0 if no engine can
     * run the graph */
    int64_t workspace;
} ce_cudnn_plan;

/* Opens a plan: takes the first engine of the heuristic's list that is deterministic and needs at most `max` bytes of
 * workspace. Fails with CS_UNSUPPORTED if there is no such engine. */
cs_status ce_cudnn_plan_open(ce_cudnn_plan *plan, const ce_cudnn_library *library, const ce_cudnn_target *target,
                             const ce_cudnn_shape *shape, int64_t max);
void ce_cudnn_plan_close(ce_cudnn_plan *plan); /* must also be called after a failed open */

/* ---- cudnn_pieces.c: one plan, run on several parts (pieces) of an attention ---- */

/* Limits on the workspace of a plan. */
typedef struct {
    int64_t max;          /* limit in bytes for a piece that can still be divided */
    int64_t max_smallest; /* limit in bytes for the smallest piece, one key head of one sample */
} ce_cudnn_bound;

/* Opens a plan for the whole attention if the plan's workspace is within the limits `bound`. Otherwise the function
 * divides the attention into pieces of equal size, until a plan for one piece is within the limits, and opens this
 * plan. A piece is some of the samples, or some key heads of one sample with the query heads that share them. Fails
 * with CS_UNSUPPORTED if no engine can run the graph, or if even the smallest piece exceeds the limits. */
cs_status ce_cudnn_pieces_open(ce_cudnn_plan *plan, const ce_cudnn_library *library, const ce_cudnn_target *target,
                               const ce_cudnn_shape *whole, ce_cudnn_bound bound);
int64_t ce_cudnn_pieces(const ce_cudnn_plan *plan, const ce_cudnn_shape *whole); /* returns the number of pieces */
/* Returns the address to pass to the plan for piece `index`; `first` is the address for the whole attention. */
void *ce_cudnn_piece_address(const ce_cudnn_plan *plan, const ce_cudnn_shape *whole, int64_t index,
                             ce_cudnn_number number, void *first);

#endif
