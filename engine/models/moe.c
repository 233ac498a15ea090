/* moe.c - mixtures of experts: Mixtral (Jiang et al. 2024), Qwen2-MoE and Qwen3-MoE (Qwen Team 2024, 2025).
 *
 * Some or all layers have experts instead of one feed-forward. Parameters have the names of published weights, in which
 * each expert has matrices of its own. */
#include "models/llama.h"

#define AT CS_LLAMA_AT

static const ce_moe_names mixtral_names = { "block_sparse_moe", "w1", "w3", "w2" };
static const ce_moe_names qwen_names = { "mlp", "gate_proj", "up_proj", "down_proj" };

static const ce_llama_traits mixtral = {
    .keys = 8, .window = CS_WINDOW_IF_GIVEN, .moe = &mixtral_names, .moe_normalized = true
};
static const ce_llama_traits qwen2_moe = {
    .qkv_choice = true, .keys = 16, .window = CS_WINDOW_BEFORE, .moe = &qwen_names, .moe_rounded = true
};
static const ce_llama_traits qwen3_moe = {
    .normed = true, .keys = 4, .window = CS_WINDOW_ALL_IF_ASKED, .moe = &qwen_names, .moe_rounded = true
};

#define EXPERTS(name, field, count)                                                                                    \
    {                                                                                                                  \
        name, CS_KEY_INT, AT(field), count, 0, CS_MAX_EXPERTS, NULL, "experts of a layer that has experts"             \
    }
#define ROUTING(chosen_)                                                                                                \
    {                                                                                                                   \
        "num_experts_per_tok", CS_KEY_INT, AT(chosen), chosen_, 1, CS_MAX_EXPERTS, NULL, "experts that compute a token" \
    },                                                                                                                  \
        { "output_router_logits",                                                                                       \
          CS_KEY_BOOL,                                                                                                  \
          AT(balanced),                                                                                                 \
          "false",                                                                                                      \
          0,                                                                                                            \
          0,                                                                                                            \
          NULL,                                                                                                         \
          "the load-balancing loss is added to the loss of training" },                                                 \
    {                                                                                                                   \
        "router_aux_loss_coef", CS_KEY_NUMBER, AT(balance), "0.001", 0, 1e6, NULL, "factor of the load-balancing loss"  \
    }
/* The rows of key tables that Qwen2-MoE and Qwen3-MoE have in common. */
#define QWEN(inner)                                                                                                    \
    { "moe_intermediate_size", CS_KEY_INT, AT(expert_inner), inner, 1, 1 << 22, NULL, "width inside an expert" },      \
        { "decoder_sparse_step",                                                                                       \
          CS_KEY_INT,                                                                                                  \
          AT(sparse_step),                                                                                             \
          "1",                                                                                                         \
          1,                                                                                                           \
          1 << 14,                                                                                                     \
          NULL,                                                                                                        \
          "each such layer has experts; the others do not" },                                                          \
        { "mlp_only_layers", CS_KEY_JSON, AT(dense_layers), "null", 0, 0, NULL, "layers without experts; null: []" },  \
        { "norm_topk_prob",                                                                                            \
          CS_KEY_BOOL,                                                                                                 \
          AT(normalized),                                                                                              \
          "false",                                                                                                     \
          0,                                                                                                           \
          0,                                                                                                           \
          NULL,                                                                                                        \
          "the factors of a token's experts are divided by their sum" },                                               \
        { "use_sliding_window", CS_KEY_BOOL, AT(windowed), "false", 0, 0, NULL, "layers have a sliding window" },      \
    {                                                                                                                  \
        "sliding_window", CS_KEY_INT, AT(window), "4096", 0, 1 << 30, NULL, "rows a windowed layer sees"               \
    }

static const ce_key mixtral_keys[] = {
    CS_LLAMA_SIZES("mixtral", "32000", "131072", "4096", "14336", "32", "32", "1e-5", "false"),
    CS_LLAMA_PADDING("null"),
    CS_LLAMA_FUNCTION("hidden_act", "silu"),
    CS_LLAMA_ROPE("1000000", "0"),
    EXPERTS("num_local_experts", experts, "8"),
    ROUTING("2"),
    { "router_jitter_noise", CS_KEY_REFUSED, 0, "0.0", 0, 0, "0", "the router's input has no noise" },
    { "sliding_window", CS_KEY_INT, AT(window), "0", 0, 1 << 30, NULL, "rows a row sees; null: all" },
};

static const ce_key qwen2_moe_keys[] = {
    CS_LLAMA_SIZES("qwen2_moe", "151936", "32768", "2048", "5632", "24", "16", "1e-6", "false"),
    CS_LLAMA_PADDING("null"),
    CS_LLAMA_FUNCTION("hidden_act", "silu"),
    CS_LLAMA_ROPE("10000", "0"),
    CS_LLAMA_LAYER_TYPES,
    EXPERTS("num_experts", experts, "60"),
    ROUTING("4"),
    QWEN("1408"),
    { "shared_expert_intermediate_size", CS_KEY_INT, AT(shared_inner), "5632", 1, 1 << 22, NULL,
      "width inside the expert that computes every token" },
    { "max_window_layers", CS_KEY_INT, AT(window_from), "28", 0, 1 << 14, NULL, "layers from this one on have none" },
    { "qkv_bias", CS_KEY_BOOL, AT(bias), "true", 0, 0, NULL, "q, k and v have biases" },
};

static const ce_key qwen3_moe_keys[] = {
    CS_LLAMA_SIZES("qwen3_moe", "151936", "32768", "2048", "6144", "24", "32", "1e-6", "false"),
    CS_LLAMA_PADDING("null"),
    CS_LLAMA_FUNCTION("hidden_act", "silu"),
    CS_LLAMA_ROPE("10000", "0"),
    CS_LLAMA_BIAS,
    EXPERTS("num_experts", experts, "128"),
    EXPERTS("num_local_experts", other_experts, "0"),
    ROUTING("8"),
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

CS_LLAMA_FAMILY(mixtral, "MixtralForCausalLM");
CS_LLAMA_FAMILY(qwen2_moe, "Qwen2MoeForCausalLM");
CS_LLAMA_FAMILY(qwen3_moe, "Qwen3MoeForCausalLM");
