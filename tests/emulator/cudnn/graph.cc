/* graph.cc - checks which operation graphs the fake cuDNN supports. */
#include "graph.h"

#include <set>

int64_t tensor::at(const int64_t *index) const
{
    return index[0] * stride[0] + index[1] * stride[1] + index[2] * stride[2] + index[3] * stride[3];
}

int64_t tensor::span() const
{
    int64_t last[4] = { size[0] - 1, size[1] - 1, size[2] - 1, size[3] - 1 };
    return at(last) + 1;
}

int graph::add(const tensor &given)
{
    for (size_t i = 0; i < tensors.size(); i++)
        if (tensors[i].number == given.number)
            return (int)i;
    tensors.push_back(given);
    return (int)tensors.size() - 1;
}

/* ---- sizes ---- */

static bool is_broadcast(const tensor &x, const tensor &y)
{
    for (int i = 0; i < 4; i++)
        if (x.size[i] != y.size[i] && x.size[i] != 1)
            return false;
    return true;
}

static bool is_divided(const tensor &x, const tensor &y)
{
    for (int i = 0; i < 4; i++)
        if (x.size[i] % y.size[i] != 0)
            return false;
    return true;
}

static bool is_product(const tensor &c, const tensor &a, const tensor &b)
{
    return c.size[0] == a.size[0] && c.size[0] == b.size[0] && c.size[1] == a.size[1] && c.size[1] % b.size[1] == 0 &&
           c.size[2] == a.size[2] && c.size[3] == b.size[3] && a.size[3] == b.size[2];
}

static bool fits(const graph &given, const operation &op)
{
    const auto &all = given.tensors;
    const auto &y = all[op.y], &x = all[op.x];
    switch (op.what) {
    case PRODUCT:
        return is_product(y, x, all[op.b]) && all[op.b].is_narrow() && op.math == CUDNN_DATA_FLOAT;
    case REDUCTION:
        return is_divided(x, y) && op.math == CUDNN_DATA_FLOAT;
    case RESHAPE:
        return x.span() == y.span() && y.is_virtual;
    default:
        return is_broadcast(x, y) && (op.b < 0 || is_broadcast(all[op.b], y)) &&
               (op.t < 0 || (is_broadcast(all[op.t], y) && all[op.t].type == CUDNN_DATA_BOOLEAN));
    }
}

/* ---- order ---- */

cudnnStatus_t graph::order()
{
    std::vector<operation> left = std::move(operations);
    std::set<int> made, results;
    operations.clear();
    for (const auto &op : left)
        if (!results.insert(op.y).second || tensors[op.y].by_value)
            return CUDNN_STATUS_BAD_PARAM; /* two operations write the tensor, or it is passed by value */
    auto is_ready = [&](int i) { return i < 0 || made.count(i) || (!tensors[i].is_virtual && !results.count(i)); };
    while (!left.empty()) {
        size_t next = 0;
        while (next < left.size() && !(is_ready(left[next].x) && is_ready(left[next].b) && is_ready(left[next].t)))
            next++;
        if (next == left.size() || !fits(*this, left[next]))
            return CUDNN_STATUS_BAD_PARAM;
        made.insert(left[next].y);
        operations.push_back(left[next]);
        left.erase(left.begin() + (long)next);
    }
    return CUDNN_STATUS_SUCCESS;
}

/* ---- supported graphs ---- */

/* Returns whether the columns of a head are contiguous, and their number is a multiple of 8 and at most 256. */
static bool is_head(const tensor &given)
{
    int columns = given.stride[3] == 1 ? 3 : 2;
    return given.stride[columns] == 1 && given.size[columns] % 8 == 0 && given.size[columns] <= 256;
}

static int64_t round_up(int64_t value, int64_t step)
{
    return (value + step - 1) / step * step;
}

/* Returns the bytes of workspace of backward, as cuDNN 9.19 reports them for an H200 and lengths from 130 to 32,768
 * (tests/device/cuda/test_cudnn_plans.c checks this): the gradients of the scores in 16 bits, in tiles of 64 rows and
 * 128 columns, and, if query heads share key heads, dk and dv of each query head. */
static int64_t workspace_of(const tensor &scores, const tensor &q, const tensor &k)
{
    int64_t heads = scores.size[0] * scores.size[1], tiles = round_up(q.size[2], 64) * round_up(k.size[3], 128);
    int64_t apart = k.size[1] < q.size[1] ? 2 * q.size[2] * q.size[3] : 0;
    return heads * (tiles + apart) * 2 + 256;
}

cudnnStatus_t graph::recognise()
{
    std::set<int> narrow;
    int products = 0;
    for (const auto &op : operations)
        if (op.what == PRODUCT && products++ == 0)
            workspace = workspace_of(tensors[op.y], tensors[op.x], tensors[op.b]);
    for (const auto &given : tensors) {
        if (given.is_narrow())
            narrow.insert(given.type);
        if (given.is_narrow() && !given.is_virtual && !is_head(given))
            return CUDNN_STATUS_NOT_SUPPORTED;
    }
    if ((products != 2 && products != 5) || narrow.size() != 1)
        return CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN;
    if (products == 2)
        workspace = 0;
    return CUDNN_STATUS_SUCCESS;
}
