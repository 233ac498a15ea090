/* ops.h - every operation: formula, shapes, types. (public, for models)
 *
 * Legend: N rows, C columns, K and M the two widths of a weight, B samples, T positions, H heads, D = C/H.
 * "c" is CS_F32, CS_BF16 or CS_F16: matrix products, attention, embedding and losses want one type for all their "c";
 * norms, GELU, sums and dropout take each tensor in a type of its own. Arithmetic and sums are fp32 whatever is stored;
 * what is stored in 16 bits is rounded once, to nearest even. Weight gradients are fp32 and are added to, or set
 * where the tensor says that it is fresh. Results
 * depend on shapes, values and the device's thread count, never on timing. Outputs may not overlap inputs unless it
 * says so. Shapes and types are checked here (CS_ASSERT); kernels trust. cs_tensors with data NULL are absent where
 * "or absent" says so. */
#ifndef CS_DEVICE_OPS_H
#define CS_DEVICE_OPS_H

#include "cspeed/cspeed.h"

/* How a weight lies in memory. */
typedef enum {
    CS_IN_OUT, /* (K, M): GPT-2's Conv1D     y = x W   */
    CS_OUT_IN  /* (M, K): torch's nn.Linear  y = x W^T */
} cs_layout;

/* y (N, M) c or f32 = x (N, K) c times w c, + bias (M) c or absent. */
void cs_op_matmul(cs_stream *stream, cs_tensor y, cs_tensor x, cs_tensor w, cs_tensor bias, cs_layout layout);
/* dx (N, K) c = dy (N, M) c times w transposed. */
void cs_op_matmul_grad_input(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor w, cs_layout layout);
/* pre = the product above, c; y = gelu(pre), as cs_op_gelu's, in the same walk where the device can. pre is kept for
 * backward. */
void cs_op_matmul_gelu(cs_stream *stream, cs_tensor y, cs_tensor pre, cs_tensor x, cs_tensor w, cs_tensor bias,
                       cs_layout layout);
/* dpre (N, K) c = (dy (N, M) c times w transposed) * gelu'(pre). */
void cs_op_matmul_grad_input_gelu(cs_stream *stream, cs_tensor dpre, cs_tensor dy, cs_tensor w, cs_tensor pre,
                                  cs_layout layout);
/* dw f32 (as w lies) += x^T dy; dbias f32 (M) or absent += sum of dy over rows. */
void cs_op_matmul_grad_weight(cs_stream *stream, cs_tensor dw, cs_tensor dbias, cs_tensor x, cs_tensor dy,
                              cs_layout layout);

/* LayerNorm (Ba et al. 2016): y = (x - mean) * rstd * weight + bias; x, y (N, C) c; weight, bias (C) c;
 * stats (N, 2) f32: mean, rstd. */
void cs_op_norm(cs_stream *stream, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight, cs_tensor bias,
                float epsilon);
/* dx c; dweight, dbias (C) f32 are added to. */
void cs_op_norm_grad(cs_stream *stream, cs_tensor dx, cs_tensor dweight, cs_tensor dbias, cs_tensor dy, cs_tensor x,
                     cs_tensor stats, cs_tensor weight);

/* RMSNorm (Zhang & Sennrich 2019) of a run of heads, D columns each from column `first` on: y = x * rstd * weight,
 * where rstd = 1/sqrt(mean of the head's x^2 + epsilon). x, y (N, W) c; weight (D) c; stats (N, heads) f32: rstd.
 * Columns of other heads are not touched. A row as a whole is one head of D = W. */
void cs_op_rms(cs_stream *stream, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight, int64_t first,
               float epsilon);
/* dx c, its other columns not touched; dweight (D) f32 is added to. dx may be dy. */
void cs_op_rms_grad(cs_stream *stream, cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                    cs_tensor weight, int64_t first);

