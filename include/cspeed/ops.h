/* ops.h - the tensor operations from which layers are built, with the formula, shapes and types of each. (public)
 *
 * Shapes: N rows, C columns, K and M the input and output width of a weight, B samples, T positions, H heads, D = C/H
 * columns of a head, V size of the vocabulary.
 *
 * Types: a tensor for which no type is given is CS_F32, CS_BF16 or CS_F16. In matrix products, attention, embedding and
 * losses all such tensors have the same type; in norms, GELU, sums and dropout each may have a different type.
 * Arithmetic and sums are fp32. Results that are stored in 16 bits are rounded once, to nearest even.
 *
 * Gradients of parameters are fp32. Operations add to them, or set them if the tensor is marked by `overwrite` (cs_param_gradient).
 *
 * Results depend on shapes, values and the number of the device's threads, and never on timing. Outputs may not overlap
 * inputs unless a comment allows it. "or absent" means that the tensor may have data NULL. Every operation checks
 * shapes and types and ends the process if they are wrong. An operation is queued on the stream; cs_pass_stream gives
 * the stream. */
#ifndef CS_DEVICE_OPS_H
#define CS_DEVICE_OPS_H

#include "cspeed/cspeed.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The layout of a weight matrix in memory. */
typedef enum {
    CS_IN_OUT, /* (K, M): GPT-2's Conv1D     y = x W   */
    CS_OUT_IN  /* (M, K): torch's nn.Linear  y = x W^T */
} cs_layout;

/* y (N, M) = x (N, K) times w, plus bias (M), which may be absent. y may be f32 whatever the type of x. */
void cs_op_matmul(cs_stream *stream, cs_tensor y, cs_tensor x, cs_tensor w, cs_tensor bias, cs_layout layout);
/* dx (N, K) = dy (N, M) times w transposed. */
void cs_op_matmul_grad_input(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor w, cs_layout layout);
/* pre (N, M) = the result y of cs_op_matmul, with the bias; y (N, M) = gelu(pre) as cs_op_gelu computes it, in one
 * kernel if the device has one. Backward needs pre. */
void cs_op_matmul_gelu(cs_stream *stream, cs_tensor y, cs_tensor pre, cs_tensor x, cs_tensor w, cs_tensor bias,
                       cs_layout layout);
/* dpre (N, K) = (dy (N, M) times w transposed) * gelu'(pre). */
void cs_op_matmul_grad_input_gelu(cs_stream *stream, cs_tensor dpre, cs_tensor dy, cs_tensor w, cs_tensor pre,
                                  cs_layout layout);
/* dw f32, in the layout of w, += x^T dy. dbias (M) f32 += sum of dy over rows. dw and dbias may be absent; if dw is
 * absent, x may be absent too. */
void cs_op_matmul_grad_weight(cs_stream *stream, cs_tensor dw, cs_tensor dbias, cs_tensor x, cs_tensor dy,
                              cs_layout layout);

/* As cs_op_matmul and cs_op_matmul_grad_input, with a result that has all columns of the product's columns [first, first +
 * M) of y (N, any), or [first, first + K) of dx. Other columns are not written. */
void cs_op_matmul_columns(cs_stream *stream, cs_tensor y, int64_t first, cs_tensor x, cs_tensor w, cs_tensor bias,
                          cs_layout layout);
void cs_op_matmul_grad_input_columns(cs_stream *stream, cs_tensor dx, int64_t first, cs_tensor dy, cs_tensor w,
                                     cs_layout layout);

/* A matrix (rows, columns) of 4-bit numbers in NF4 or FP4: two codes in a byte, and for each block of 64 consecutive
 * elements its absmax, the factor of the codes' values. `columns` is even. */
typedef struct {
    int64_t rows, columns;
    const uint8_t *codes;
    /* Without `nested`, absmax has fp32 numbers. Otherwise it has the bytes of double quantisation; `nested` then has a
     * factor for each 256 blocks, and after the factors the offset. */
    const void *absmax;
    const float *nested;
    bool fp4;
} cs_four_bit;
/* y (n, c) = the values of the elements of rows [row, row + n) and columns [column, column + c) of the matrix. */
void cs_op_dequantize(cs_stream *stream, cs_tensor y, const cs_four_bit *matrix, int64_t row, int64_t column);

/* LayerNorm (Ba et al. 2016): y = (x - mean) * rstd * weight + bias. Shapes: x and y (N, C), weight and bias (C). stats
 * (N, 2) f32 receives mean and rstd of each row. */
void cs_op_norm(cs_stream *stream, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight, cs_tensor bias,
                float epsilon);
/* dx (N, C) is the gradient of x. Adds to dweight and dbias (C) f32. */
void cs_op_norm_grad(cs_stream *stream, cs_tensor dx, cs_tensor dweight, cs_tensor dbias, cs_tensor dy, cs_tensor x,
                     cs_tensor stats, cs_tensor weight);

