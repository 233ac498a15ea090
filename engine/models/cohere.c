/* cohere.c - Command R and Command A (Cohere 2024, 2025) and GLM-4 (GLM Team 2024, 2025), whose rotary pairs are adjacent
 * columns.
 *
 * In Cohere's models attention and feed-forward read the same rows, norms are LayerNorms without bias, and logits are
 * multiplied by a constant. In the second generation only layers with a window have rotary positions. GLM-4 rotates half
 * of each head; the second release (model_type "glm4") has norms before and after attention and feed-forward. */
#include "models/llama.h"

#define AT CE_LLAMA_AT

static const ce_llama_norms one_norm = { .before = { "input_layernorm" } };
static const ce_llama_norms glm4_norms = { .before = { "input_layernorm", "post_attention_layernorm" },
                                           .after = { "post_self_attn_layernorm", "post_mlp_layernorm" } };

static const ce_llama_traits cohere = {
    .norms = &one_norm, .norm = CE_LAYER_NORM_UNBIASED, .parallel = true, .adjacent = true
};
static const ce_llama_traits cohere2 = { .norms = &one_norm,
                                         .norm = CE_LAYER_NORM_UNBIASED,
                                         .parallel = true,
                                         .adjacent = true,
                                         .rotated = CE_ROPE_IN_WINDOWS,
                                         .window = CE_WINDOW_BY_LAYER };
static const ce_llama_traits glm = {
    .keys = 2, .head = 128, .qkv_choice = true, .fused_mlp = true, .adjacent = true, .partial = 0.5
};
static const ce_llama_traits glm4 = { .norms = &glm4_norms,
                                      .keys = 2,
                                      .head = 128,
                                      .qkv_choice = true,
                                      .fused_mlp = true,
                                      .adjacent = true,
                                      .partial = 0.5 };

#define COHERE(type, theta)                                                                                            \
    CE_LLAMA_SIZES_EPSILON("layer_norm_eps", type, "256000", "8192", "8192", "22528", "40", "64", "1e-5", "true"),     \
        CE_LLAMA_PADDING("0"), CE_LLAMA_FUNCTION("hidden_act", "silu"), CE_LLAMA_ROPE(theta, "0"), CE_LLAMA_BIAS,      \
        CE_ROW("logit_scale", NUMBER, logits, "0.0625", 1e-9, 1e9, NULL, "logits are multiplied by this number"),      \
        CE_REFUSED("use_qk_norm", "false", "false",                                                                    \
                   "norms of q and k with a weight for each head are not implemented")
#define GLM(type)                                                                                                      \
    CE_LLAMA_SIZES(type, "151552", "131072", "4096", "13696", "40", "32", "1.5625e-7", "false"),                       \
        CE_LLAMA_PADDING("151329"), CE_LLAMA_FUNCTION("hidden_act", "silu"), CE_LLAMA_ROPE("10000", "0"),              \
        CE_ROW("partial_rotary_factor", NUMBER, partial, "0.5", 1e-6, 1, NULL,                                         \
               "share of the columns of a head, 0 to 1, to which RoPE is applied"),                                    \
        CE_ROW("attention_bias", BOOL, bias, "true", 0, 0, NULL, "true: the linear layers q, k and v have biases")

static const ce_key cohere_keys[] = { COHERE("cohere", "500000") };
static const ce_key cohere2_keys[] = {
    COHERE("cohere2", "10000"),
    CE_LLAMA_LAYER_TYPES,
    CE_ROW("sliding_window", INT, window, "4096", 1, 1 << 30, NULL,
           "tokens to which a token attends in layers with a sliding window"),
    CE_ROW("sliding_window_pattern", INT, period, "4", 1, 1 << 14, NULL,
           "every n-th layer attends to all earlier tokens and has no rotary positions; layer_types takes precedence"),
};
static const ce_key glm_keys[] = { GLM("glm") };
static const ce_key glm4_keys[] = { GLM("glm4") };

static cs_status build(cs_model **model, ce_model_facts *facts, const ce_family_input *input,
                       const ce_llama_traits *traits)
{
    ce_llama_sizes s = *(const ce_llama_sizes *)input->settings;
    s.logits = 1 / s.logits; /* Granite's logits_scaling is a divisor */
    return ce_llama_build_sizes(model, facts, input, &s, traits);
}

static cs_status build_cohere(cs_model **model, ce_model_facts *facts, const ce_family_input *input)
{
    return build(model, facts, input, &cohere);
}

static cs_status build_cohere2(cs_model **model, ce_model_facts *facts, const ce_family_input *input)
{
    return build(model, facts, input, &cohere2);
}

const ce_family ce_family_cohere = CE_LLAMA_ENTRY(cohere, "CohereForCausalLM");
const ce_family ce_family_cohere2 = CE_LLAMA_ENTRY(cohere2, "Cohere2ForCausalLM");
CE_LLAMA_FAMILY(glm, "GlmForCausalLM");
CE_LLAMA_FAMILY(glm4, "Glm4ForCausalLM");
