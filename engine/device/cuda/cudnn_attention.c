/* cudnn_attention.c - cuDNN graphs of attention forward and backward, for cuDNN's fused engines (FlashAttention, Dao et
 * al. 2022, 2023).
 *
 * The engines require this order of operations and these types: scores in fp32; the probabilities and the gradients of
 * the scores in 16 bits where they are operands of a product. dq must be the direct result of a product, not a sum in
 * memory to which many blocks add. With a graph of this form, cuDNN offers the deterministic engine. */
#include "device/cuda/cudnn.h"

/* Stores sizes and strides of the heads in rows of q | k | v, or in rows of y. The stride between rows is the length of
 * a row with the heads of the whole attention, also for a piece, which has fewer heads. */
typedef struct {
    int64_t size[4], stride[4];
} layout;

static layout heads_of(const ce_cudnn_shape *shape, int64_t heads, int64_t row)
{
    return (layout){ { shape->samples, heads, shape->length, shape->width },
                     { shape->length * row, shape->width, row, 1 } };
}

static layout transposed(layout given)
{
    return (layout){ { given.size[0], given.size[1], given.size[3], given.size[2] },
                     { given.stride[0], given.stride[1], given.stride[3], given.stride[2] } };
}

static cudnnDataType_t narrow_of(const ce_cudnn_shape *shape)
{
    return shape->dtype == CS_BF16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_HALF;
}

static ce_cudnn_tensor memory(ce_cudnn_graph *graph, int64_t number, const ce_cudnn_shape *shape, layout lies)
{
    return ce_cudnn_graph_memory(graph, number, narrow_of(shape), lies.size, lies.stride);
}

/* Declares a tensor with one number for each row of each head, such as lse or delta. */
static ce_cudnn_tensor of_rows(ce_cudnn_graph *graph, int64_t number, const ce_cudnn_shape *shape)
{
    int64_t size[4] = { shape->samples, shape->queries, shape->length, 1 };
    int64_t stride[4] = { shape->row_queries * shape->length, shape->length, 1, 1 };
    return ce_cudnn_graph_memory(graph, number, CUDNN_DATA_FLOAT, size, stride);
}

/* Adds the computation of the scores: scale * q k, where k is transposed. */
static ce_cudnn_tensor scores(ce_cudnn_graph *graph, const ce_cudnn_shape *shape, ce_cudnn_tensor q, ce_cudnn_tensor k,
                              ce_cudnn_tensor scale)
{
    int64_t size[4] = { shape->samples, shape->queries, shape->length, shape->length };
    ce_cudnn_tensor s = ce_cudnn_graph_virtual(graph, CUDNN_DATA_FLOAT, size);
    ce_cudnn_graph_product(graph, s, q, k);
    return ce_cudnn_graph_two(graph, CUDNN_POINTWISE_MUL, s, scale);
}

static void forward(ce_cudnn_graph *graph, const ce_cudnn_shape *shape)
{
    int64_t wide = (shape->row_queries + 2 * shape->row_keys) * shape->width;
    layout query_heads = heads_of(shape, shape->queries, wide), key_heads = heads_of(shape, shape->keys, wide);
    layout rows = heads_of(shape, shape->queries, shape->row_queries * shape->width);
    ce_cudnn_tensor q = memory(graph, CE_CUDNN_Q, shape, query_heads),
                    k = memory(graph, CE_CUDNN_K, shape, transposed(key_heads));
    ce_cudnn_tensor v = memory(graph, CE_CUDNN_V, shape, key_heads), y = memory(graph, CE_CUDNN_Y, shape, rows);
    ce_cudnn_tensor lse = of_rows(graph, CE_CUDNN_LSE, shape);

    ce_cudnn_tensor s = scores(graph, shape, q, k, ce_cudnn_graph_number(graph, CE_CUDNN_SCALE));
    s = ce_cudnn_graph_causal(graph, s, ce_cudnn_graph_number(graph, CE_CUDNN_HIDDEN));
    ce_cudnn_tensor max = ce_cudnn_graph_virtual(graph, CUDNN_DATA_FLOAT, lse.size);
    ce_cudnn_graph_reduce(graph, CUDNN_REDUCE_TENSOR_MAX, max, s);
    ce_cudnn_tensor power = ce_cudnn_graph_two(graph, CUDNN_POINTWISE_SUB, s, max);
    power = ce_cudnn_graph_one(graph, CUDNN_POINTWISE_EXP, power);
    ce_cudnn_tensor sum = ce_cudnn_graph_virtual(graph, CUDNN_DATA_FLOAT, lse.size);
    ce_cudnn_graph_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, sum, power);
    ce_cudnn_graph_map(graph, CUDNN_POINTWISE_ADD, lse, max, ce_cudnn_graph_one(graph, CUDNN_POINTWISE_LOG, sum));
    ce_cudnn_tensor p = ce_cudnn_graph_virtual(graph, narrow_of(shape), s.size);
    ce_cudnn_graph_map(graph, CUDNN_POINTWISE_DIV, p, power, sum);
    ce_cudnn_graph_product(graph, y, p, v);
}