/* RMSNorm (Zhang & Sennrich 2019) of several adjacent heads with D columns each; the first head begins at column
 * `first`: y = x * rstd * weight, where rstd = 1/sqrt(mean of the head's x^2 + epsilon). Shapes: x and y (N, W), where
 * W is any width that contains the heads, and weight (D). stats (N, heads) f32 receives rstd. Columns of y outside the
 * heads are not written. To normalize whole rows use one head with D = W. */
void cs_op_rms(cs_stream *stream, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight, int64_t first,
               float epsilon);
/* dx (N, W) is the gradient of x; columns of dx outside the heads are not written. Adds to dweight (D) f32. dx may be
 * dy. */
void cs_op_rms_grad(cs_stream *stream, cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                    cs_tensor weight, int64_t first);

/* RMSNorm of rows whose `whole` columns are divided over ranks. In the rows of x (N, W), this rank's columns are those
 * from column `first` on, as many as `weight` (D) or `columns` says. The caller adds the sums, and the dots, of all ranks
 * between the two operations of each direction. With one rank the result is that of cs_op_rms and cs_op_rms_grad with one
 * head.
 *
 * sums (N, 1) f32 = the sum of the squares of this rank's columns of each row. */
void cs_op_rms_sums(cs_stream *stream, cs_tensor sums, cs_tensor x, int64_t first, int64_t columns);
/* y = x * stats * weight, where stats (N, 1) f32 = 1/sqrt(sums / whole + epsilon). */
void cs_op_rms_apply(cs_stream *stream, cs_tensor y, cs_tensor stats, cs_tensor sums, cs_tensor x, cs_tensor weight,
                     int64_t first, int64_t whole, float epsilon);
/* dots (N, 1) f32 = the sum of dy * weight * x over this rank's columns of each row. */
void cs_op_rms_dots(cs_stream *stream, cs_tensor dots, cs_tensor dy, cs_tensor x, cs_tensor weight, int64_t first);
/* dx is the gradient of x; adds to dweight (D) f32. dx may be dy. */
void cs_op_rms_grad_apply(cs_stream *stream, cs_tensor dx, cs_tensor dweight, cs_tensor dots, cs_tensor dy, cs_tensor x,
                          cs_tensor stats, cs_tensor weight, int64_t first, int64_t whole);

/* GELU in its tanh form (Hendrycks & Gimpel 2016; "gelu_new" in Hugging Face). All tensors are (N, C). y may be x; dx
 * may be dy. */
void cs_op_gelu(cs_stream *stream, cs_tensor y, cs_tensor x);
void cs_op_gelu_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x);

/* SwiGLU (Shazeer 2020): y (N, C) = silu(gate) * up, where silu(x) = x / (1 + e^-x). x (N, 2C) holds gate in the first
 * C columns and up in the others. */
void cs_op_swiglu(cs_stream *stream, cs_tensor y, cs_tensor x);
void cs_op_swiglu_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x);

/* The activation functions, by the names that Hugging Face gives them: gelu_new, gelu_pytorch_tanh and others of the
 * tanh form (CS_GELU_TANH), gelu, which is x times the normal distribution function (CS_GELU), quick_gelu, silu, relu,
 * and relu2, the square of relu; and the functions 1 / (1 + e^-x) (CS_SIGMOID), tanh x and e^x. CS_USUAL_ACTIVATION is for
 * layers only and means the layer's default function. */
typedef enum {
    CS_USUAL_ACTIVATION,
    CS_GELU_TANH,
    CS_GELU,
    CS_QUICK_GELU,
    CS_SILU,
    CS_RELU,
    CS_RELU2,
    CS_SIGMOID,
    CS_TANH,
    CS_EXP
} cs_activation;
/* y = f(x), with the types and shapes of cs_op_gelu. */
void cs_op_activation(cs_stream *stream, cs_tensor y, cs_tensor x, cs_activation function);
void cs_op_activation_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x, cs_activation function);
/* y = f(gate) * up, with the types and shapes of cs_op_swiglu. */
void cs_op_gated(cs_stream *stream, cs_tensor y, cs_tensor x, cs_activation function);
void cs_op_gated_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x, cs_activation function);

/* The clamped SwiGLU of gpt-oss. In a row of x (N, 2 C) the gate is in the even columns and up in the odd ones. The gate
 * is limited to at most `limit`, and up to between -limit and limit; then y (N, C) = (up + 1) * gate / (1 + e^-(alpha
 * gate)). Types are as in cs_op_swiglu. */
typedef struct {
    float alpha, limit;
} cs_clamp;
void cs_op_clamped(cs_stream *stream, cs_tensor y, cs_tensor x, cs_clamp clamp);
void cs_op_clamped_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x, cs_clamp clamp);

/* y = x * factor, all (N, C). y may be x if the types of x and y have the same size. */
void cs_op_scale(cs_stream *stream, cs_tensor y, cs_tensor x, float factor);

