/* gpt_oss.c - gpt-oss (OpenAI 2025): attention sinks, windows in every second layer, experts with biases and a clamped
 * gate, and weights of 4 bits (MXFP4), which are read as the numbers that they stand for. */
#include "models/llama.h"

#include <string.h>

#define AT CE_LLAMA_AT

static const ce_moe_names names = {
    .block = "mlp", .gate = "gate_up_proj", .down = "down_proj", .router = "router", .biased = true
};
static const ce_llama_traits gpt_oss = { .keys = 8,
                                         .head = 64,
                                         .sinks = true,
                                         .period = 2,
                                         .window = CE_WINDOW_BY_LAYER,
                                         .moe = &names,
                                         .moe_rounded = true,
                                         .moe_normalized = true };

static const ce_key gpt_oss_keys[] = {
    CE_LLAMA_SIZES("gpt_oss", "201088", "131072", "2880", "2880", "36", "64", "1e-5", "false"),
    CE_LLAMA_PADDING("null"),
    CE_LLAMA_ROPE("150000", "0"),
    CE_LLAMA_LAYER_TYPES,
    CE_MOE_EXPERTS("num_local_experts", experts, "128"),
    CE_MOE_ROUTING("4"),
    CE_ROW("attention_bias", BOOL, bias, "true", 0, 0, NULL,
           "true: the linear layers of attention (q, k, v, o) have biases"),
    CE_ROW("sliding_window", INT, window, "128", 0, 1 << 30, NULL,
           "tokens to which a token attends in layers with a sliding window; null: all earlier ones"),
    CE_ROW("swiglu_alpha", NUMBER, clamp_alpha, "1.702", 1e-6, 1e6, NULL,
           "experts compute (up + 1) * gate * logistic(swiglu_alpha * gate)"),
    CE_ROW("swiglu_limit", NUMBER, clamp_limit, "7", 1e-6, 1e30, NULL,
           "gate is limited to at most this number before, and up to at most its size"),
    CE_ROW("quantization_config", JSON, quantization, "null", 0, 0, NULL,
           "with quant_method \"mxfp4\": weights of 4 bits, which are read as numbers; exports have none"),
    CE_INERT("hidden_act", "experts have a clamped gate, which swiglu_alpha and swiglu_limit describe"),
    CE_INERT("experts_per_token", "num_experts_per_tok is used"),
    CE_INERT("initial_context_length", "original_max_position_embeddings of rope_scaling is used"),
};

/* As in transformers, a file without rope_parameters means these. */
static cs_status build_gpt_oss(cs_model **model, ce_model_facts *facts, const ce_family_input *input)
{
    ce_llama_sizes s = *(const ce_llama_sizes *)input->settings;
    json_auto_t *usual =
        json_pack("{ss sf sf sf sf sb}", "rope_type", "yarn", "factor", 32.0, "original_max_position_embeddings",
                  4096.0, "beta_fast", 32.0, "beta_slow", 1.0, "truncate", 0);
    const char *method = json_string_value(json_object_get(s.quantization, "quant_method"));
    if (!s.rotary && !s.scaling)
        s.rotary = usual;
    if (s.quantization && !json_is_null(s.quantization) && (!method || strcmp(method, "mxfp4") != 0))
        ce_json_fault(input->doc, input->path,
                      "not supported: quantization_config, because its quant_method is not \"mxfp4\"");
    json_object_del(input->config, "quantization_config"); /* The weights become numbers of the usual types. */
    return ce_llama_build_sizes(model, facts, input, &s, &gpt_oss);
}

const ce_family ce_family_gpt_oss = CE_LLAMA_ENTRY(gpt_oss, "GptOssForCausalLM");
