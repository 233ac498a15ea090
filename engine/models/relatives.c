/* relatives.c - models with Llama's block and other defaults, biases or rotary positions: SmolLM3 (some layers have no
 * rotary positions), Ministral, Ministral 3, Hunyuan (norms of q and k after the rotation), Seed-OSS (dropout on the residual stream), InternLM 3, Arcee (a feed-forward without gate) and ERNIE
 * 4.5 (rotary pairs are adjacent columns). */
#include "models/llama.h"

#define AT CE_LLAMA_AT

static const ce_llama_traits smollm3 = { .keys = 4, .rotated = CE_ROPE_LISTED, .window = CE_WINDOW_UNROTATED };
static const ce_llama_traits seed_oss = { .keys = 8, .head = 128, .qkv_choice = true };
static const ce_llama_traits internlm3 = { .keys = 2, .head = 128 };
static const ce_llama_traits arcee = { .plain = true };
static const ce_llama_traits ernie4_5 = { .keys = 2, .head = 128, .adjacent = true };

/* Without the key layer_types, all layers have windows. */
static const ce_llama_traits ministral = { .keys = 8, .period = 1 << 20, .window = CE_WINDOW_BY_LAYER };
static const ce_llama_traits ministral3 = {
    .keys = 8, .head = 128, .scaled_queries = true, .window = CE_WINDOW_IF_GIVEN
};
static const ce_llama_traits hunyuan_v1_dense = { .normed = true, .late = true, .ntk_alpha = true };

static const ce_key smollm3_keys[] = {
    CE_LLAMA_SIZES("smollm3", "128256", "32768", "2048", "11008", "36", "16", "1e-6", "true"),
    CE_LLAMA_PADDING("128004"),
    CE_LLAMA_FUNCTION("hidden_act", "silu"),
    CE_LLAMA_ROPE("2000000", "0"),
    CE_LLAMA_LAYER_TYPES,
    CE_LLAMA_BIAS,
    CE_LLAMA_MLP_BIAS,
    CE_ROW("no_rope_layers", JSON, rope_layers, "null", 0, 0, NULL,
           "list with 1 for each layer that has rotary positions, and 0 for each layer that has none"),
    CE_ROW("no_rope_layer_interval", INT, rope_interval, "4", 1, 1 << 14, NULL,
           "every n-th layer has no rotary positions; no_rope_layers takes precedence"),
    CE_ROW("use_sliding_window", BOOL, windowed, "false", 0, 0, NULL,
           "true: the layers without rotary positions have a sliding window of sliding_window tokens"),
    CE_ROW("sliding_window", INT, window, "0", 0, 1 << 30, NULL,
           "tokens to which a token attends in layers with a sliding window; null: all earlier ones"),
};

static const ce_key seed_oss_keys[] = {
    CE_LLAMA_SIZES("seed_oss", "155136", "524288", "4096", "27648", "64", "80", "1e-6", "false"),
    CE_LLAMA_PADDING("1"),
    CE_LLAMA_FUNCTION("hidden_act", "silu"),
    CE_LLAMA_ROPE("10000", "0"),
    CE_LLAMA_MLP_BIAS,
    CE_ROW("attention_bias", BOOL, bias, "true", 0, 0, NULL, "true: the linear layers q, k and v have biases"),
    CE_ROW("attention_out_bias", BOOL, out_bias, "false", 0, 0, NULL,
           "true: the output projection of attention has a bias"),
    CE_ROW("residual_dropout", NUMBER, residual_dropout, "0.1", 0, 0.999, NULL,
           "probability of dropout on the outputs of attention and feed-forward before they are added to the residual"),
    CE_ROW("attention_dropout", NUMBER, dropout, "0.1", 0, 0.999, NULL,
           "probability of dropout on the attention probabilities (after the softmax)"),
};

static const ce_key internlm3_keys[] = {
    CE_LLAMA_SIZES("internlm3", "128512", "32768", "4096", "10240", "48", "32", "1e-5", "false"),
    CE_LLAMA_PADDING("2"),
    CE_LLAMA_FUNCTION("hidden_act", "silu"),
    CE_LLAMA_ROPE("10000", "0"),
    CE_LLAMA_BIAS,
    CE_LLAMA_MLP_BIAS,
};

static const ce_key arcee_keys[] = {
    CE_LLAMA_SIZES("arcee", "32000", "4096", "2560", "18432", "32", "32", "1e-5", "false"),
    CE_LLAMA_PADDING("null"),
    CE_ROW("hidden_act", CHOICE, activation, "\"relu2\"", 0, 0, CE_FUNCTIONS,
           "activation function between the two linear layers of the feed-forward"),
    CE_LLAMA_ROPE("10000", "0"),
    CE_LLAMA_BIAS,
    CE_LLAMA_MLP_BIAS,
};