/* The soft cap of Gemma 2: y = cap * tanh(x / cap), cap > 0; all (N, C). y may be x; dx may be dy. */
void cs_op_softcap(cs_stream *stream, cs_tensor y, cs_tensor x, float cap);
void cs_op_softcap_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x, float cap);

/* y = a + b, and y = a b, element by element. y and a are (N, C), and b is (N, C), or a row (1, C) that stands for all rows,
 * or a column (N, 1) that stands for all columns, or a number (1, 1). y may be a; y may be b if b is (N, C).
 *
 * The gradient of a sum is dy for a, and for b dy or its sums (cs_op_sum). The gradients of a product are dy b and dy a:
 * cs_op_multiply computes them, and cs_op_sum adds those of a row or a column. cs_op_scale_rows_grad computes both
 * gradients of a product with a column. */
void cs_op_add(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b);
void cs_op_multiply(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b);
/* y f32 = factor times sums of x (N, C): with y (N, 1) the sum of each row, with y (1, C) the sum of each column. With
 * factor 1 / C, or 1 / N, these are means. */
void cs_op_sum(cs_stream *stream, cs_tensor y, cs_tensor x, float factor);
/* dx (N, C) = factor dy, where dy (N, 1) stands for all columns, or dy (1, C) for all rows. */
void cs_op_sum_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, float factor);

/* The softmax of rows: y (N, C) = e^s / (sum of e^s over the row), where s = factor x + bias are the scores. y may be x if
 * their types have the same size. A score of -infinity has the probability 0. */
typedef struct {
    float factor;   /* 0 means 1, in cs_op_attend 1/sqrt(D) */
    cs_tensor bias; /* (R, C) or absent: row r of x has the row r / each % R of bias */
    int64_t each;   /* 0 means 1 */
} cs_softmax_scores;
void cs_op_softmax(cs_stream *stream, cs_tensor y, cs_tensor x, cs_softmax_scores scores);
/* ds = y (dy - (sum of dy y over the row)): the gradient of the scores. The gradient of x is factor ds (cs_op_scale), and
 * that of the bias is the sum of the rows of ds that have read a row of it. ds may be dy. */
void cs_op_softmax_grad(cs_stream *stream, cs_tensor ds, cs_tensor dy, cs_tensor y);

/* Transposes `batch` matrices: y[b][c][r] = x[b][r][c], with r < rows and c < columns. An item is as many adjacent numbers
 * as remain: cs_op_transpose(stream, y, x, B, T, H) converts (B*T, H*D) into (B*H*T, D), which batches of products need,
 * and cs_op_transpose(stream, x, y, B, H, T) converts it back, which is the gradient too. x and y have the same type. */
void cs_op_transpose(cs_stream *stream, cs_tensor y, cs_tensor x, int64_t batch, int64_t rows, int64_t columns);

/* y = op(a) op(b) for each of `count` matrices, which follow one another in each tensor; op(x) is x or, with `transpose`,
 * its transpose. a and b have the same type; y has this type or is f32. If nothing is transposed, y is (count N, M), a
 * (count N, K) and b (count K, M), and the gradients are da = dy b^T and db = a^T dy. At most one factor is transposed. */
typedef struct {
    int64_t count;
    bool transpose_a, transpose_b;
} cs_matrices;
void cs_op_matmul_batch(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b, cs_matrices batch);

/* Attention of each position to all keys: p = softmax(factor q k^T + bias) and y = p v, for each of `batch` matrices (a
 * sample and a head; cs_op_transpose makes them). Shapes: q (batch T, D), k (batch S, D), v (batch S, E), y (batch T, E), p
 * (batch T, S). The bias is that of cs_softmax_scores: with H heads, a bias (T, S) is the same for all, (H*T, S) is one for each
 * head, and (B, S) with `each` = H*T is one for each sample, such as a mask of keys with 0 and -infinity. All tensors have the
 * same type, except s (batch T, S) f32, which holds the scores; s may be p if p is f32. Backward needs p. The scores are
 * kept, so memory grows with T S; causal attention without this memory is cs_op_attention. */
void cs_op_attend(cs_stream *stream, cs_tensor y, cs_tensor p, cs_tensor s, cs_tensor q, cs_tensor k, cs_tensor v,
                  int64_t batch, cs_softmax_scores scores);
/* dq, dk and dv are the gradients; ds has the type and shape of p and becomes the gradient of the scores, from which that
 * of the bias follows as in cs_op_softmax_grad. */
void cs_op_attend_grad(cs_stream *stream, cs_tensor dq, cs_tensor dk, cs_tensor dv, cs_tensor ds, cs_tensor dy,
                       cs_tensor p, cs_tensor q, cs_tensor k, cs_tensor v, int64_t batch, float factor);

/* The neighbourhoods of the pixels of images (im2col). A convolution is their product with a matrix (cs_op_matmul, or a
 * cs_linear) of kernel[0] * kernel[1] * channels inputs. Index 0 of the arrays is the vertical axis, index 1 the horizontal
 * one; a signal of one dimension has size[0] = kernel[0] = 1. */
