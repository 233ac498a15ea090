/* layer.h - neural-network layers with forward and backward: linear, norms, attention, MLP, embedding, cross-entropy.
 * (public)
 *
 * A layer is a member of a unit's private struct (cs_unit_self). The unit's declare calls the layer's declare, which
 * names its parameters. The unit's forward calls the layers in order, and its backward calls their backward functions
 * in the opposite order, because each forward saves tensors (cs_pass_keep) that its backward takes (cs_pass_take).
 * Backward functions add to the gradients of the parameters and return the gradient of the layer's input.
 *
 * In all shapes rows = B * T: row b * T + t is position t of sample b. A returned tensor is valid until the unit's
 * forward or backward returns. In the names of parameters below, NAME is the argument `name` with the unit's name
 * before it. */
#ifndef CS_LAYER_LAYER_H
#define CS_LAYER_LAYER_H

#include "cspeed/cspeed.h"
#include "cspeed/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- linear: y = x W + b ---- */
typedef struct cs_adapter cs_adapter;
typedef struct cs_linear {
    cs_param *weight, *bias; /* bias is NULL if the layer has no bias */
    cs_layout layout;
    int64_t outputs;
    cs_adapter *adapter; /* private: the LoRA adapters of the layer's parts; NULL if there are none */
    /* private: tensor parallelism. If the ranks divide the outputs, `outputs` is the number of outputs of this rank.
     * `whole` is the number of outputs or inputs that are divided, and `first` the number of this rank's first one. */
    enum { CS_CUT_NOTHING, CS_CUT_OUTPUTS, CS_CUT_INPUTS } cut;
    int64_t first, whole;
    bool joined; /* private: another layer's sum over the ranks contains that of this layer */
} cs_linear;
typedef enum { CS_NO_BIAS, CS_BIAS } cs_with_bias;
/* Parameters: NAME.weight, (inputs, outputs) or (outputs, inputs) as `layout` says, and with CS_BIAS NAME.bias
 * (outputs). */
void cs_linear_declare(cs_linear *linear, cs_unit *unit, const char *name, int64_t inputs, int64_t outputs,
                       cs_init init, cs_layout layout, cs_with_bias with_bias);
/* Several linear layers of the same input, computed as one matrix product; their outputs are adjacent columns of the
 * result. Parameters of each part: NAME.PART.weight (outputs, inputs), and with CS_BIAS NAME.PART.bias (outputs). */
typedef struct {
    const char *name;
    int64_t outputs;
} cs_linear_part;
void cs_linear_declare_parts(cs_linear *linear, cs_unit *unit, const char *name, int64_t inputs,
                             const cs_linear_part *parts, int count, cs_init init, cs_with_bias with_bias);
/* x (rows, inputs); the result is (rows, outputs). Forward saves x, unless weight and bias are frozen. */
cs_tensor cs_linear_forward(const cs_linear *linear, cs_pass *pass, cs_tensor x);
cs_tensor cs_linear_backward(const cs_linear *linear, cs_pass *pass, cs_tensor dy);
/* Two linear layers with GELU between them: the first calls cs_linear_forward_gelu, which returns gelu(x W + b) and
 * saves x W + b. In backward, the second layer calls cs_linear_backward_gelu, which returns the gradient of the first
 * layer's x W + b. The first layer then calls cs_linear_backward with that gradient. */
cs_tensor cs_linear_forward_gelu(const cs_linear *linear, cs_pass *pass, cs_tensor x);
cs_tensor cs_linear_backward_gelu(const cs_linear *linear, cs_pass *pass, cs_tensor dy);
/* Backward for a model's first layer: computes the gradients of the parameters only. */
void cs_linear_backward_weights(const cs_linear *linear, cs_pass *pass, cs_tensor dy);

/* ---- layer norm; parameters NAME.weight and NAME.bias (width) ---- */
typedef struct {
    cs_param *weight, *bias;
    float epsilon;
} cs_norm;
void cs_norm_declare(cs_norm *norm, cs_unit *unit, const char *name, int64_t width, float epsilon);
/* Declares a norm without the parameter NAME.bias; norm->bias is NULL. */
void cs_norm_declare_unbiased(cs_norm *norm, cs_unit *unit, const char *name, int64_t width, float epsilon);
cs_tensor cs_norm_forward(const cs_norm *norm, cs_pass *pass, cs_tensor x);
cs_tensor cs_norm_backward(const cs_norm *norm, cs_pass *pass, cs_tensor dy);
/* cs_norm_forward_add computes the residual sum x->sum = x->a + dropout(x->b) and then the norm of the sum, in one
 * kernel if the device has one. cs_norm_backward_add sets dx to the gradient of the residual sum. This gradient is the
 * sum of two terms: the gradient through the norm, which cs_norm_backward returns for dy, and the gradient through the
 * residual connection, which is `beside`. */
