/* layer.h - what models are built of. (public)
 *
 * A layer is a struct inside a unit's own struct: declare names its parameters, forward keeps what backward takes, and
 * backward, right under it in its file, mirrors it. Rows are b * T + t; widths are columns. Tensors returned live until
 * the unit ends. */
#ifndef CS_LAYER_LAYER_H
#define CS_LAYER_LAYER_H

#include "cspeed/cspeed.h"
#include "cspeed/ops.h"

/* ---- linear: y = x W + b ---- */
typedef struct {
    cs_param *weight, *bias; /* bias NULL: none */
    cs_layout layout;
    int64_t outputs;
} cs_linear;
/* Parameters NAME.weight, (inputs, outputs) or (outputs, inputs) by layout, and NAME.bias unless with_bias is
 * CS_NO_BIAS. */
typedef enum { CS_NO_BIAS, CS_BIAS } cs_with_bias;
void cs_linear_declare(cs_linear *linear, cs_unit *unit, const char *name, int64_t inputs, int64_t outputs,
                       cs_init init, cs_layout layout, cs_with_bias with_bias);
/* Several linears of one input as one product, their outputs side by side: NAME.PART.weight (outputs, inputs) and
 * NAME.PART.bias of each part. */
typedef struct {
    const char *name;
    int64_t outputs;
} cs_linear_part;
void cs_linear_declare_parts(cs_linear *linear, cs_unit *unit, const char *name, int64_t inputs,
                             const cs_linear_part *parts, int count, cs_init init, cs_with_bias with_bias);
cs_tensor cs_linear_forward(const cs_linear *linear, cs_pass *pass, cs_tensor x);
cs_tensor cs_linear_backward(const cs_linear *linear, cs_pass *pass, cs_tensor dy);
/* gelu(y), y being kept; the linear after it then goes backward through gelu too. */
cs_tensor cs_linear_forward_gelu(const cs_linear *linear, cs_pass *pass, cs_tensor x);
cs_tensor cs_linear_backward_gelu(const cs_linear *linear, cs_pass *pass, cs_tensor dy);
/* For a first unit, whose inputs need no gradient. */
void cs_linear_backward_weights(const cs_linear *linear, cs_pass *pass, cs_tensor dy);

/* ---- layer norm ---- */
typedef struct {
    cs_param *weight, *bias;
    float epsilon;
} cs_norm;
void cs_norm_declare(cs_norm *norm, cs_unit *unit, const char *name, int64_t width, float epsilon);
cs_tensor cs_norm_forward(const cs_norm *norm, cs_pass *pass, cs_tensor x);
cs_tensor cs_norm_backward(const cs_norm *norm, cs_pass *pass, cs_tensor dy);
/* Of a sum that is made on the way, x->sum = x->a + dropout(x->b); and dx = its gradient + beside. */
cs_tensor cs_norm_forward_add(const cs_norm *norm, cs_pass *pass, const cs_addition *x);
void cs_norm_backward_add(const cs_norm *norm, cs_pass *pass, cs_tensor dx, cs_tensor dy, cs_tensor beside);

/* ---- RMS norm ---- */
typedef struct {
    cs_param *weight;
    float epsilon;
} cs_rms;
void cs_rms_declare(cs_rms *rms, cs_unit *unit, const char *name, int64_t width, float epsilon);
cs_tensor cs_rms_forward(const cs_rms *rms, cs_pass *pass, cs_tensor x);
cs_tensor cs_rms_backward(const cs_rms *rms, cs_pass *pass, cs_tensor dy);
/* As cs_norm_forward_add and cs_norm_backward_add. */
cs_tensor cs_rms_forward_add(const cs_rms *rms, cs_pass *pass, const cs_addition *x);
void cs_rms_backward_add(const cs_rms *rms, cs_pass *pass, cs_tensor dx, cs_tensor dy, cs_tensor beside);

/* ---- rotary positions: the frequencies a model turns by ---- */
typedef struct {
    int64_t width; /* of a head */
    double theta;
    enum { CS_ROPE_PLAIN, CS_ROPE_LINEAR, CS_ROPE_LLAMA3, CS_ROPE_YARN } kind;
    double factor;    /* of all scalings: how much longer the context became                   */
    double low, high; /* llama3: wavelengths, as parts of `original`; yarn: beta_slow, beta_fast */
    double original;  /* llama3, yarn: the context before                                      */
    double attention; /* yarn: on cosine and sine; 0: what follows from factor                 */
    bool truncate;    /* yarn: the ramp begins and ends at whole numbers                       */
} cs_rope_sizes;
void cs_rope_open(cs_rope *rope, const cs_rope_sizes *sizes);