typedef struct {
    int64_t size[2], channels; /* an image has size[0] * size[1] pixels of `channels` numbers */
    int64_t kernel[2];
    int64_t stride[2], dilation[2]; /* 0 means 1 */
    int64_t padding[2];             /* zeros before the first pixel of an axis, and behind the last */
    /* 0 means (size + 2 padding - dilation (kernel - 1) - 1) / stride + 1, as in PyTorch. Another number is allowed: pixels
     * beyond the edge are 0. So a causal convolution has padding = dilation (kernel - 1) and outputs = size. */
    int64_t outputs[2];
} cs_patches;
int64_t cs_patches_outputs(const cs_patches *shape, int axis); /* returns outputs[axis], or what 0 means */
/* columns (N outputs[0] outputs[1], kernel[0] kernel[1] channels) = for each output the pixels under the kernel, row by
 * row. image is (N, size[0] size[1] channels), or has as many elements in another shape. Both have the same type. */
void cs_op_patches(cs_stream *stream, cs_tensor columns, cs_tensor image, cs_patches shape);
/* dimage = for each pixel the sum of the elements of dcolumns that were copied from it. */
void cs_op_patches_grad(cs_stream *stream, cs_tensor dimage, cs_tensor dcolumns, cs_patches shape);

/* The random functions of the engine: a number depends on its key and its place alone, not on earlier calls or on ranks.
 * cs_rng_philox writes the 128 random bits of (key, counter): Philox4x32-10 of Salmon et al. 2011, with the key's and the
 * counter's low halves first. cs_rng_mix derives a key from a key and a number by SplitMix64 (Steele et al. 2014): the keys
 * of cs_pass_keys, mixed with a number for each use, give noise that is the same on any number of ranks. */
void cs_rng_philox(uint64_t key, uint64_t counter, uint32_t words[4]);
uint64_t cs_rng_mix(uint64_t key, uint64_t number);

/* Parameters of a dropout. The random bits depend only on the sample's key, on `place` and on the element's index e in
 * the sample. So these bits are the same for any number of ranks, for any batch size, and in recomputation. Each
 * element uses 16 bits, so a block of the generator Philox serves 8 elements: element e takes 32-bit word e % 8 / 2 of
 * cs_rng_philox(cs_rng_mix(keys[b], place), e / 8), the low half for even e and the high half for odd e. The element is
 * kept if its 16 bits, as an unsigned number, are at least rate * 65536, rounded to the nearest integer. */
typedef struct {
    float rate;           /* the probability that an element becomes 0, below 1; 0 means no dropout */
    uint64_t place;       /* the random key of this dropout in the model, from cs_residual_place */
    const uint64_t *keys; /* the random keys of the B samples, from cs_pass_keys */
    int64_t batch;        /* the number of samples B; a tensor is divided into B equal ranges, one for each sample */
    /* If `width` is not 0, the tensor (N, C) holds columns [from, from + C) of rows of `width` columns, and indices count
     * the elements of these whole rows: element (r, c) of a sample has the index r*width + from + c. Only cs_op_dropout
     * takes such a tensor. */
    int64_t from, width;
} cs_dropout;

/* y = x / (1 - rate) for elements that are kept, 0 for the others. If x is the gradient of y, the result is the
 * gradient of x: this is also the backward operation. y may be x. */
void cs_op_dropout(cs_stream *stream, cs_tensor y, cs_tensor x, cs_dropout dropout);
/* Adds to each element of y a number that is uniform in [-size, size]. It follows from the 16 random bits by which
 * cs_op_dropout decides about the element; the rate is not used. */
void cs_op_add_noise(cs_stream *stream, cs_tensor y, float size, cs_dropout dropout);
/* y = a + dropout(b). y may be a or b. */
void cs_op_add_dropout(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b, cs_dropout dropout);

/* The heads of an attention, D columns each. Query head h uses key and value head h / (queries / keys). With fewer key
 * heads than query heads, the attention is grouped-query attention (Ainslie et al. 2023). `keys` must divide
 * `queries`. */
typedef struct {
    int64_t queries, keys; /* `queries`: number of query heads; `keys`: number of key heads, which is also the number of
                            * value heads */
    /* sliding window: a position attends to itself and the window - 1 positions before it; 0: a position attends to
     * itself and all positions before it */
    int64_t window;
    cs_tensor starts; /* (B, T) i32 or absent: position t attends only to positions from starts[t] on, so that documents
                       * packed into one sample are separate. starts[t] <= t, and starts never decrease along t. */
    float scale;      /* factor of the scores; 0 means 1/sqrt(D) */
    float cap;        /* the scores become cap * tanh(scores / cap) before the softmax; 0: there is no cap */
    int64_t first;    /* number of the first query head among the heads of all ranks; only dropout uses it */
} cs_heads;