cs_tensor cs_norm_forward_add(const cs_norm *norm, cs_pass *pass, const cs_addition *x);
void cs_norm_backward_add(const cs_norm *norm, cs_pass *pass, cs_tensor dx, cs_tensor dy, cs_tensor beside);

/* ---- RMS norm; parameter NAME.weight (width) ---- */
typedef struct {
    cs_param *weight;
    float epsilon;
    bool plus_one; /* the factor of a normalized element is 1 + weight, as in Gemma's models */
} cs_rms;
void cs_rms_declare(cs_rms *rms, cs_unit *unit, const char *name, int64_t width, float epsilon);
/* Declares a norm whose factor is 1 + weight. The weight's initial value is 0. */
void cs_rms_declare_plus_one(cs_rms *rms, cs_unit *unit, const char *name, int64_t width, float epsilon);
cs_tensor cs_rms_forward(const cs_rms *rms, cs_pass *pass, cs_tensor x);
cs_tensor cs_rms_backward(const cs_rms *rms, cs_pass *pass, cs_tensor dy);
/* Like cs_norm_forward_add and cs_norm_backward_add, but with an RMS norm. */
cs_tensor cs_rms_forward_add(const cs_rms *rms, cs_pass *pass, const cs_addition *x);
void cs_rms_backward_add(const cs_rms *rms, cs_pass *pass, cs_tensor dx, cs_tensor dy, cs_tensor beside);

/* ---- rotary position embedding (RoPE): the table of frequencies, with the scalings of Hugging Face's rope_scaling
 * ---- */
typedef struct {
    int64_t width; /* columns of a head that are rotated */
    double theta;  /* rope_theta, the base of the frequencies */
    enum { CS_ROPE_PLAIN, CS_ROPE_LINEAR, CS_ROPE_LLAMA3, CS_ROPE_YARN, CS_ROPE_LONG } kind;
    double factor; /* for all kinds except CS_ROPE_PLAIN: new context length / original context length */
    /* Hugging Face's low_freq_factor and high_freq_factor for llama3, beta_slow and beta_fast for yarn */
    double low, high;
    double original; /* llama3, yarn, longrope: the original context length */
    /* yarn, longrope: attention_factor, by which cosine and sine are multiplied; if 0, it is computed from `factor` */
    double attention;
    bool truncate; /* yarn: true if the ends of the ramp are rounded to whole dimensions */
    int64_t head;  /* columns of a head; 0 means `width` */
    bool adjacent; /* pairs are adjacent columns, as in cs_rope */
    /* longrope: the divisors of the frequencies, which Hugging Face calls short_factor and long_factor */
    float shorter[CS_ROPE_WIDTH / 2], longer[CS_ROPE_WIDTH / 2];
} cs_rope_sizes;
/* Fills *rope for cs_op_rope. */
void cs_rope_open(cs_rope *rope, const cs_rope_sizes *sizes);
/* Fills *rope for texts longer than `original`. Only with longrope does this table differ from that of cs_rope_open. */
void cs_rope_open_longer(cs_rope *rope, const cs_rope_sizes *sizes);

/* ---- causal self-attention: q, k, v and output projections, optional norms of q and k, optional RoPE, grouped-query
 * attention ---- */
