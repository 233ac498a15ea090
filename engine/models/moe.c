/* moe.c - mixtures of experts: Mixtral (Jiang et al. 2024), OLMoE (Muennighoff et al. 2024), Qwen2-MoE and
 * Qwen3-MoE (Qwen Team 2024, 2025).
 *
 * Some or all layers have experts instead of one feed-forward. Parameters have the names of published weights, in which
 * each expert has matrices of its own. */
#include "models/llama.h"

#define AT CE_LLAMA_AT

static const ce_moe_names mixtral_names = { .block = "block_sparse_moe", .gate = "w1", .up = "w3", .down = "w2" };
static const ce_moe_names qwen_names = { .block = "mlp", .gate = "gate_proj", .up = "up_proj", .down = "down_proj" };

static const ce_llama_traits mixtral = {
    .keys = 8, .window = CE_WINDOW_IF_GIVEN, .moe = &mixtral_names, .moe_normalized = true
};
static const ce_llama_traits qwen2_moe = {
    .qkv_choice = true, .keys = 16, .window = CE_WINDOW_BEFORE, .moe = &qwen_names, .moe_rounded = true
};
static const ce_llama_traits olmoe = { .whole = true, .moe = &qwen_names, .moe_rounded = true };
static const ce_llama_traits qwen3_moe = {
    .normed = true, .keys = 4, .window = CE_WINDOW_ALL_IF_ASKED, .moe = &qwen_names, .moe_rounded = true
};

#define NORMALIZED                                                                                                     \
    CE_ROW("norm_topk_prob", BOOL, normalized, "false", 0, 0, NULL,                                                    \
           "true: the router's weights of the experts of a token are divided by their sum, so that they add up to 1")
/* The rows of key tables that Qwen2-MoE and Qwen3-MoE have in common. */
#define QWEN(inner)                                                                                                    \
    CE_ROW("moe_intermediate_size", INT, expert_inner, inner, 1, 1 << 22, NULL,                                        \
           "width of the intermediate layer of an expert"),                                                            \
        CE_ROW("decoder_sparse_step", INT, sparse_step, "1", 1, 1 << 14, NULL,                                         \
               "every n-th layer has experts; the others have a feed-forward network; 1: all layers"),                 \
        CE_ROW(                                                                                                        \
            "mlp_only_layers", JSON, dense_layers, "null", 0, 0, NULL,                                                 \
            "list of the numbers of layers, from 0, that have a feed-forward network instead of experts; null: none"), \
        NORMALIZED,                                                                                                    \
        CE_ROW("use_sliding_window", BOOL, windowed, "false", 0, 0, NULL,                                              \
               "true: layers have a sliding window of sliding_window tokens"),                                         \
        CE_ROW("sliding_window", INT, window, "4096", 0, 1 << 30, NULL,                                                \
               "tokens to which a token attends in layers with a sliding window")

static const ce_key mixtral_keys[] = {
    CE_LLAMA_SIZES("mixtral", "32000", "131072", "4096", "14336", "32", "32", "1e-5", "false"),
    CE_LLAMA_PADDING("null"),
    CE_LLAMA_FUNCTION("hidden_act", "silu"),
    CE_LLAMA_ROPE("1000000", "0"),
    CE_MOE_EXPERTS("num_local_experts", experts, "8"),
    CE_MOE_ROUTING("2"),
    CE_REFUSED("router_jitter_noise", "0.0", "0", "noise on the router's input is not implemented"),
    CE_ROW("sliding_window", INT, window, "0", 0, 1 << 30, NULL,
           "tokens to which a token attends (sliding window); null: all earlier ones"),
};