/* Converts between two orders of the heads in a row. In the order by groups, which some models' projections return,
 * each key head has a group: the query heads that use this key head, then the key head, then the value head. In the
 * order of cs_op_attention, all query heads come first, then all key heads, then all value heads. cs_op_ungroup_heads
 * reads x in the order by groups and writes y in the order of cs_op_attention; cs_op_group_heads does the opposite. x
 * and y are (N, (queries + 2 keys) D), of the same type. */
void cs_op_ungroup_heads(cs_stream *stream, cs_tensor y, cs_tensor x, cs_heads heads);
void cs_op_group_heads(cs_stream *stream, cs_tensor y, cs_tensor x, cs_heads heads);

/* A residual sum and its norm, in one kernel if the device has one: sum = a + dropout(b); y and stats are those of
 * cs_op_norm or cs_op_rms for whole rows of sum. sum may be a or b. */
typedef struct {
    cs_tensor sum, a, b;
    cs_dropout dropout;
} cs_addition;
void cs_op_add_norm(cs_stream *stream, cs_tensor y, cs_tensor stats, const cs_addition *x, cs_tensor weight,
                    cs_tensor bias, float epsilon);
void cs_op_add_rms(cs_stream *stream, cs_tensor y, cs_tensor stats, const cs_addition *x, cs_tensor weight,
                   float epsilon);
/* The gradient of a tensor that both a norm and a residual connection read: dx = (the dx of cs_op_norm_grad, or of
 * cs_op_rms_grad for whole rows) + beside, where `beside` is the gradient through the residual connection. */
void cs_op_norm_grad_add(cs_stream *stream, cs_tensor dx, cs_tensor dweight, cs_tensor dbias, cs_tensor dy, cs_tensor x,
                         cs_tensor stats, cs_tensor weight, cs_tensor beside);
void cs_op_rms_grad_add(cs_stream *stream, cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                        cs_tensor weight, cs_tensor beside);

/* Causal self-attention over B sequences of T positions. qkv (B*T, (queries + 2 keys) D) holds q, k and v in adjacent
 * columns; head h of q begins at column h*D of q, and the heads of k and v are arranged in the same way. y is (B*T,
 * queries D). lse (B*queries, T) f32 is the logarithm of the softmax's denominator, which backward needs. Scores are
 * multiplied by heads.scale and capped. Dropout applies to the probabilities; the probability of head h, query i and
 * key j is element ((h + heads.first)*T + i)*T + j of the sample. If qkv has a 16-bit type and the device multiplies this type without
 * conversion to fp32, probabilities and gradients of scores are rounded to this type before they are multiplied. */
void cs_op_attention(cs_stream *stream, cs_tensor y, cs_tensor lse, cs_tensor qkv, cs_heads heads, cs_dropout dropout);
/* dqkv has the shape of qkv; all of its elements are written. */
void cs_op_attention_grad(cs_stream *stream, cs_tensor dqkv, cs_tensor dy, cs_tensor y, cs_tensor lse, cs_tensor qkv,
                          cs_heads heads, cs_dropout dropout);

/* Attention sinks, after cs_op_attention or cs_op_attention_extend: y and lse become those of a softmax in which each
 * position of head h also has the score sinks[h], and the value vector that belongs to it is 0. sinks is (queries). With
 * this y and lse, cs_op_attention_grad computes the gradient of qkv. cs_op_sinks_grad adds the gradient of the sinks to
 * dsinks (queries) f32, from dy and from the new y and lse; if dsinks is absent, it does nothing. */
void cs_op_sinks(cs_stream *stream, cs_tensor y, cs_tensor lse, cs_tensor sinks);
void cs_op_sinks_grad(cs_stream *stream, cs_tensor dsinks, cs_tensor dy, cs_tensor y, cs_tensor lse, cs_tensor sinks);

/* Rotary position embedding (RoPE, Su et al. 2021), in place, in Hugging Face's order: with D = width, element i < D/2
 * of a head and its element i + D/2 are a pair, which is rotated by the angle position * frequency[i] and multiplied by
 * `factor`. If a head is wider than D, the head's elements from D on do not change. cs_rope_open fills this struct. */
enum { CS_ROPE_WIDTH = 512 };
typedef struct {
    int64_t width; /* D: even, at most CS_ROPE_WIDTH */
    float factor;
    float frequency[CS_ROPE_WIDTH / 2];
    int64_t head;  /* columns of a head, at least `width`; 0 means `width` */
    bool adjacent; /* pairs are columns 2i and 2i + 1 of a head, instead of i and i + D / 2 */
} cs_rope;
typedef struct {
    int64_t heads;  /* how many heads are rotated; the first begins at column 0 */
    int64_t length; /* T: row r of the tensor is at position first + r % T */
    int64_t first;
} cs_rope_rows;
void cs_op_rope(cs_stream *stream, cs_tensor x, const cs_rope *rope, cs_rope_rows rows);
/* The backward operation: rotates dx in place by the opposite angles. */
void cs_op_rope_grad(cs_stream *stream, cs_tensor dx, const cs_rope *rope, cs_rope_rows rows);