/* GELU, tanh form (Hendrycks & Gimpel 2016; "gelu_new"). y may be x; dx may be dy. */
void cs_op_gelu(cs_stream *stream, cs_tensor y, cs_tensor x);
void cs_op_gelu_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x);

/* SwiGLU (Shazeer 2020): y (N, C) c = silu(gate) * up, x (N, 2C) c: gate | up; silu(x) = x / (1 + e^-x). */
void cs_op_swiglu(cs_stream *stream, cs_tensor y, cs_tensor x);
void cs_op_swiglu_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x);

/* y = a + b. y may be a or b. */
void cs_op_add(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b);

/* Random bits of dropout: 16 an element, so 8 elements a Philox block. Element e of sample b at `place`, e counting
 * from the sample's first element, takes from cs_rng_philox(cs_rng_mix(keys[b], place), e / 8) word e % 8 / 2, its
 * low half for even e and its high half for odd e, and is kept where those bits are at least rate * 65536, rounded.
 * So rank, batch and recomputation change nothing. rate 0: off. */
typedef struct {
    float rate;
    uint64_t place;       /* which dropout of the model: cs_rng_key of its name */
    const uint64_t *keys; /* (B), cs_pass_keys */
    int64_t batch;        /* B; tensors hold B equal runs of elements */
} cs_dropout;

/* y = x where kept, scaled by 1 / (1 - rate), else 0: forward and, on gradients, backward. y may be x. */
void cs_op_dropout(cs_stream *stream, cs_tensor y, cs_tensor x, cs_dropout dropout);
/* y = a + dropout(b), in one walk. y may be a or b. */
void cs_op_add_dropout(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b, cs_dropout dropout);

/* Heads of an attention, D wide each. Query head h reads key and value head h / (queries / keys): with fewer keys than
 * queries that is grouped-query attention (Ainslie et al. 2023). keys divides queries. */
typedef struct {
    int64_t queries, keys;
    int64_t window;   /* a row sees itself and the window - 1 rows before it; 0: all before it */
    cs_tensor starts; /* (B, T) i32 or absent: row t of a sample sees none before row starts[t] <= t, which never
                       * decreases along t: documents packed into one sample do not see each other */
} cs_heads;

/* A residual sum that is normed where it is made: sum = a + dropout(b), then y and stats as cs_op_norm's and
 * cs_op_rms's of sum, whole rows, in one walk where the device can. sum may be a or b. */
typedef struct {
    cs_tensor sum, a, b;
    cs_dropout dropout;
} cs_addition;
void cs_op_add_norm(cs_stream *stream, cs_tensor y, cs_tensor stats, const cs_addition *x, cs_tensor weight,
                    cs_tensor bias, float epsilon);
void cs_op_add_rms(cs_stream *stream, cs_tensor y, cs_tensor stats, const cs_addition *x, cs_tensor weight,
                   float epsilon);
/* The gradient of what both a norm and a residual go on from: dx = cs_op_norm_grad's, or cs_op_rms_grad's of whole
 * rows, + beside. */
void cs_op_norm_grad_add(cs_stream *stream, cs_tensor dx, cs_tensor dweight, cs_tensor dbias, cs_tensor dy, cs_tensor x,
                         cs_tensor stats, cs_tensor weight, cs_tensor beside);
void cs_op_rms_grad_add(cs_stream *stream, cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                        cs_tensor weight, cs_tensor beside);

/* Causal self-attention over B sequences of T rows. qkv (B*T, (queries + 2 keys) D) c: q | k | v, head h at columns h*D
 * of each. y (B*T, queries D) c; lse (B*queries, T) f32: log of the softmax's denominator. Scores are scaled by
 * 1/sqrt(D). Dropout falls on the probabilities: element (h*T + i)*T + j of the sample. */
