/* llama.h - models built of Llama's block: their sizes, the differences between them, and the rows that their key
 * tables share. llama.c builds the models. A family is a key table, a ce_llama_traits and a call of ce_llama_build. */
#ifndef CE_MODELS_LLAMA_H
#define CE_MODELS_LLAMA_H

#include "models/any_norm.h"
#include "models/family.h"
#include "models/functions.h"

#include <stddef.h>

typedef struct {
    int64_t vocabulary, positions, width, inner, layers, heads, keys, head, window, window_from, period, original;
    double dropout, residual_dropout, epsilon, init_std, theta, partial;
    double local_theta; /* theta for the layers with a window; 0 means the theta of the other layers */
    double embedding, residual, attention, logits; /* multipliers of Granite; `logits` is a divisor */
    /* for Gemma: the values of query_pre_attn_scalar, attn_logit_softcapping and final_logit_softcapping */
    double query_scalar, attention_cap, logits_cap;
    int activation;
    bool tied, bias, out_bias, mlp_bias, windowed;
    json_t *scaling, *rotary, *layer_types;
    /* SmolLM3's no_rope_layers: a list that has 0 for each layer without rotary positions. Without this list, every
     * `rope_interval`-th layer has none. */
    json_t *rope_layers;
    int64_t rope_interval;
    json_t *padding; /* value of pad_token_id */
    /* Mixtures of experts. `experts` is the number of experts of a layer. `other_experts` is the same number, read from
     * the key under which transformers 5 writes this number. Each token is computed by `chosen` experts. `expert_inner`
     * and `shared_inner` are the widths inside an expert and inside the shared expert. Every `sparse_step`-th layer has
     * experts, except the layers that `dense_layers` lists. */
    int64_t experts, other_experts, chosen, expert_inner, shared_inner, sparse_step;
    bool normalized, balanced;       /* values of norm_topk_prob and of output_router_logits */
    double balance;                  /* value of router_aux_loss_coef */
    json_t *dense_layers;            /* value of mlp_only_layers */
    double clamp_alpha, clamp_limit; /* gpt-oss: values of swiglu_alpha and swiglu_limit; a limit of 0: no clamps */
    json_t *quantization;            /* gpt-oss: value of quantization_config */
} ce_llama_sizes;

/* The names of a block's norms before and after attention [0] and feed-forward [1]; NULL: there is no such norm. */
typedef struct {
    const char *before[2], *after[2];
} ce_llama_norms;

typedef struct {
    bool qkv_bias;  /* q, k and v always have biases, and o never has one. */
    bool normed;    /* q and k have an RMSNorm for each head. */
    bool whole;     /* q and k have one RMSNorm for all heads together. */
    bool late;      /* The norms of q and k, query_layernorm and key_layernorm, follow the rotary positions. */
    bool ntk_alpha; /* rope_type "dynamic" with "alpha" enlarges rope_theta. */
    /* Queries beyond the original context are scaled, which is not implemented: no text may be longer. */
    bool scaled_queries;
    bool fused;                  /* q, k and v are rows of one matrix. */
    bool fused_mlp;              /* gate and up are rows of one matrix. */
    bool plain;                  /* The feed-forward has no gate: down(function(up(x))). */
    bool parallel;               /* Attention and feed-forward read the same norm of the block's input. */
    bool sinks;                  /* Attention has a sink for each query head. */
    bool adjacent;               /* Rotary pairs are adjacent columns of a head. */
    bool large;                  /* Embeddings are multiplied by sqrt(width). */
    bool two_ropes;              /* Layers with a window have rotary positions of their own. */
    ce_norm_kind norm;           /* kind of all norms but those of q and k */
    const ce_llama_norms *norms; /* NULL: input_layernorm and post_attention_layernorm before the two */
    /* default of the theta for the layers with a window, if no key gives it */
    double local_theta;
    int64_t period; /* the period of CE_WINDOW_BY_LAYER, if no key gives it */
    /* Which layers have rotary positions: all; those that no_rope_layers says; those with a window. */
    enum { CE_ROPE_ALL, CE_ROPE_LISTED, CE_ROPE_IN_WINDOWS } rotated;
    bool qkv_choice; /* The key `bias` gives biases to q, k and v; o never has a bias. */
    double partial;  /* default of partial_rotary_factor; 0 means that all columns of a head are rotated */
    int64_t keys;    /* default of num_key_value_heads; 0 means the value of num_attention_heads */
    int64_t head;    /* default of head_dim; 0 means hidden_size / num_attention_heads */
    const struct ce_moe_names *moe; /* names of the experts' parameters, or NULL if there are no experts */
    /* True if the factors of experts are rounded to the type of matrix products instead of fp32. */
    bool moe_rounded;
    bool moe_normalized; /* The factors of a token's experts are always divided by their sum. */
    /* Which layers have an attention window:
     * - CE_NO_WINDOW: no layer;
     * - CE_WINDOW, CE_WINDOW_IF_GIVEN: all layers. If config.json has no sliding_window, the window is 4096 with
     *   CE_WINDOW, and no layer has a window with CE_WINDOW_IF_GIVEN;
     * - CE_WINDOW_IF_ASKED: the layers from max_window_layers on, if use_sliding_window is true;
     * - CE_WINDOW_BEFORE: every second layer before max_window_layers, if use_sliding_window is true;
     * - CE_WINDOW_ALL_IF_ASKED: all layers, if use_sliding_window is true;
     * - CE_WINDOW_UNROTATED: the layers without rotary positions, if use_sliding_window is true;
     * - CE_WINDOW_BY_LAYER: all layers except every `period`-th. */
    enum {
        CE_NO_WINDOW,
        CE_WINDOW,
        CE_WINDOW_IF_GIVEN,
        CE_WINDOW_IF_ASKED,
        CE_WINDOW_BEFORE,
        CE_WINDOW_ALL_IF_ASKED,
        CE_WINDOW_UNROTATED,
        CE_WINDOW_BY_LAYER
    } window;
} ce_llama_traits;