/* Attention with a key-value cache: computes T new positions of one sequence. Before the call the cache holds the keys
 * and values of the first `start` positions. qkv (T, (queries + 2 keys) D) and y (T, queries D) are as in
 * cs_op_attention. The cache consists of the tensors `keys` and `values`, each with at least start + T rows and with
 * heads.keys * D columns; the operation writes the rows [start, start + T) of both tensors from qkv. lse (queries, T) is
 * as in cs_op_attention, or absent. */
void cs_op_attention_extend(cs_stream *stream, cs_tensor y, cs_tensor lse, cs_tensor qkv, cs_tensor keys,
                            cs_tensor values, cs_heads heads, int64_t start);

/* y (B*T, C) = table[token] + positions[t - starts[t]]. Shapes: tokens (B, T) i32, table (V, C), positions (>= T, C) or
 * absent. `starts` is as in cs_heads; if it is absent, every start is 0. `first` says which tokens the table has. With
 * CS_WHOLE_TABLE it has all of them: token t is row t, and a token outside of the table is a fatal error. Otherwise the
 * table has rows [first, first + V) of a table that is divided over ranks, and the row of y of any other token is 0; the
 * sum of y over the ranks is the embedding by the whole table. */
enum { CS_WHOLE_TABLE = -1 };
void cs_op_embed(cs_stream *stream, cs_tensor y, cs_tensor tokens, cs_tensor table, int64_t first, cs_tensor positions,
                 cs_tensor starts);
/* Adds to dtable (V, C) f32 and to dpositions f32; dpositions may be absent. The rows of one token are added in order
 * of position. dtable has the tokens that `first` says, and only their rows are added to it; dpositions gets all rows.
 * The rows of the token `padding` are not added to dtable; -1 means that there is no such token. */
void cs_op_embed_grad(cs_stream *stream, cs_tensor dtable, int64_t first, cs_tensor dpositions, cs_tensor dy,
                      cs_tensor tokens, cs_tensor starts, int64_t padding);

/* Softmax cross-entropy: loss (N, 1) f32 = -log softmax(logits)[target], and 0 if target < 0. logits (N, V): the first
 * `classes` columns are logits, the others are padding, which is not read. targets has N elements i32, each below
 * `classes`. The order of the sums depends on `classes`, and on V only if V is not a multiple of 8. dloss (N, 1) f32,
 * which may be absent, is the weight of each row's loss. If dloss is given, the operation replaces the logits by their
 * gradient (softmax - onehot(target)) * dloss[row], which is 0 in rows with target < 0 and in the columns of padding.
 * The loss has the same bits with dloss and without. */
void cs_op_cross_entropy(cs_stream *stream, cs_tensor loss, cs_tensor logits, cs_tensor targets, int64_t classes,
                         cs_tensor dloss);

/* hits (N, 1) f32 = 1 if the target is the column of the largest logit (the first of equal ones), else 0; logits,
 * targets and classes are as in cs_op_cross_entropy. */
void cs_op_hits(cs_stream *stream, cs_tensor hits, cs_tensor logits, cs_tensor targets, int64_t classes);

/* Softmax cross-entropy of logits whose columns are divided over ranks, in two operations. The first `classes` columns
 * of this rank's logits (N, V) are columns [first, first + classes) of the whole; `classes` may be 0. A target is a
 * column of the whole. Between the two operations the caller gathers the facts of all ranks.
 *
 * facts (N, CS_ENTROPY_FACTS) f32 are about this rank's columns of each row: the greatest logit; the sum of e^(logit -
 * greatest), where an infinite greatest logit is not subtracted; the target's logit, or -infinity if the target is not
 * among these columns; 1 if the target is the first of the greatest logits of these columns, else 0; and, if facts have
 * CS_ENTROPY_FACTS_SMOOTHED columns, the sum of the logits. The facts of a row without a target are 0. */
enum { CS_ENTROPY_FACTS = 4, CS_ENTROPY_FACTS_SMOOTHED };
void cs_op_entropy_facts(cs_stream *stream, cs_tensor facts, cs_tensor logits, cs_tensor targets, int64_t first,
                         int64_t classes);
/* Terms that a row's loss may have: (1 - smoothing) * the cross-entropy + smoothing * the mean over all `classes` columns
 * of -log softmax(logits) + z_loss * log(sum of e^logits)^2. If both factors are 0, the loss is the cross-entropy. With one
 * rank, the two operations give a model these terms, which cs_op_cross_entropy lacks. */
typedef struct {
    float smoothing, z_loss;
    int64_t classes; /* number of columns of all ranks */
} cs_entropy_terms;
/* facts (ranks N, CS_ENTROPY_FACTS) are those of all ranks, one rank after another in the order of their columns;
 * smoothing needs CS_ENTROPY_FACTS_SMOOTHED of them. dloss and hits (N, 1), which may be absent, are as in cs_op_cross_entropy and cs_op_hits. The logits of this rank become the
 * gradient of the loss with its terms. loss and hits have the same bits on all ranks. */
