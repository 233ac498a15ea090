/* ops.h - every operation: formula, shapes, types. (public, for models)
 *
 * Legend: N rows, C columns, K and M the two widths of a weight, B samples, T positions, H heads, D = C/H.
 * "c" is the pass's compute dtype: CS_F32, CS_BF16 or CS_F16. Arithmetic and sums are fp32 whatever is
 * stored; what is stored in 16 bits is rounded once, to nearest even. Weight gradients are fp32 and are
 * added to. Results depend on shapes, values and the device's thread count, never on timing. Outputs may not
 * overlap inputs unless it says so. Shapes and types are checked here (CS_ASSERT); kernels trust.
 * cs_tensors with data NULL are absent where "or absent" says so. */
#ifndef CS_DEVICE_OPS_H
#define CS_DEVICE_OPS_H

#include "cspeed.h"

/* How a weight lies in memory. */
typedef enum {
    CS_IN_OUT, /* (K, M): GPT-2's Conv1D     y = x W   */
    CS_OUT_IN  /* (M, K): torch's nn.Linear  y = x W^T */
} cs_layout;

/* y (N, M) c or f32 = x (N, K) c times w c, + bias (M) c or absent. */
void cs_op_matmul(cs_stream *stream, cs_tensor y, cs_tensor x, cs_tensor w, cs_tensor bias, cs_layout layout);
/* dx (N, K) c = dy (N, M) c times w transposed. */
void cs_op_matmul_grad_input(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor w, cs_layout layout);
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

/* GELU, tanh form (Hendrycks & Gimpel 2016; "gelu_new"). y may be x; dx may be dy. */
void cs_op_gelu(cs_stream *stream, cs_tensor y, cs_tensor x);
void cs_op_gelu_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x);

/* y = a + b. y may be a or b. */
void cs_op_add(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b);

/* Random bits of dropout: 16 an element, so 8 elements a Philox block. Element e of sample b at `place`, e counting
 * from the sample's first element, takes from cs_rng_philox(cs_rng_mix(keys[b], place), e / 8) word e % 8 / 2, its
 * low half for even e and its high half for odd e, and is kept where those bits are at least rate * 65536, rounded.
 * So rank, batch and recomputation change nothing. rate 0: off. */
typedef struct {
    float           rate;
    uint64_t        place;  /* which dropout of the model: cs_rng_key of its name */
    const uint64_t *keys;   /* (B), cs_pass_keys */
    int64_t         batch;  /* B; tensors hold B equal runs of elements */
} cs_dropout;

/* y = x where kept, scaled by 1 / (1 - rate), else 0: forward and, on gradients, backward. y may be x. */
void cs_op_dropout(cs_stream *stream, cs_tensor y, cs_tensor x, cs_dropout dropout);
/* y = a + dropout(b), in one walk. y may be a or b. */
void cs_op_add_dropout(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b, cs_dropout dropout);

/* Causal self-attention over B sequences of T rows. qkv (B*T, 3C) c: q | k | v, head h at columns h*D of each. y
 * (B*T, C) c; lse (B*H, T) f32: log of the softmax's denominator. Scores are scaled by 1/sqrt(D). Dropout falls on
 * the probabilities: element (h*T + i)*T + j of the sample. */
void cs_op_attention(cs_stream *stream, cs_tensor y, cs_tensor lse, cs_tensor qkv, int64_t heads, cs_dropout dropout);
/* dqkv (B*T, 3C) c, whole. */
void cs_op_attention_grad(cs_stream *stream, cs_tensor dqkv, cs_tensor dy, cs_tensor y, cs_tensor lse, cs_tensor qkv,
                          int64_t heads, cs_dropout dropout);

/* y (B*T, C) c = table[token] + positions[t]; tokens (B, T) i32 in [0, V), table (V, C) c, positions (>= T, C) c or
 * absent. */
void cs_op_embed(cs_stream *stream, cs_tensor y, cs_tensor tokens, cs_tensor table, cs_tensor positions);
/* dtable f32 += , dpositions f32 or absent +=; rows of one token are added in order of position. */
void cs_op_embed_grad(cs_stream *stream, cs_tensor dtable, cs_tensor dpositions, cs_tensor dy, cs_tensor tokens);

/* loss (N, 1) f32 = -log softmax(logits)[target], 0 where target < 0; logits (N, V) c; targets i32, N of them;
 * lse (N, 1) f32 is kept for the gradient. */
void cs_op_cross_entropy(cs_stream *stream, cs_tensor loss, cs_tensor lse, cs_tensor logits, cs_tensor targets);
/* dlogits = (softmax - onehot(target)) * dloss[row], 0 where target < 0. dlogits may be logits. */
void cs_op_cross_entropy_grad(cs_stream *stream, cs_tensor dlogits, cs_tensor dloss, cs_tensor logits, cs_tensor lse,
                              cs_tensor targets);

/* loss (N, 1) f32 = mean over columns of (y - target)^2; y (N, C) c, target (N, C) f32. */
void cs_op_squared_error(cs_stream *stream, cs_tensor loss, cs_tensor y, cs_tensor target);
void cs_op_squared_error_grad(cs_stream *stream, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target);

/* y = x in y's dtype, element by element; copies where the dtypes agree. */
void cs_op_cast(cs_stream *stream, cs_tensor y, cs_tensor x);
void cs_op_fill(cs_stream *stream, cs_tensor y, float value);

#endif