typedef struct ce_moe_names {
    /* parts of parameter names: `block` names the layer's feed-forward; `gate`, `up` and `down` name the matrices of an
     * expert, and `router` the router, as in cs_experts_sizes */
    const char *block, *gate, *up, *down, *router;
    bool biased; /* as in cs_experts_sizes */
} ce_moe_names;
/* Checks the keys of experts and adds faults (moe.c). If config.json gives the number of experts as `other_experts`,
 * sets s->experts to this number. */
void ce_moe_check(ce_llama_sizes *s, const ce_family_input *input);
bool ce_moe_is_sparse(const ce_llama_sizes *s, int64_t layer); /* Returns whether the layer has experts. */

/* Builds a model of a family, as ce_family describes. The settings of the input are a ce_llama_sizes. */
cs_status ce_llama_build(cs_model **model, ce_model_facts *facts, const ce_family_input *input,
                         const ce_llama_traits *traits);
/* Builds a model with other sizes than those of the input's settings. */
cs_status ce_llama_build_sizes(cs_model **model, ce_model_facts *facts, const ce_family_input *input,
                               const ce_llama_sizes *sizes, const ce_llama_traits *traits);

/* ---- rows of key tables ---- */

#define CE_LLAMA_AT(field) offsetof(ce_llama_sizes, field)
#define CE_LLAMA_SIZES_EPSILON(epsilon_name, type, vocab, max, width_, inner_, layers_, heads_, epsilon_, tied_)                    \
    CE_ROWS_OF_SIZES(type, vocab, max, width_),                                                                                     \
        CE_ROW("intermediate_size", INT, inner, inner_, 1, 1 << 22, NULL,                                                           \
               "width of the intermediate layer of the feed-forward network (MLP)"),                                                \
        CE_ROW("num_hidden_layers", INT, layers, layers_, 1, 1 << 14, NULL, "number of transformer layers"),                        \
        CE_ROW("num_attention_heads", INT, heads, heads_, 1, 1 << 14, NULL,                                                         \
               "number of attention heads (query heads)"),                                                                          \
        CE_ROW(                                                                                                                     \
            "num_key_value_heads", INT, keys, "0", 0, 1 << 14, NULL,                                                                \
            "number of key and value heads (grouped-query attention); must divide num_attention_heads; null: num_attention_heads"), \
        CE_ROW("head_dim", INT, head, "0", 0, CS_ROPE_WIDTH, NULL,                                                                  \
               "width of an attention head, an even number; null: hidden_size / num_attention_heads"),                              \
        CE_ROW(epsilon_name, NUMBER, epsilon, epsilon_, 1e-12, 1, NULL, "epsilon of norms, added under the root"),                  \
        CE_ROW("initializer_range", NUMBER, init_std, "0.02", 0, 10, NULL,                                                          \
               "standard deviation of the normal distribution from which weights are initialized"),                                 \
        CE_ROW("attention_dropout", NUMBER, dropout, "0", 0, 0.999, NULL,                                                           \
               "probability of dropout on the attention probabilities (after the softmax)"),                                        \
        CE_ROW("tie_word_embeddings", BOOL, tied, tied_, 0, 0, NULL,                                                                \
               "true: the output head (lm_head) shares its weights with the token embedding")
