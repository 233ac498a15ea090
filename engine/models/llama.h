/* llama.h - models built of Llama's block: their sizes, what differs between them, and the rows that their key tables
 * share. llama.c builds them; a family is a key table, a ce_llama_traits and a call of ce_llama_build. */
#ifndef CS_MODELS_LLAMA_H
#define CS_MODELS_LLAMA_H

#include "models/family.h"
#include "models/functions.h"

#include <stddef.h>

typedef struct {
    int64_t vocabulary, positions, width, inner, layers, heads, keys, head, window, window_from, period, original;
    double dropout, epsilon, init_std, theta, partial;
    double local_theta;                             /* theta of the layers with a window; 0: that of the others */
    double embedding, residual, attention, logits;  /* Granite's multipliers; logits is a divisor */
    double query_scalar, attention_cap, logits_cap; /* Gemma's */
    int activation;
    bool tied, bias, mlp_bias, windowed;
    json_t *scaling, *rotary, *layer_types;
    json_t *padding; /* pad_token_id */
    /* Mixtures of experts. `experts` is the number of experts of a layer, and `other_experts` the same number under the
     * name that transformers 5 writes. `chosen` experts compute a token. `expert_inner` and `shared_inner` are the
     * widths inside an expert and inside the shared expert. Every `sparse_step`-th layer has experts, except the layers
     * that `dense_layers` lists. */
    int64_t experts, other_experts, chosen, expert_inner, shared_inner, sparse_step;
    bool normalized, balanced; /* norm_topk_prob; output_router_logits */
    double balance;            /* router_aux_loss_coef */
    json_t *dense_layers;      /* mlp_only_layers */
} ce_llama_sizes;

typedef struct {
    bool qkv_bias;   /* q, k and v always have biases, and o never has */
    bool normed;     /* q and k pass an RMSNorm for each head */
    bool whole;      /* q and k pass one RMSNorm for all heads together */
    bool fused;      /* qkv_proj and gate_up_proj are one matrix each */
    bool after;      /* there are norms after attention and feed-forward, and also before them */
    bool only_after; /* there are norms after attention and feed-forward, but none before them */
    bool plus_one;   /* a norm's factor is 1 + weight, and embeddings are multiplied by sqrt(width) */
    bool two_ropes;  /* layers with a window have rotary positions of their own */
    bool qkv_choice; /* `bias` is that of q, k and v; o never has one */
    double partial;  /* partial_rotary_factor if config.json does not give it; 0: whole heads are turned */
    int64_t keys;    /* num_key_value_heads if config.json does not give it; 0: num_attention_heads */
    int64_t head;    /* head_dim if config.json does not give it; 0: hidden_size / num_attention_heads */
    const struct ce_moe_names *moe; /* names of the experts' parameters; NULL: there are no experts */
    bool moe_rounded;               /* the factors of experts have the type of the products, not fp32 */
    bool moe_normalized;            /* they are divided by their sum in any case */
    /* Which layers have a window: none; all, and if config.json has no sliding_window, it is 4096 (CS_WINDOW) or there
     * is none (CS_WINDOW_IF_GIVEN); those from max_window_layers on (CS_WINDOW_IF_ASKED), every other one before
     * max_window_layers (CS_WINDOW_BEFORE), or all (CS_WINDOW_ALL_IF_ASKED), if use_sliding_window is true; all except
     * every `period`-th. */
    enum {
        CS_NO_WINDOW,
        CS_WINDOW,
        CS_WINDOW_IF_GIVEN,
        CS_WINDOW_IF_ASKED,
        CS_WINDOW_BEFORE,
        CS_WINDOW_ALL_IF_ASKED,
        CS_WINDOW_BY_LAYER
    } window;
} ce_llama_traits;

typedef struct ce_moe_names {
    const char *block, *gate, *up, *down; /* the layer's feed-forward, and an expert's matrices in it */
} ce_moe_names;
/* moe.c: adds faults about the keys of experts; `s` gets the number of experts if config.json has it under its other
 * name. */
void ce_moe_check(ce_llama_sizes *s, const ce_family_input *input);
bool ce_moe_is_sparse(const ce_llama_sizes *s, int64_t layer); /* whether the layer has experts */

/* A family's build function, see ce_family. The settings of the input are a ce_llama_sizes. */
cs_status ce_llama_build(cs_model **model, ce_model_facts *facts, const ce_family_input *input,
                         const ce_llama_traits *traits);

/* ---- rows of key tables ---- */

