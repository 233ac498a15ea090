/* cudnn.h - attention through cuDNN's graph API, where its library is found at run time; for cudnn*.c.
 *
 * An attention is described to cuDNN as a graph of small operations on tensors; those between two operations are
 * virtual and never stored. cuDNN's heuristic names engines that run the whole graph as one fused kernel, and an
 * engine with its choices becomes a plan. A graph is built without looking at each return: after the first call that
 * fails the others do nothing, and graph->status and graph->what tell which it was. */
#ifndef CS_DEVICE_CUDA_CUDNN_H
#define CS_DEVICE_CUDA_CUDNN_H

#include "device/table.h"

#include <cudnn_graph.h>

/* ---- cudnn_library.c: the door ---- */

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
                         cudnnBackendAttributeType_t type, int64_t room, int64_t *count, void *values);
    cudnnStatus_t (*execute)(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack);
} cs_cudnn_library;

/* The library that the environment's CSPEED_CUDNN names, else libcudnn.so.9; it stays, as the module does. With a
 * sentence: CS_NO_DEVICE where it is not there, CS_UNSUPPORTED where it is too old to be used. */
cs_status cs_cudnn_library_open(cs_cudnn_library *library);

/* ---- cudnn_graph.c: operations ---- */

enum { CS_CUDNN_PARTS = 160, CS_CUDNN_OPERATIONS = 40 };

typedef struct {
    const cs_cudnn_library *library;
    cudnnBackendDescriptor_t parts[CS_CUDNN_PARTS]; /* all that was made, in order */
    cudnnBackendDescriptor_t operations[CS_CUDNN_OPERATIONS];
    int part_count, operation_count;
    int64_t next; /* number of a virtual tensor */
    cudnnStatus_t status;
    const char *what; /* was refused */
} cs_cudnn_graph;

/* (samples, heads, rows, columns), of memory or virtual */
typedef struct {
    cudnnBackendDescriptor_t descriptor;
    int64_t size[4], stride[4];
} cs_cudnn_tensor;

void cs_cudnn_graph_open(cs_cudnn_graph *graph, const cs_cudnn_library *library);
void cs_cudnn_graph_close(cs_cudnn_graph *graph);
bool cs_cudnn_graph_check(cs_cudnn_graph *graph, cudnnStatus_t status, const char *what); /* false: has failed */
/* Makes a part; set its attributes, then finish it. NULL where the graph has failed. */
cudnnBackendDescriptor_t cs_cudnn_graph_make(cs_cudnn_graph *graph, cudnnBackendDescriptorType_t type);
void cs_cudnn_graph_set(cs_cudnn_graph *graph, cudnnBackendDescriptor_t part, cudnnBackendAttributeName_t name,
                        cudnnBackendAttributeType_t type, int64_t count, const void *values);
void cs_cudnn_graph_finish(cs_cudnn_graph *graph, cudnnBackendDescriptor_t part, const char *what);

/* What plans are given the address of by its number: device memory, or a float of the host's. */
cs_cudnn_tensor cs_cudnn_graph_memory(cs_cudnn_graph *graph, int64_t number, cudnnDataType_t type,
                                      const int64_t size[4], const int64_t stride[4]);
cs_cudnn_tensor cs_cudnn_graph_number(cs_cudnn_graph *graph, int64_t number);
/* Rows packed. */
cs_cudnn_tensor cs_cudnn_graph_virtual(cs_cudnn_graph *graph, cudnnDataType_t type, const int64_t size[4]);
/* The same memory with rows and columns exchanged; of another type where it is virtual. */
cs_cudnn_tensor cs_cudnn_graph_turned(cs_cudnn_graph *graph, cs_cudnn_tensor x, cudnnDataType_t type);

/* Operands are broadcast along sizes of 1; y is set, or, as what is returned, virtual, fp32 and as large as x. */
void cs_cudnn_graph_map(cs_cudnn_graph *graph, cudnnPointwiseMode_t mode, cs_cudnn_tensor y, cs_cudnn_tensor x,
                        cs_cudnn_tensor b);
cs_cudnn_tensor cs_cudnn_graph_one(cs_cudnn_graph *graph, cudnnPointwiseMode_t mode, cs_cudnn_tensor x);
cs_cudnn_tensor cs_cudnn_graph_two(cs_cudnn_graph *graph, cudnnPointwiseMode_t mode, cs_cudnn_tensor x,
                                   cs_cudnn_tensor b);