typedef struct {
    cs_linear qkv, out;
    cs_heads heads;
    int64_t width;  /* columns of a head */
    cs_rope rope;   /* rope.width is 0 if there is no rotary embedding */
    cs_rope longer; /* the RoPE table for samples longer than `original`; not used if `original` is 0 */
    int64_t original;
    bool grouped; /* the projection `qkv` returns the heads in groups, see cs_op_ungroup_heads */
    /* RMS norms over each head, or over all heads of q and all heads of k; NULL if there are none */
    cs_param *q_norm, *k_norm;
    cs_param *sinks; /* a score for each query head, see cs_op_sinks; NULL if there are none */
    bool plus_one;   /* the factors of q_norm and k_norm are 1 + weight */
    bool late;       /* q_norm and k_norm follow the rotation */
    float epsilon;   /* epsilon of q_norm and k_norm */
    float rate;      /* probability of dropout on the attention probabilities */
    uint64_t place;  /* the random key of the attention's dropout, see cs_residual_place */
    /* private: tensor parallelism. If the norms over all heads of q and of k need sums over ranks: the number of columns of
     * all ranks; otherwise 0. copy: this rank's key heads are copies of another rank's. */
    int64_t norm_queries, norm_keys;
    bool copy;
} cs_attention;
/* GPT-2's form, with biases: NAME.c_attn projects to q | k | v, NAME.c_proj is the output projection. */
typedef struct {
    int64_t width, heads;
    float dropout;
    cs_init init, out_init;
    float scale; /* factor of the scores; 0 means 1/sqrt(D) */
} cs_attention_sizes;
void cs_attention_declare(cs_attention *attention, cs_unit *unit, const char *name, const cs_attention_sizes *sizes);
/* Llama's form: NAME.q_proj, NAME.k_proj, NAME.v_proj, NAME.o_proj and, if `normed`, NAME.q_norm and NAME.k_norm. */
typedef struct {
    int64_t width, head; /* `width`: columns of x and of the result; `head`: columns of one head */
    cs_heads heads;
    const cs_rope_sizes *rope;
    /* bias: whether the projections to q, k and v have a bias; out_bias: whether the output projection has one */
    cs_with_bias bias, out_bias;
    bool normed; /* q and k pass through RMS norms */
    float epsilon, dropout;
    cs_init init;
    /* norm_whole: a norm takes all heads of q (or of k) as one row. norm_plus_one: the norm's factor is 1 + weight */
    bool norm_whole, norm_plus_one;
    bool sinks;                  /* parameter NAME.sinks (queries): attention sinks, see cs_op_sinks */
    bool norm_late;              /* the norms follow the rotary positions instead of preceding them */
    const char *q_norm, *k_norm; /* names of the norms; NULL means q_norm and k_norm */
    /* name of one fused projection to q, k and v; NULL if there are three projections q_proj, k_proj and v_proj */
    const char *fused;
    bool grouped;    /* the fused projection returns the heads in groups, see cs_op_ungroup_heads */
    const char *out; /* name of the output projection; NULL means o_proj */
} cs_attention_parts;
void cs_attention_declare_parts(cs_attention *attention, cs_unit *unit, const char *name,
                                const cs_attention_parts *parts);
cs_tensor cs_attention_forward(const cs_attention *attention, cs_pass *pass, cs_tensor x);
cs_tensor cs_attention_backward(const cs_attention *attention, cs_pass *pass, cs_tensor dy);

/* ---- GPT-2's feed-forward network: NAME.c_fc, GELU or another function, NAME.c_proj ---- */
typedef struct {
    cs_linear up, down;
    cs_activation function;
} cs_mlp;
typedef struct {
    int64_t width, hidden;
    cs_init init, down_init;
    cs_activation function;
    const char *up, *down; /* names of the two projections; NULL means c_fc and c_proj */
    cs_layout layout;
    bool unbiased;
} cs_mlp_sizes;
void cs_mlp_declare(cs_mlp *mlp, cs_unit *unit, const char *name, const cs_mlp_sizes *sizes);
cs_tensor cs_mlp_forward(const cs_mlp *mlp, cs_pass *pass, cs_tensor x);
cs_tensor cs_mlp_backward(const cs_mlp *mlp, cs_pass *pass, cs_tensor dy);

/* ---- Llama's feed-forward network: down(silu(gate(x)) * up(x)), which is SwiGLU, or with another function ---- */
typedef struct {
    cs_linear gate_up, down;
    cs_activation function;
} cs_gated;
typedef struct {
    int64_t width, hidden;
    cs_with_bias bias;
    cs_init init;
    cs_activation function;
    const char *fused; /* name of one fused projection to gate and up; NULL if there are two projections */
} cs_gated_sizes;
/* Parameters: NAME.gate_proj, NAME.up_proj (or NAME.FUSED), NAME.down_proj. */
void cs_gated_declare(cs_gated *gated, cs_unit *unit, const char *name, const cs_gated_sizes *sizes);
cs_tensor cs_gated_forward(const cs_gated *gated, cs_pass *pass, cs_tensor x);
cs_tensor cs_gated_backward(const cs_gated *gated, cs_pass *pass, cs_tensor dy);