#define CE_LLAMA_SIZES(type, vocab, max, width_, inner_, layers_, heads_, epsilon_, tied_)                             \
    CE_LLAMA_SIZES_EPSILON("rms_norm_eps", type, vocab, max, width_, inner_, layers_, heads_, epsilon_, tied_)
#define CE_LLAMA_FUNCTION(name, fallback)                                                                              \
    CE_ROW(name, CHOICE, activation, "\"" fallback "\"", 0, 0, CE_FUNCTIONS,                                           \
           "activation function of the gated feed-forward: down(function(gate(x)) * up(x))")
#define CE_LLAMA_ROPE(base, before)                                                                                                 \
    CE_ROW("rope_theta", NUMBER, theta, base, 1, 1e12, NULL,                                                                        \
           "base of the frequencies of rotary position embeddings (RoPE)"),                                                         \
        CE_ROW(                                                                                                                     \
            "rope_scaling", JSON, scaling, "null", 0, 0, NULL,                                                                      \
            "object that extends RoPE to longer sequences; its key rope_type: default, linear, llama3, yarn, longrope or dynamic"), \
        CE_ROW(                                                                                                                     \
            "original_max_position_embeddings", INT, original, before, 0, 1 << 24, NULL,                                            \
            "context length in tokens before rope_scaling extended it, for llama3, yarn and longrope; 0: not given"),               \
        CE_ROW("rope_parameters", JSON, rotary, "null", 0, 0, NULL,                                                                 \
               "transformers 5's object with the keys rope_theta and those of rope_scaling")
#define CE_LLAMA_LAYER_TYPES                                                                                           \
    CE_ROW(                                                                                                            \
        "layer_types", JSON, layer_types, "null", 0, 0, NULL,                                                          \
        "list with \"full_attention\" or \"sliding_attention\" for each layer; takes precedence over max_window_layers")
#define CE_LLAMA_PADDING(token)                                                                                        \
    CE_ROW("pad_token_id", JSON, padding, token, 0, 0, NULL,                                                           \
           "id of the padding token, whose embedding gets no gradient, as in transformers; null: none")
#define CE_LLAMA_MLP_BIAS                                                                                              \
    CE_ROW("mlp_bias", BOOL, mlp_bias, "false", 0, 0, NULL, "true: the linear layers of the feed-forward have biases")
#define CE_LLAMA_BIAS                                                                                                  \
    CE_ROW("attention_bias", BOOL, bias, "false", 0, 0, NULL,                                                          \
           "true: the linear layers of attention (q, k, v, o) have biases")

#define CE_MOE_EXPERTS(name, field, count)                                                                             \
    CE_ROW(name, INT, field, count, 0, CS_MAX_EXPERTS, NULL, "number of experts in each layer that has experts")
#define CE_MOE_ROUTING(chosen_)                                                                                        \
    CE_ROW("num_experts_per_tok", INT, chosen, chosen_, 1, CS_MAX_EXPERTS, NULL,                                       \
           "number of experts to which the router sends each token (top-k)"),                                          \
        CE_ROW("output_router_logits", BOOL, balanced, "false", 0, 0, NULL,                                            \
               "true: add the router's load-balancing loss, times router_aux_loss_coef, to the training loss"),        \
        CE_ROW("router_aux_loss_coef", NUMBER, balance, "0.001", 0, 1e6, NULL,                                         \
               "factor of the load-balancing loss in the training loss; needs output_router_logits")

#define CE_LLAMA_FAMILY(name, class)                                                                                   \
    static cs_status build_##name(cs_model **model, ce_model_facts *facts, const ce_family_input *input)               \
    {                                                                                                                  \
        return ce_llama_build(model, facts, input, &name);                                                             \
    }                                                                                                                  \
    const ce_family ce_family_##name = CE_LLAMA_ENTRY(name, class)
/* The entry of a family whose function build_NAME its file defines. */
#define CE_LLAMA_ENTRY(name, class)                                                                                    \
    {                                                                                                                  \
#name, class, CE_KEYS(name##_keys), sizeof(ce_llama_sizes), build_##name                                       \
    }

#endif
