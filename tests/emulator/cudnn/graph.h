/* graph.h - an operation graph as the fake cuDNN reads it from its descriptors, and running it. */
#ifndef CS_EMULATOR_CUDNN_H
#define CS_EMULATOR_CUDNN_H

#include <cudnn_graph.h>

#include <map>
#include <vector>

struct tensor {
    int64_t number; /* unique */
    cudnnDataType_t type;
    int64_t size[4], stride[4], alignment; /* alignment: of the address, in bytes */
    bool is_virtual, by_value;

    int64_t at(const int64_t *index) const;
    int64_t span() const; /* elements from the first to the last */
    bool is_narrow() const
    {
        return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
    }
};

enum kind { POINTWISE, PRODUCT, REDUCTION, RESHAPE };

/* Tensors are indices of the graph's; -1: absent. Of a product a is x, c is y. */
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
    std::vector<operation> operations; /* in an order in which each finds its inputs */
    int64_t workspace = 0;

    int add(const tensor &given); /* its index; the same number twice is one tensor */
    cudnnStatus_t order();        /* refuses what cannot be computed          */
    cudnnStatus_t recognise();    /* refuses what is no attention that is run */
};

/* What tensors of memory are given: device memory, or a float. */
struct binding {
    void *memory;
    float value;
};
using bindings = std::map<int64_t, binding>; /* by number */

/* On device memory that is open. */
void graph_run(const graph &given, const bindings &on);

#endif