/* ---- mixture of experts. A router chooses some of many experts, which are feed-forward networks, for each row. The
 * result is the sum of the chosen experts' outputs, each times its factor (cs_op_route). A shared expert for all rows
 * is optional ---- */
typedef struct {
    cs_linear router;
    /* the first of the experts' matrices, which are adjacent in memory: gate and up of all experts, then down of all
     * experts */
    cs_param *gate_up, *down;
    cs_param *gate_up_bias, *down_bias; /* NULL if experts have no biases */
    cs_layout layout;                   /* of the experts' matrices */
    cs_clamp clamp;                     /* clamp.limit is above 0 if the activation is cs_op_clamped */
    int64_t count, chosen, hidden;
    cs_activation function;
    bool normalized, rounded;
    cs_gated shared; /* gate_up.weight is NULL if there is no shared expert */
    /* the logistic function of this layer's output is the factor of the shared expert's result */
    cs_linear shared_gate;
    cs_unit *unit;
    int64_t layer; /* number of this layer among the layers with experts, from 0 */
} cs_experts;
typedef struct {
    int64_t width, hidden; /* `hidden`: the width inside an expert */
    /* count: the number of experts, at most CS_MAX_EXPERTS; chosen: how many of them compute a row */
    int64_t count, chosen;
    int64_t shared; /* width inside the shared expert; 0 if there is none */
    cs_init init;
    cs_activation function;
    bool normalized; /* the factors of a row's experts are divided by their sum */
    bool rounded;    /* factors are rounded to the type of the matrix products instead of fp32 */
    /* coefficient of the load-balancing loss (cs_op_balance) in training; 0: there is no such loss */
    float balance;
    const char *gate, *up, *down; /* names of an expert's matrices */
    const char *router;           /* name of the router; NULL means gate */
    bool biased;                  /* the router has a bias, and if `up` is NULL, so have the experts */
    cs_clamp clamp;               /* if clamp.limit is above 0: cs_op_clamped replaces the gate with `function` */
} cs_experts_sizes;
/* Parameters: NAME.ROUTER.weight (count, width), which is the router's; for each expert e NAME.experts.e.GATE.weight and
 * NAME.experts.e.UP.weight (hidden, width), NAME.experts.e.DOWN.weight (width, hidden); and with a shared expert
 * NAME.shared_expert (as cs_gated) and NAME.shared_expert_gate.weight (1, width).
 *
 * If `up` is NULL, gate and up are one matrix NAME.experts.e.GATE.weight (width, 2 hidden), whose columns are as in
 * cs_op_clamped, and NAME.experts.e.DOWN.weight is (hidden, width). With `biased`, all experts together then have the
 * biases NAME.experts.GATE_bias (count, 2 hidden) and NAME.experts.DOWN_bias (count, width). */
void cs_experts_declare(cs_experts *experts, cs_unit *unit, const char *name, const cs_experts_sizes *sizes);
cs_tensor cs_experts_forward(const cs_experts *experts, cs_pass *pass, cs_tensor x);
cs_tensor cs_experts_backward(const cs_experts *experts, cs_pass *pass, cs_tensor dy);
/* In training, adds the load-balancing loss to the losses of the rows in `loss`, (rows, 1) f32, as cs_op_balance does.
 * The forward of the last unit calls this function if the model may have experts. */
void cs_experts_balance(cs_unit *unit, cs_pass *pass, cs_tensor loss);

/* ---- residual connection: y = a + dropout(b) ---- */
typedef struct {
    float rate;     /* probability of dropout */
    uint64_t place; /* the random key of the dropout, see cs_residual_place */
} cs_residual;
void cs_residual_declare(cs_residual *residual, cs_unit *unit, const char *name, float rate);
void cs_residual_forward(const cs_residual *residual, cs_pass *pass, cs_tensor y, cs_tensor a, cs_tensor b);
/* Returns the operands of the sum a + dropout(b). cs_norm_forward_add or cs_rms_forward_add then computes this sum. */
cs_addition cs_residual_addition(const cs_residual *residual, cs_pass *pass, cs_tensor y, cs_tensor a, cs_tensor b);
/* For y = a + dropout(b): returns the gradient of b. The gradient of a is dy. */
cs_tensor cs_residual_backward(const cs_residual *residual, cs_pass *pass, cs_tensor dy);

