/* graph.h - the fake cuDNN's operation graph, read from descriptors, and its execution. */
#ifndef CS_EMULATOR_CUDNN_H
#define CS_EMULATOR_CUDNN_H

#include <cudnn_graph.h>

#include <map>
#include <vector>

struct tensor {
    int64_t number; /* unique identifier */
    cudnnDataType_t type;
    int64_t size[4], stride[4], alignment; /* alignment of the address, in bytes */
    bool is_virtual, by_value;

    int64_t at(const int64_t *index) const;
    int64_t span() const; /* number of elements from the first to the last, gaps included */
    bool is_narrow() const
    {
        return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
    }
};

enum kind { POINTWISE, PRODUCT, REDUCTION, RESHAPE };

/* y, x, b and t are indices of the graph's tensors; -1: there is none. y is the result. For a product c = a b, x is a
 * and y is c. */
struct operation {
    kind what;
    cudnnPointwiseMode_t mode;
    cudnnReduceTensorOp_t reducer;
    cudnnDataType_t math;
    int64_t axis;
    int y, x, b, t;
};

struct graph {
    std::vector<tensor> tensors;
    std::vector<operation> operations; /* in topological order */
    int64_t workspace = 0;

    int add(const tensor &given); /* returns the index of the tensor with this `number`; adds the tensor if it is new */
    cudnnStatus_t order();        /* sorts the operations; returns an error if they cannot be computed */
    cudnnStatus_t recognise();    /* returns an error if the graph is not a supported attention */
};

/* The value of a tensor that is not virtual: an address in device memory, or a number. */
struct binding {
    void *memory;
    float value;
};
using bindings = std::map<int64_t, binding>; /* the key is the tensor's unique identifier */

/* Executes the graph; device memory must be accessible (emulator_open). */
void graph_run(const graph &given, const bindings &on);

#endif