#define CS_LLAMA_AT(field) offsetof(ce_llama_sizes, field)
#define CS_LLAMA_SIZES(type, vocab, max, width_, inner_, layers_, heads_, epsilon_, tied_)                                  \
    { "model_type", CS_KEY_INERT, 0, "\"" type "\"", 0, 0, NULL, "chose this family" },                                     \
        { "vocab_size", CS_KEY_INT, CS_LLAMA_AT(vocabulary), vocab, 1, 1 << 24, NULL, "tokens are 0 .. vocab_size - 1" },   \
        { "max_position_embeddings", CS_KEY_INT, CS_LLAMA_AT(positions), max, 1, 1 << 24, NULL, "longest sequence" },       \
        { "hidden_size", CS_KEY_INT, CS_LLAMA_AT(width), width_, 1, 1 << 20, NULL, "width of the residual stream" },        \
        { "intermediate_size", CS_KEY_INT, CS_LLAMA_AT(inner), inner_, 1, 1 << 22, NULL, "width inside the feed-forward" }, \
        { "num_hidden_layers", CS_KEY_INT, CS_LLAMA_AT(layers), layers_, 1, 1 << 14, NULL, "blocks" },                      \
        { "num_attention_heads", CS_KEY_INT, CS_LLAMA_AT(heads), heads_, 1, 1 << 14, NULL, "heads of queries" },            \
        { "num_key_value_heads",                                                                                            \
          CS_KEY_INT,                                                                                                       \
          CS_LLAMA_AT(keys),                                                                                                \
          "0",                                                                                                              \
          0,                                                                                                                \
          1 << 14,                                                                                                          \
          NULL,                                                                                                             \
          "heads of keys and values; divides num_attention_heads; null: as many" },                                         \
        { "head_dim",                                                                                                       \
          CS_KEY_INT,                                                                                                       \
          CS_LLAMA_AT(head),                                                                                                \
          "0",                                                                                                              \
          0,                                                                                                                \
          CS_ROPE_WIDTH,                                                                                                    \
          NULL,                                                                                                             \
          "width of a head, even; null: hidden_size / num_attention_heads" },                                               \
        { "rms_norm_eps", CS_KEY_NUMBER, CS_LLAMA_AT(epsilon), epsilon_, 1e-12, 1, NULL, "added to the mean square" },      \
        { "initializer_range", CS_KEY_NUMBER, CS_LLAMA_AT(init_std), "0.02", 0, 10, NULL, "deviation of first weights" },   \
        { "attention_dropout",                                                                                              \
          CS_KEY_NUMBER,                                                                                                    \
          CS_LLAMA_AT(dropout),                                                                                             \
          "0",                                                                                                              \
          0,                                                                                                                \
          0.999,                                                                                                            \
          NULL,                                                                                                             \
          "dropout on attention probabilities" },                                                                           \
    {                                                                                                                       \
        "tie_word_embeddings", CS_KEY_BOOL, CS_LLAMA_AT(tied), tied_, 0, 0, NULL, "the head is the token table"             \
    }
#define CS_LLAMA_FUNCTION(name, fallback)                                                                              \
    {                                                                                                                  \
        name, CS_KEY_CHOICE, CS_LLAMA_AT(activation), "\"" fallback "\"", 0, 0, CS_FUNCTIONS, "function(gate) * up"    \
    }
#define CS_LLAMA_ROPE(base)                                                                                            \
    { "rope_theta", CS_KEY_NUMBER, CS_LLAMA_AT(theta), base, 1, 1e12, NULL, "base of the rotary frequencies" },        \
        { "rope_scaling",                                                                                              \
          CS_KEY_JSON,                                                                                                 \
          CS_LLAMA_AT(scaling),                                                                                        \
          "null",                                                                                                      \
          0,                                                                                                           \
          0,                                                                                                           \
          NULL,                                                                                                        \
          "type: default, linear, llama3, yarn, longrope, dynamic" },                                                  \
    {                                                                                                                  \
        "rope_parameters", CS_KEY_JSON, CS_LLAMA_AT(rotary), "null", 0, 0, NULL,                                       \
            "rope_theta and rope_scaling in one object"                                                                \
    }
#define CS_LLAMA_LAYER_TYPES                                                                                           \
    {                                                                                                                  \
        "layer_types", CS_KEY_JSON, CS_LLAMA_AT(layer_types), "null", 0, 0, NULL,                                      \
            "full_attention or sliding_attention for each layer; with a choice (qwen2, qwen3) wins over "              \
            "max_window_layers"                                                                                        \
    }
#define CS_LLAMA_PADDING(token)                                                                                        \
    {                                                                                                                  \
        "pad_token_id", CS_KEY_JSON, CS_LLAMA_AT(padding), token, 0, 0, NULL,                                          \
            "the embedding of this token gets no gradient, as in transformers"                                         \
    }
#define CS_LLAMA_BIAS                                                                                                  \
    {                                                                                                                  \
        "attention_bias", CS_KEY_BOOL, CS_LLAMA_AT(bias), "false", 0, 0, NULL, "q, k, v and o have biases"             \
    }

#define CS_LLAMA_FAMILY(name, class)                                                                                   \
    static cs_status build_##name(cs_model **model, ce_model_facts *facts, const ce_family_input *input)               \
    {                                                                                                                  \
        return ce_llama_build(model, facts, input, &name);                                                             \
    }                                                                                                                  \
    const ce_family ce_family_##name = { #name, class, CS_KEYS(name##_keys), sizeof(ce_llama_sizes), build_##name }

#endif