/* Adds the product a b to the graph, and the sum of its results over the query heads that share a key head. `to` is the
 * result. */
static void product_over_shared_heads(ce_cudnn_graph *graph, const ce_cudnn_shape *shape, ce_cudnn_tensor to,
                                      ce_cudnn_tensor a, ce_cudnn_tensor b)
{
    if (shape->queries == shape->keys) {
        ce_cudnn_graph_product(graph, to, a, b);
        return;
    }
    ce_cudnn_tensor all = ce_cudnn_graph_virtual(graph, narrow_of(shape), b.size);
    ce_cudnn_graph_product(graph, all, a, b);
    ce_cudnn_graph_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, to, all);
}

static void backward(ce_cudnn_graph *graph, const ce_cudnn_shape *shape)
{
    int64_t wide = (shape->row_queries + 2 * shape->row_keys) * shape->width;
    layout query_heads = heads_of(shape, shape->queries, wide), key_heads = heads_of(shape, shape->keys, wide);
    layout rows = heads_of(shape, shape->queries, shape->row_queries * shape->width);
    ce_cudnn_tensor q = memory(graph, CE_CUDNN_Q, shape, query_heads),
                    k = memory(graph, CE_CUDNN_K, shape, transposed(key_heads));
    ce_cudnn_tensor v = memory(graph, CE_CUDNN_V, shape, transposed(key_heads)),
                    y = memory(graph, CE_CUDNN_Y, shape, rows);
    ce_cudnn_tensor dy = memory(graph, CE_CUDNN_DY, shape, rows), dq = memory(graph, CE_CUDNN_DQ, shape, query_heads);
    ce_cudnn_tensor dk = memory(graph, CE_CUDNN_DK, shape, key_heads),
                    dv = memory(graph, CE_CUDNN_DV, shape, key_heads);
    ce_cudnn_tensor lse = of_rows(graph, CE_CUDNN_LSE, shape), delta = of_rows(graph, CE_CUDNN_DELTA, shape);
    ce_cudnn_tensor scale = ce_cudnn_graph_number(graph, CE_CUDNN_SCALE);

    ce_cudnn_tensor sum = ce_cudnn_graph_virtual(graph, CUDNN_DATA_FLOAT, delta.size);
    ce_cudnn_graph_reduce(graph, CUDNN_REDUCE_TENSOR_ADD, sum, ce_cudnn_graph_two(graph, CUDNN_POINTWISE_MUL, dy, y));
    ce_cudnn_graph_map(graph, CUDNN_POINTWISE_MUL, delta, sum, ce_cudnn_graph_number(graph, CE_CUDNN_ONE));

    ce_cudnn_tensor p = scores(graph, shape, q, k, scale);
    p = ce_cudnn_graph_two(graph, CUDNN_POINTWISE_SUB, p, lse);
    p = ce_cudnn_graph_causal(graph, p, ce_cudnn_graph_number(graph, CE_CUDNN_HIDDEN));
    p = ce_cudnn_graph_one(graph, CUDNN_POINTWISE_EXP, p);
    product_over_shared_heads(graph, shape, dv, ce_cudnn_graph_transposed(graph, p, narrow_of(shape)), dy);

    ce_cudnn_tensor dscores = ce_cudnn_graph_virtual(graph, CUDNN_DATA_FLOAT, p.size);
    ce_cudnn_graph_product(graph, dscores, dy, v);
    dscores = ce_cudnn_graph_two(graph, CUDNN_POINTWISE_SUB, dscores, delta);
    dscores = ce_cudnn_graph_two(graph, CUDNN_POINTWISE_MUL, dscores, p);
    dscores = ce_cudnn_graph_two(graph, CUDNN_POINTWISE_MUL, dscores, scale);
    product_over_shared_heads(graph, shape, dk, ce_cudnn_graph_transposed(graph, dscores, narrow_of(shape)), q);
    ce_cudnn_graph_product(graph, dq, dscores, ce_cudnn_graph_transposed(graph, k, narrow_of(shape)));
}

void ce_cudnn_attention_graph(ce_cudnn_graph *graph, const ce_cudnn_shape *shape)
{
    if (shape->grad)
        backward(graph, shape);
    else
        forward(graph, shape);
}