/* ---- token and position embedding, with dropout ---- */
typedef struct {
    cs_param *tokens, *positions; /* positions is NULL if there is no table of positions */
    float rate;                   /* probability of dropout */
    uint64_t place;
    float scale;     /* factor of the embedding; 0 means that the embedding is not scaled */
    int64_t padding; /* the embedding of this token has no gradient; -1 if every token's embedding has one */
    int64_t first;   /* private: the token of the first row of `tokens` on this rank, with tensor parallelism */
} cs_embed;
typedef struct {
    int64_t vocabulary, positions, width;
    float dropout;
    cs_init init;
    float scale;
    bool has_padding; /* true: the embedding of the token `padding` has no gradient (PyTorch's padding_idx) */
    int64_t padding;
} cs_embed_sizes;
/* Parameters: TOKENS.weight (vocabulary, width) and, unless `positions` is NULL, POSITIONS.weight (positions,
 * width). */
void cs_embed_declare(cs_embed *embed, cs_unit *unit, const char *tokens, const char *positions,
                      const cs_embed_sizes *sizes);
/* tokens (B, T) i32; y (rows, width). */
void cs_embed_forward(const cs_embed *embed, cs_pass *pass, cs_tensor tokens, cs_tensor y);
void cs_embed_backward(const cs_embed *embed, cs_pass *pass, cs_tensor dy);

/* ---- the head of a language model: a linear layer without bias, whose outputs are the logits of the vocabulary ---- */
/* Parameter: NAME.weight (outputs, inputs). cs_head_share uses the table `name` of the unit `owner` instead: the head is
 * tied to the embedding. The table is padded on the device (cs_param.padded). */
void cs_head_declare(cs_linear *head, cs_unit *unit, const char *name, int64_t inputs, int64_t outputs, cs_init init);
/* Like cs_head_declare, with the parameter NAME.bias (outputs); the table is not padded. */
void cs_head_declare_biased(cs_linear *head, cs_unit *unit, const char *name, int64_t inputs, int64_t outputs,
                            cs_init init);
void cs_head_share(cs_linear *head, cs_unit *unit, cs_unit *owner, const char *name);
/* Returns the logits of the whole vocabulary for x (rows, inputs), with the soft cap `cap` unless it is 0. */
cs_tensor cs_head_predict(const cs_linear *head, cs_pass *pass, cs_tensor x, float cap);

/* ---- cross-entropy, for the last unit: the head, which is a linear layer, and softmax cross-entropy against the
 * pass's targets ---- */
/* x (rows, inputs); loss (rows, 1) f32. Only the first `classes` outputs of the head are logits, later outputs are
 * padding. Logits are computed in chunks of rows (cs_pass_chunk), which use the same memory in turn. In training, this
 * function also adds to the gradients of the head's parameters and saves the gradient of x. It does not wait for
 * backward to do so, because the weight of each row's loss (cs_pass_dloss) is known in forward. */
void cs_entropy_forward(const cs_linear *head, cs_pass *pass, cs_tensor x, int64_t classes, cs_tensor loss);
/* Like cs_entropy_forward, but the logits pass through a soft cap (cs_op_softcap) before the softmax. If cap is 0,
 * there is no soft cap. */
void cs_entropy_forward_capped(const cs_linear *head, cs_pass *pass, cs_tensor x, int64_t classes, float cap,
                               cs_tensor loss);
/* Returns the gradient of x, which cs_entropy_forward has computed and saved. */
cs_tensor cs_entropy_backward(cs_pass *pass);

/* ---- dropout ---- */
/* Returns the dropout argument of operations such as cs_op_dropout. In evaluation the probability of dropout is 0. */
cs_dropout cs_residual_dropout(cs_pass *pass, float rate, uint64_t place);
/* Returns the random key of one dropout of a model: a hash of the unit's name and `name`. */
uint64_t cs_residual_place(cs_unit *unit, const char *name);

#ifdef __cplusplus
}
#endif
#endif