/* Scores where a row sees a key that is not behind it, `hidden` elsewhere. */
cs_cudnn_tensor cs_cudnn_graph_causal(cs_cudnn_graph *graph, cs_cudnn_tensor scores, cs_cudnn_tensor hidden);
/* c = a b, where heads of b may be fewer; summed in fp32. */
void cs_cudnn_graph_product(cs_cudnn_graph *graph, cs_cudnn_tensor c, cs_cudnn_tensor a, cs_cudnn_tensor b);
/* Over the sizes in which y is smaller. */
void cs_cudnn_graph_reduce(cs_cudnn_graph *graph, cudnnReduceTensorOp_t how, cs_cudnn_tensor y, cs_cudnn_tensor x);

/* ---- cudnn_attention.c: attention's graphs ---- */

typedef struct {
    int64_t samples, length, queries, keys, width;
    int64_t dtype;                 /* cs_dtype */
    int64_t grad;                  /* 1: backward */
    int64_t row_queries, row_keys; /* heads in a row of memory, of which the attention takes `queries` and `keys` */
} cs_cudnn_shape;

/* Numbers of what a plan is given. */
typedef enum {
    CS_CUDNN_Q = 1,
    CS_CUDNN_K,
    CS_CUDNN_V,
    CS_CUDNN_Y,
    CS_CUDNN_LSE,
    CS_CUDNN_SCALE,
    CS_CUDNN_HIDDEN,
    CS_CUDNN_DY,
    CS_CUDNN_DQ,
    CS_CUDNN_DK,
    CS_CUDNN_DV,
    CS_CUDNN_DELTA,
    CS_CUDNN_ONE,
    CS_CUDNN_NUMBERS
} cs_cudnn_number;

/* y, lse of q, k, v; or dq, dk, dv of them, dy, y and lse; delta (B, H, T) is written on the way. */
void cs_cudnn_attention_graph(cs_cudnn_graph *graph, const cs_cudnn_shape *shape);

/* ---- cudnn_plan.c ---- */

/* What plans are made for: an open handle, or a description of a GPU that need not be here. */
typedef struct {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t device; /* NULL: the handle's */
} cs_cudnn_target;

typedef struct {
    cs_cudnn_graph graph; /* what the plan was made of lives as long */
    cudnnBackendDescriptor_t plan;
    cs_cudnn_shape shape; /* what the plan computes */
    int64_t workspace;    /* bytes; of a plan that failed to open: the fewest that any engine needs, or 0 */
} cs_cudnn_plan;

/* The heuristic's first engine that gives the same bits each time, and needs no more than `most` bytes. CS_UNSUPPORTED
 * with a sentence where there is none. */
cs_status cs_cudnn_plan_open(cs_cudnn_plan *plan, const cs_cudnn_library *library, const cs_cudnn_target *target,
                             const cs_cudnn_shape *shape, int64_t max);
void cs_cudnn_plan_close(cs_cudnn_plan *plan); /* accepts one that failed to open */

/* ---- cudnn_pieces.c: one plan, run on several parts of an attention ---- */

/* How much workspace plans may need. */
typedef struct {
    int64_t max;  /* bytes of a plan that could be made for a smaller piece instead        */
    int64_t room; /* bytes of a plan for one sample and one key head, which is the smallest */
} cs_cudnn_bound;

/* A plan for the whole attention, or else for the largest equal piece of it within the bound: some of the samples, or
 * of one sample some of the key heads, with the query heads that share them. */
cs_status cs_cudnn_pieces_open(cs_cudnn_plan *plan, const cs_cudnn_library *library, const cs_cudnn_target *target,
                               const cs_cudnn_shape *whole, cs_cudnn_bound bound);
int64_t cs_cudnn_pieces(const cs_cudnn_plan *plan, const cs_cudnn_shape *whole); /* how many */
/* The address that the plan is given in place of `first`, the whole attention's, to compute piece `index`. */
void *cs_cudnn_piece_address(const cs_cudnn_plan *plan, const cs_cudnn_shape *whole, int64_t index,
                             cs_cudnn_number number, void *first);

#endif