void cs_op_attention(cs_stream *stream, cs_tensor y, cs_tensor lse, cs_tensor qkv, cs_heads heads, cs_dropout dropout);
/* dqkv c, as qkv, whole. */
void cs_op_attention_grad(cs_stream *stream, cs_tensor dqkv, cs_tensor dy, cs_tensor y, cs_tensor lse, cs_tensor qkv,
                          cs_heads heads, cs_dropout dropout);

/* Rotary positions (Su et al. 2021), in place, in Hugging Face's order: with D = width, element i of [0, D/2) of a head
 * and element i + D/2 are a pair, turned by the angle position * frequency[i] and scaled by `factor`. */
enum { CS_ROPE_WIDTH = 512 };
typedef struct {
    int64_t width; /* D: even, at most CS_ROPE_WIDTH */
    float factor;
    float frequency[CS_ROPE_WIDTH / 2];
} cs_rope;
typedef struct {
    int64_t heads;  /* how many are turned, from column 0 on    */
    int64_t length; /* T: row r is at position first + r % T    */
    int64_t first;
} cs_rope_rows;
void cs_op_rope(cs_stream *stream, cs_tensor x, const cs_rope *rope, cs_rope_rows rows);
void cs_op_rope_grad(cs_stream *stream, cs_tensor dx, const cs_rope *rope,
                     cs_rope_rows rows); /* in place: turned back */

/* Attention of T new positions of one sequence, after the `start` that a cache knows. qkv (T, (queries + 2 keys) D) c
 * and y (T, queries D) c as above; keys, values (>= start + T, keys D) c: rows [start, start + T) are set from qkv. */
void cs_op_attention_extend(cs_stream *stream, cs_tensor y, cs_tensor qkv, cs_tensor keys, cs_tensor values,
                            cs_heads heads, int64_t start);

/* y (B*T, C) c = table[token] + positions[t - starts[t]]; tokens (B, T) i32 in [0, V), table (V, C) c, positions
 * (>= T, C) c or absent; starts as in cs_heads, absent: 0. */
void cs_op_embed(cs_stream *stream, cs_tensor y, cs_tensor tokens, cs_tensor table, cs_tensor positions,
                 cs_tensor starts);
/* dtable f32 += , dpositions f32 or absent +=; rows of one token are added in order of position. */
void cs_op_embed_grad(cs_stream *stream, cs_tensor dtable, cs_tensor dpositions, cs_tensor dy, cs_tensor tokens,
                      cs_tensor starts);

/* loss (N, 1) f32 = -log softmax(logits)[target], 0 where target < 0; logits (N, V) c, of which the first `classes`
 * columns are logits and those behind are padding, which is not read; targets i32, N of them, below `classes`. The order
 * of the sums depends on the number of classes, and on V only where V is not a multiple of 8. dloss (N, 1) f32 or absent
 * weighs the rows; where it is given, logits become their gradient in the same walk: (softmax - onehot(target)) *
 * dloss[row], 0 where target < 0 and in the padding. The loss has the same bits with dloss and without. */
void cs_op_cross_entropy(cs_stream *stream, cs_tensor loss, cs_tensor logits, cs_tensor targets, int64_t classes,
                         cs_tensor dloss);

/* hits (N, 1) f32 = 1 where the target is the first of the largest logits, else 0; logits, targets and classes as
 * above. */
void cs_op_hits(cs_stream *stream, cs_tensor hits, cs_tensor logits, cs_tensor targets, int64_t classes);

/* loss (N, 1) f32 = mean over columns of (y - target)^2; y (N, C) c, target (N, C) f32. */
void cs_op_squared_error(cs_stream *stream, cs_tensor loss, cs_tensor y, cs_tensor target);
void cs_op_squared_error_grad(cs_stream *stream, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target);

/* y = x in y's dtype, element by element; copies where the dtypes agree. */
void cs_op_cast(cs_stream *stream, cs_tensor y, cs_tensor x);
void cs_op_fill(cs_stream *stream, cs_tensor y, float value);

#endif
