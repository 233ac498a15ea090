/* run.cc - executes an operation graph by plain loops: sums in fp32, virtual tensors rounded to their types. */
#include "emulator.h"
#include "graph.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math.h>

/* The elements of a tensor, indexed by offset: in device memory, or in the vector `own`. */
struct place {
    cudnnDataType_t type;
    char *memory;
    std::vector<float> own;

    float load(int64_t offset) const
    {
        if (!memory)
            return own[(size_t)offset];
        if (type == CUDNN_DATA_HALF)
            return (float)((const __half *)memory)[offset];
        return type == CUDNN_DATA_BFLOAT16 ? (float)((const __nv_bfloat16 *)memory)[offset]
                                           : ((const float *)memory)[offset];
    }

    void store(int64_t offset, float value)
    {
        if (type == CUDNN_DATA_HALF && memory)
            ((__half *)memory)[offset] = __half(value);
        else if (type == CUDNN_DATA_BFLOAT16 && memory)
            ((__nv_bfloat16 *)memory)[offset] = __nv_bfloat16(value);
        else if (memory)
            ((float *)memory)[offset] = value;
        else
            own[(size_t)offset] = type == CUDNN_DATA_HALF       ? (float)__half(value)
                                  : type == CUDNN_DATA_BFLOAT16 ? (float)__nv_bfloat16(value)
                                                                : value;
    }
};

struct runner {
    const graph &of;
    std::vector<place> places;

    float load(int which, const int64_t *index) const
    {
        const tensor &x = of.tensors[(size_t)which];
        int64_t at[4];
        for (int i = 0; i < 4; i++)
            at[i] = x.size[i] == 1 ? 0 : index[i];
        return places[(size_t)which].load(x.at(at));
    }

    void store(int which, const int64_t *index, float value)
    {
        places[(size_t)which].store(of.tensors[(size_t)which].at(index), value);
    }

    template <typename Body> void each(int which, Body body)
    {
        const int64_t *size = of.tensors[(size_t)which].size;
        int64_t at[4];
        for (at[0] = 0; at[0] < size[0]; at[0]++)
            for (at[1] = 0; at[1] < size[1]; at[1]++)
                for (at[2] = 0; at[2] < size[2]; at[2]++)
                    for (at[3] = 0; at[3] < size[3]; at[3]++)
                        body(at);
    }

    float compute(const operation &op, const int64_t *at) const
    {
        float x = op.mode == CUDNN_POINTWISE_GEN_INDEX ? 0 : load(op.x, at), b = op.b < 0 ? 0 : load(op.b, at);
        switch (op.mode) {
        case CUDNN_POINTWISE_ADD:
            return x + b;
        case CUDNN_POINTWISE_SUB:
            return x - b;
        case CUDNN_POINTWISE_MUL:
            return x * b;
        case CUDNN_POINTWISE_DIV:
            return x / b;
        case CUDNN_POINTWISE_EXP:
            return expf(x);
        case CUDNN_POINTWISE_LOG:
            return logf(x);
        case CUDNN_POINTWISE_IDENTITY:
            return x;
        case CUDNN_POINTWISE_CMP_GE:
            return x >= b;
        case CUDNN_POINTWISE_GEN_INDEX:
            return (float)at[op.axis];
        case CUDNN_POINTWISE_BINARY_SELECT:
            return load(op.t, at) != 0 ? x : b;
        }
        emulator_fatal("cuDNN: pointwise mode %d is not known here", (int)op.mode);
    }

    void multiply(const operation &op)
    {
        const auto &a = of.tensors[(size_t)op.x], &b = of.tensors[(size_t)op.b];
        const auto &left = places[(size_t)op.x], &right = places[(size_t)op.b];
        int64_t group = a.size[1] / b.size[1], inner = a.size[3];
        each(op.y, [&](const int64_t *at) {
            int64_t first[4] = { at[0], at[1], at[2], 0 }, second[4] = { at[0], at[1] / group, 0, at[3] };
            int64_t i = a.at(first), j = b.at(second);
            float sum = 0;
            for (int64_t k = 0; k < inner; k++)
                sum += left.load(i + k * a.stride[3]) * right.load(j + k * b.stride[2]);
            store(op.y, at, sum);
        });
    }

    void reduce(const operation &op)
    {
        const auto &x = of.tensors[(size_t)op.x], &y = of.tensors[(size_t)op.y];
        bool max = op.reducer == CUDNN_REDUCE_TENSOR_MAX;
        each(op.y, [&](const int64_t *to) {
            int64_t from[4], end[4], at[4];
            float all = max ? -INFINITY : 0;
            for (int i = 0; i < 4; i++) {
                from[i] = to[i] * (x.size[i] / y.size[i]);
                end[i] = from[i] + x.size[i] / y.size[i];
            }
            for (at[0] = from[0]; at[0] < end[0]; at[0]++)
                for (at[1] = from[1]; at[1] < end[1]; at[1]++)
                    for (at[2] = from[2]; at[2] < end[2]; at[2]++)
                        for (at[3] = from[3]; at[3] < end[3]; at[3]++) {
                            float value = load(op.x, at);
                            /* a NaN makes the result NaN */
                            all = !max ? all + value : value > all || value != value ? value : all;
                        }
            store(op.y, to, all);
        });
    }

    /* Copies x to y. x and y may have different sizes and strides: an element of y is the element of x at the same
     * offset in memory. */
    void reshape(const operation &op)
    {
        const auto &y = of.tensors[(size_t)op.y];
        each(op.y,
             [&](const int64_t *at) { places[(size_t)op.y].store(y.at(at), places[(size_t)op.x].load(y.at(at))); });
    }

    void run(const operation &op)
    {
        switch (op.what) {
        case PRODUCT:
            return multiply(op);
        case REDUCTION:
            return reduce(op);
        case RESHAPE:
            return reshape(op);
        case POINTWISE:
            return each(op.y, [&](const int64_t *at) { store(op.y, at, compute(op, at)); });
        }
    }
};

void graph_run(const graph &given, const bindings &on)
{
    runner all = { given, {} };
    for (const auto &it : given.tensors) {
        place made = { it.type, nullptr, {} };
        if (it.is_virtual)
            made.own.resize((size_t)it.span(), NAN);
        else if (it.by_value)
            made.own = { on.at(it.number).value };
        else
            made.memory = (char *)on.at(it.number).memory;
        all.places.push_back(std::move(made));
    }
    for (const auto &op : given.operations)
        all.run(op);
}