/* ---- causal self-attention: projections, norms of q and k, rotary positions, heads that share keys ---- */
typedef struct {
    cs_linear qkv, out;
    cs_heads heads;
    int64_t width;             /* of a head                                */
    cs_rope rope;              /* width 0: positions are the model's matter */
    cs_param *q_norm, *k_norm; /* RMS norms over a head; NULL: none     */
    float epsilon;             /* of these                                 */
    float rate;                /* dropout on the probabilities             */
    uint64_t place;
} cs_attention;
/* GPT-2's: one projection NAME.c_attn for q | k | v and NAME.c_proj back, with biases. */
typedef struct {
    int64_t width, heads;
    float dropout;
    cs_init init, out_init;
} cs_attention_sizes;
void cs_attention_declare(cs_attention *attention, cs_unit *unit, const char *name, const cs_attention_sizes *sizes);
/* Llama's: NAME.q_proj, k_proj, v_proj, o_proj and, where normed, NAME.q_norm and k_norm. */
typedef struct {
    int64_t width, head; /* of the stream; of a head */
    cs_heads heads;
    const cs_rope_sizes *rope;
    cs_with_bias bias, out_bias;
    bool normed;
    float epsilon, dropout;
    cs_init init;
} cs_attention_parts;
void cs_attention_declare_parts(cs_attention *attention, cs_unit *unit, const char *name,
                                const cs_attention_parts *parts);
cs_tensor cs_attention_forward(const cs_attention *attention, cs_pass *pass, cs_tensor x);
cs_tensor cs_attention_backward(const cs_attention *attention, cs_pass *pass, cs_tensor dy);

/* ---- two linears with GELU between (GPT-2's feed-forward) ---- */
typedef struct {
    cs_linear up, down;
} cs_mlp;
typedef struct {
    int64_t width, hidden;
    cs_init init, down_init;
} cs_mlp_sizes;
void cs_mlp_declare(cs_mlp *mlp, cs_unit *unit, const char *name, const cs_mlp_sizes *sizes);
cs_tensor cs_mlp_forward(const cs_mlp *mlp, cs_pass *pass, cs_tensor x);
cs_tensor cs_mlp_backward(const cs_mlp *mlp, cs_pass *pass, cs_tensor dy);

/* ---- SwiGLU: down(silu(gate(x)) * up(x)) (Llama's feed-forward) ---- */
typedef struct {
    cs_linear gate_up, down;
} cs_gated;
typedef struct {
    int64_t width, hidden;
    cs_with_bias bias;
    cs_init init;
} cs_gated_sizes;
/* Parameters NAME.gate_proj, up_proj, down_proj. */
void cs_gated_declare(cs_gated *gated, cs_unit *unit, const char *name, const cs_gated_sizes *sizes);
cs_tensor cs_gated_forward(const cs_gated *gated, cs_pass *pass, cs_tensor x);
cs_tensor cs_gated_backward(const cs_gated *gated, cs_pass *pass, cs_tensor dy);

/* ---- residual: y = a + dropout(b) ---- */
typedef struct {
    float rate;
    uint64_t place;
} cs_residual;
void cs_residual_declare(cs_residual *residual, cs_unit *unit, const char *name, float rate);
void cs_residual_forward(const cs_residual *residual, cs_pass *pass, cs_tensor y, cs_tensor a, cs_tensor b);
/* The same sum, for a norm to make. */
cs_addition cs_residual_addition(const cs_residual *residual, cs_pass *pass, cs_tensor y, cs_tensor a, cs_tensor b);
cs_tensor cs_residual_backward(const cs_residual *residual, cs_pass *pass, cs_tensor dy); /* db; da is dy */

/* ---- token and position embedding, with dropout ---- */
typedef struct {
    cs_param *tokens, *positions; /* positions NULL: none */
    float rate;
    uint64_t place;
} cs_embed;
typedef struct {
    int64_t vocabulary, positions, width;
    float dropout;
    cs_init init;
} cs_embed_sizes;
/* Parameters TOKENS.weight (vocabulary, width) and, unless POSITIONS is NULL, POSITIONS.weight (positions, width). */
void cs_embed_declare(cs_embed *embed, cs_unit *unit, const char *tokens, const char *positions,
                      const cs_embed_sizes *sizes);
void cs_embed_forward(const cs_embed *embed, cs_pass *pass, cs_tensor tokens, cs_tensor y);
void cs_embed_backward(const cs_embed *embed, cs_pass *pass, cs_tensor dy);

/* ---- softmax cross-entropy of the first `classes` columns of logits against the pass's targets: the last unit's, whose
 * rows cs_pass_dloss weighs ---- */
/* In training logits become dlogits, zero in the columns behind the classes. */
void cs_entropy_forward(cs_pass *pass, cs_tensor logits, int64_t classes, cs_tensor loss);
cs_tensor cs_entropy_backward(cs_pass *pass); /* dlogits, in the logits' own memory */

/* What a dropout of this rate and place is in this pass: off in evaluation. */
cs_dropout cs_residual_dropout(cs_pass *pass, float rate, uint64_t place);
uint64_t cs_residual_place(cs_unit *unit, const char *name); /* a place's key: of the unit's and the layer's name */

#endif