static const ce_key ernie4_5_keys[] = {
    CE_LLAMA_SIZES("ernie4_5", "103424", "131072", "1024", "3072", "18", "16", "1e-5", "true"),
    CE_LLAMA_PADDING("0"),
    CE_LLAMA_FUNCTION("hidden_act", "silu"),
    CE_LLAMA_ROPE("500000", "0"),
    CE_ROW("use_bias", BOOL, bias, "false", 0, 0, NULL, "true: all linear layers have biases"),
};

static const ce_key ministral_keys[] = {
    CE_LLAMA_SIZES("ministral", "32000", "131072", "4096", "14336", "32", "32", "1e-6", "false"),
    CE_LLAMA_PADDING("null"),
    CE_LLAMA_FUNCTION("hidden_act", "silu"),
    CE_LLAMA_ROPE("10000", "0"),
    CE_LLAMA_LAYER_TYPES,
    CE_ROW("sliding_window", INT, window, "4096", 0, 1 << 30, NULL,
           "tokens to which a token attends in layers with a sliding window; null: all earlier ones"),
};

static const ce_key ministral3_keys[] = {
    CE_LLAMA_SIZES("ministral3", "131072", "262144", "4096", "14336", "34", "32", "1e-5", "false"),
    CE_LLAMA_PADDING("11"),
    CE_LLAMA_FUNCTION("hidden_act", "silu"),
    CE_LLAMA_ROPE("1000000", "0"),
    CE_ROW("sliding_window", INT, window, "0", 0, 1 << 30, NULL,
           "tokens to which a token attends (sliding window); null: all earlier ones"),
};

static const ce_key hunyuan_v1_dense_keys[] = {
    CE_LLAMA_SIZES("hunyuan_v1_dense", "290943", "2048", "4096", "11008", "32", "32", "1e-5", "false"),
    CE_LLAMA_PADDING("0"),
    CE_LLAMA_FUNCTION("hidden_act", "silu"),
    CE_LLAMA_ROPE("10000", "0"),
    CE_LLAMA_BIAS,
    CE_INERT("eod_token_id", "the tokenizer's own files say this"),
    CE_INERT("use_qk_norm", "in this model_type q and k always have norms"),
};

static cs_status build_ernie4_5(cs_model **model, ce_model_facts *facts, const ce_family_input *input)
{
    ce_llama_sizes s = *(const ce_llama_sizes *)input->settings;
    s.mlp_bias = s.bias;
    return ce_llama_build_sizes(model, facts, input, &s, &ernie4_5);
}

/* As in transformers, whose class for this model is Llama's. */
static cs_status build_internlm3(cs_model **model, ce_model_facts *facts, const ce_family_input *input)
{
    const ce_llama_sizes *s = input->settings;
    if (s->bias != s->mlp_bias)
        ce_json_fault(input->doc, input->path,
                      "attention_bias (qkv_bias) and mlp_bias (bias) must be equal in this model_type");
    return ce_llama_build(model, facts, input, &internlm3);
}

/* As in transformers, a file without rope_parameters means these. */
static cs_status build_ministral3(cs_model **model, ce_model_facts *facts, const ce_family_input *input)
{
    ce_llama_sizes s = *(const ce_llama_sizes *)input->settings;
    json_auto_t *usual = json_pack("{ss sf sf sf sf sf sf sf}", "rope_type", "yarn", "factor", 16.0,
                                   "original_max_position_embeddings", 16384.0, "beta_fast", 32.0, "beta_slow", 1.0,
                                   "mscale", 1.0, "mscale_all_dim", 1.0, "llama_4_scaling_beta", 0.1);
    if (!s.rotary && !s.scaling)
        s.rotary = usual;
    return ce_llama_build_sizes(model, facts, input, &s, &ministral3);
}

CE_LLAMA_FAMILY(ministral, "MinistralForCausalLM");
const ce_family ce_family_ministral3 = CE_LLAMA_ENTRY(ministral3, "Ministral3ForCausalLM");
CE_LLAMA_FAMILY(hunyuan_v1_dense, "HunYuanDenseV1ForCausalLM");
CE_LLAMA_FAMILY(smollm3, "SmolLM3ForCausalLM");
CE_LLAMA_FAMILY(seed_oss, "SeedOssForCausalLM");
CE_LLAMA_FAMILY(arcee, "ArceeForCausalLM");
const ce_family ce_family_internlm3 = CE_LLAMA_ENTRY(internlm3, "InternLM3ForCausalLM");
const ce_family ce_family_ernie4_5 = CE_LLAMA_ENTRY(ernie4_5, "Ernie4_5ForCausalLM");