static const ce_key qwen2_moe_keys[] = {
    CE_LLAMA_SIZES("qwen2_moe", "151936", "32768", "2048", "5632", "24", "16", "1e-6", "false"),
    CE_LLAMA_PADDING("null"),
    CE_LLAMA_FUNCTION("hidden_act", "silu"),
    CE_LLAMA_ROPE("10000", "0"),
    CE_LLAMA_LAYER_TYPES,
    CE_MOE_EXPERTS("num_experts", experts, "60"),
    CE_MOE_ROUTING("4"),
    QWEN("1408"),
    CE_ROW("shared_expert_intermediate_size", INT, shared_inner, "5632", 1, 1 << 22, NULL,
           "width of the intermediate layer of the shared expert, which computes every token"),
    CE_ROW(
        "max_window_layers", INT, window_from, "28", 0, 1 << 14, NULL,
        "with use_sliding_window: layers 0, 2, 4 and so on below this number have a sliding window; the others have none"),
    CE_ROW("qkv_bias", BOOL, bias, "true", 0, 0, NULL, "true: the linear layers q, k and v of attention have biases"),
};

static const ce_key olmoe_keys[] = {
    CE_LLAMA_SIZES("olmoe", "50304", "4096", "2048", "2048", "16", "16", "1e-5", "false"),
    CE_LLAMA_PADDING("1"),
    CE_LLAMA_FUNCTION("hidden_act", "silu"),
    CE_LLAMA_ROPE("10000", "0"),
    CE_LLAMA_BIAS,
    CE_MOE_EXPERTS("num_experts", experts, "64"),
    CE_MOE_EXPERTS("num_local_experts", other_experts, "0"),
    CE_MOE_ROUTING("8"),
    NORMALIZED,
    CE_REFUSED("clip_qkv", "null", NULL, "q, k and v are not limited to a range"),
};

static const ce_key qwen3_moe_keys[] = {
    CE_LLAMA_SIZES("qwen3_moe", "151936", "32768", "2048", "6144", "24", "32", "1e-6", "false"),
    CE_LLAMA_PADDING("null"),
    CE_LLAMA_FUNCTION("hidden_act", "silu"),
    CE_LLAMA_ROPE("10000", "0"),
    CE_LLAMA_BIAS,
    CE_MOE_EXPERTS("num_experts", experts, "128"),
    CE_MOE_EXPERTS("num_local_experts", other_experts, "0"),
    CE_MOE_ROUTING("8"),
    QWEN("768"),
};

/* Sets the number of experts of Qwen3-MoE, which transformers 5 saves under another name than earlier versions. */
static void take_count(ce_llama_sizes *s, const ce_family_input *input)
{
    if (s->other_experts == 0)
        return;
    if (json_object_get(input->config, "num_experts") && s->experts != s->other_experts)
        ce_json_fault(input->doc, input->path,
                      "num_experts %lld and num_local_experts %lld are two names of one number", (long long)s->experts,
                      (long long)s->other_experts);
    s->experts = s->other_experts;
}

void ce_moe_check(ce_llama_sizes *s, const ce_family_input *input)
{
    size_t index;
    json_t *layer;
    take_count(s, input);
    if (s->experts > 0 && s->chosen > s->experts)
        ce_json_fault(input->doc, input->path, "num_experts_per_tok %lld is more than the %lld experts of a layer",
                      (long long)s->chosen, (long long)s->experts);
    bool listed = !s->dense_layers || json_is_null(s->dense_layers) || json_is_array(s->dense_layers);
    json_array_foreach (s->dense_layers, index, layer) {
        listed &= json_is_integer(layer) && json_integer_value(layer) >= 0;
    }
    if (!listed)
        ce_json_fault(input->doc, input->path, "mlp_only_layers must be a list of numbers of layers, from 0 on");
}

bool ce_moe_is_sparse(const ce_llama_sizes *s, int64_t layer)
{
    size_t index;
    json_t *dense;
    json_array_foreach (s->dense_layers, index, dense) {
        if (json_integer_value(dense) == layer)
            return false;
    }
    return s->experts > 0 && (s->sparse_step < 2 || (layer + 1) % s->sparse_step == 0);
}

CE_LLAMA_FAMILY(mixtral, "MixtralForCausalLM");
CE_LLAMA_FAMILY(olmoe, "OlmoeForCausalLM");
CE_LLAMA_FAMILY(qwen2_moe, "Qwen2MoeForCausalLM");
CE_LLAMA_FAMILY(qwen3_moe, "Qwen3MoeForCausalLM");