void cs_op_entropy_finish(cs_stream *stream, cs_tensor loss, cs_tensor hits, cs_tensor logits, cs_tensor targets,
                          int64_t first, int64_t classes, cs_tensor dloss, cs_tensor facts, cs_entropy_terms terms);

/* loss (N, 1) f32 = mean over columns of (y - target)^2, where y is (N, C), and target is (N, C) f32. */
void cs_op_squared_error(cs_stream *stream, cs_tensor loss, cs_tensor y, cs_tensor target);
void cs_op_squared_error_grad(cs_stream *stream, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target);

/* x is (N, K) and y is (N, M); the K columns of y from `first` on correspond to the columns of x. cs_op_add_columns
 * adds scale * x to these columns of y. cs_op_take_columns sets x to scale * these columns of y. */
void cs_op_add_columns(cs_stream *stream, cs_tensor y, int64_t first, cs_tensor x, float scale);
void cs_op_take_columns(cs_stream *stream, cs_tensor x, cs_tensor y, int64_t first, float scale);

/* ---- mixtures of experts (Shazeer et al. 2017) ----
 *
 * N rows go to k of E experts each. The N k pairs of a row and one of its experts are called slots and are numbered by
 * expert; the slots of one expert are numbered by row. Tensors with a row for each slot have N k rows, however the
 * slots are divided among the experts. */
typedef struct {
    cs_tensor rows;          /* (N k) i32: the row of each slot */
    cs_tensor slots;         /* (N, k) i32: the slots of each row, the most probable expert first */
    cs_tensor bounds;        /* (E + 1) i32: the slots of expert e are bounds[e] to bounds[e + 1] - 1 */
    cs_tensor tokens;        /* (E) i32: number of slots of each expert */
    cs_tensor probabilities; /* (E) f32, or absent: the probabilities of each expert, added up over the rows */
} cs_routing;
enum { CS_MAX_EXPERTS = 1024 }; /* the greatest number of experts E */
/* The probabilities of the experts of a row are the softmax of the row's logits (N, E), computed in fp32. The k experts
 * with the greatest probabilities are chosen; of experts with equal probabilities, those with the lowest numbers. The
 * operation writes all tensors of the routing, and factors (N k, 1), which may be f32: the probability of each slot's
 * expert; if `normalized`, divided by the sum of the k probabilities of the slot's row. */
void cs_op_route(cs_stream *stream, const cs_routing *routing, cs_tensor factors, cs_tensor logits, bool normalized);
/* dlogits (N, E) is the gradient of the logits, dfactors (N k, 1) f32 the gradient of the factors. dprobabilities (E)
 * f32, which may be absent, is a further gradient of the probability of each expert, the same for all rows. */
void cs_op_route_grad(cs_stream *stream, cs_tensor dlogits, const cs_routing *routing, cs_tensor dfactors,
                      cs_tensor dprobabilities, cs_tensor logits, bool normalized);
/* y (N k, C) = for each slot, the slot's row of x (N, C). x and y have the same type. The gradient operation is
 * cs_op_add_slots. */
void cs_op_take_slots(cs_stream *stream, cs_tensor y, cs_tensor x, const cs_routing *routing);
/* y (N, C) = for each row, the sum of the row's k slots in x (N k, C), in the order of routing->slots. The gradient
 * operation is cs_op_take_slots. */
void cs_op_add_slots(cs_stream *stream, cs_tensor y, cs_tensor x, const cs_routing *routing);
/* Multiplies the slots of each expert by the expert's matrix: rows bounds[e] to bounds[e + 1] - 1 of x and y are the
 * slots of expert e, and the rows of w are divided evenly among the matrices of the experts. Shapes: y (N k, M), x (N k,
 * K), w (E M, K) with CS_OUT_IN, or (E K, M) with CS_IN_OUT. The bits of y do not depend on the number of threads. */
void cs_op_experts(cs_stream *stream, cs_tensor y, cs_tensor x, cs_tensor w, cs_layout layout,
                   const cs_routing *routing);
void cs_op_experts_grad_input(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor w, cs_layout layout,
                              const cs_routing *routing);
/* Adds to dw f32, which has the shape of w, the gradient of each expert's matrix; if dw is absent, the operation does
 * nothing. */
void cs_op_experts_grad_weight(cs_stream *stream, cs_tensor dw, cs_tensor x, cs_tensor dy, cs_layout layout,
                               const cs_routing *routing);
/* Adds to each row of y (N k, C) the bias of the slot's expert, a row of bias (E, C), times the slot's factor in factors
 * (N k, 1). If factors is absent, the factor is 1. */
void cs_op_expert_bias(cs_stream *stream, cs_tensor y, cs_tensor bias, cs_tensor factors, const cs_routing *routing);
/* Adds the gradient of the biases to dbias (E, C) f32 and that of the factors to dfactors (N k, 1) f32, from the gradient
 * dy of y. Each of the two may be absent. */
void cs_op_expert_bias_grad(cs_stream *stream, cs_tensor dbias, cs_tensor dfactors, cs_tensor dy, cs_tensor bias,
                            cs_tensor factors, const cs_routing *routing);
/* y (N, C) = x (N, C), each row times its factor in factors (N, 1), which may be f32; with `logistic`, each row times 1
 * / (1 + e^-factor). y may be x. */
void cs_op_scale_rows(cs_stream *stream, cs_tensor y, cs_tensor x, cs_tensor factors, bool logistic);
/* Writes dx, the gradient of x, and dfactors (N, 1), the gradient of the factors. dx and dy may be the same tensor.
 * dfactors may be f32. */
void cs_op_scale_rows_grad(cs_stream *stream, cs_tensor dx, cs_tensor dfactors, cs_tensor dy, cs_tensor x,
                           cs_tensor factors, bool logistic);
/* The load-balancing loss (Fedus et al. 2021) over L layers: E times the sum over experts of f_e P_e, where f_e is the
 * number of slots of expert e, and P_e the sum of the expert's probabilities, both divided by the rows of all layers.
 * tokens (L, E) i32 and probabilities (L, E) f32 are those of the layers' routings; each layer has as many rows as loss
 * (N, 1) f32. The operation adds coefficient times this loss to loss[row] of each row that has a target. dloss (N, 1)
 * f32 is the weight of each row's loss, as in cs_op_cross_entropy. dprobabilities (E) f32 is the gradient of the
 * probabilities of the experts of one row; it is the same for every row of every layer. */
typedef struct {
    cs_tensor tokens, probabilities, dprobabilities;
    float coefficient;
} cs_balance;
void cs_op_balance(cs_stream *stream, const cs_balance *balance, cs_tensor loss, cs_tensor targets, cs_tensor dloss);

/* DoRA (Liu et al. 2024) scales M columns of a linear layer's result, from column `first` on, by magnitude / norm. The
 * norm of a column is the Euclidean norm of its weights with the LoRA adapter, W + scale B A. */
typedef struct {
    cs_tensor weight; /* the layer's weights of the M columns, (K, M) or (M, K) as `layout` says */
    cs_layout layout;
    cs_tensor a, b;      /* the adapter's matrices A (R, K) and B (M, R) */
    cs_tensor magnitude; /* (M) */
    cs_tensor bias;      /* the layer's bias of the M columns (M); absent if the layer has no bias */
    float scale;
    int64_t first;
} cs_dora;
/* norms (M) f32 = the Euclidean norm of each column's weights in W + scale B A. */
void cs_op_dora_norms(cs_stream *stream, cs_tensor norms, const cs_dora *dora);
/* norms (M) f32 = the Euclidean norm of each column of x (R, M) f32: the norms of cs_op_dora_norms, if each of R ranks has
 * computed them for its own inputs. */
void cs_op_join_norms(cs_stream *stream, cs_tensor norms, cs_tensor x);
/* y (N, W) is the layer's result, and z (N, M) the adapter's result before scaling. v stands for the M columns of y
 * from `first` on. First z becomes v - bias + scale z, then v becomes bias + z magnitude / norms. */
void cs_op_dora(cs_stream *stream, cs_tensor y, cs_tensor z, cs_tensor norms, const cs_dora *dora);
/* `z` is the tensor that cs_op_dora has written. Adds to dmagnitude (M) f32. The M columns of dy from `first` on become
 * the gradient of this z. */
void cs_op_dora_grad(cs_stream *stream, cs_tensor dy, cs_tensor dmagnitude, cs_tensor z, cs_tensor norms,
                     const cs_dora *dora);

/* loss (N, 1) f32 = mean over columns of |y - target|; shapes and types are as in cs_op_squared_error. Where y equals
 * the target, the gradient is 0. */
void cs_op_absolute_error(cs_stream *stream, cs_tensor loss, cs_tensor y, cs_tensor target);
void cs_op_absolute_error_grad(cs_stream *stream, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target);

/* Binary cross-entropy with logits: loss (N, 1) f32 = mean over columns of log(1 + e^y) - target y, where a target is from 0
 * to 1; shapes and types are as in cs_op_squared_error. */
void cs_op_binary_entropy(cs_stream *stream, cs_tensor loss, cs_tensor y, cs_tensor target);
void cs_op_binary_entropy_grad(cs_stream *stream, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target);

/* Kullback-Leibler divergence of rows of logits: loss (N, 1) f32 = sum over columns of p (log p - log softmax(y)), where p =
 * softmax(target). y and target are (N, C). The gradient of y is dloss (softmax(y) - p); the target has none. */
void cs_op_divergence(cs_stream *stream, cs_tensor loss, cs_tensor y, cs_tensor target);
void cs_op_divergence_grad(cs_stream *stream, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target);

/* y = x, converted to y's type. */
void cs_op_cast(cs_stream *stream, cs_tensor y, cs_tensor x);
void cs_op_fill(cs_stream *stream, cs_tensor y, float value);

#ifdef __cplusplus
}
#endif
#endif
