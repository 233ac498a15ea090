/* gemma.c - Gemma, Gemma 2 and the text models of Gemma 3 (Gemma Team 2024, 2025).
 *
 * The factors of norms are 1 + weight. Embeddings are multiplied by sqrt(width). Gemma 2 and 3 have norms before and after attention and feed-forward. Gemma 2 has sliding windows in every second layer, and soft caps of scores
 * and logits. Gemma 3 has sliding windows in all layers except every sixth one, norms of q and k, and rotary positions
 * of two kinds. */
#include "models/llama.h"

#define AT CE_LLAMA_AT

static const ce_llama_norms sandwich = { .before = { "input_layernorm", "pre_feedforward_layernorm" },
                                         .after = { "post_attention_layernorm", "post_feedforward_layernorm" } };

static const ce_llama_traits gemma = { .norm = CE_RMS_NORM_PLUS_ONE, .large = true, .keys = 16, .head = 256 };
static const ce_llama_traits gemma2 = { .norms = &sandwich,
                                        .norm = CE_RMS_NORM_PLUS_ONE,
                                        .large = true,
                                        .keys = 4,
                                        .head = 256,
                                        .window = CE_WINDOW_BY_LAYER };
static const ce_llama_traits gemma3_text = { .norms = &sandwich,
                                             .norm = CE_RMS_NORM_PLUS_ONE,
                                             .large = true,
                                             .normed = true,
                                             .two_ropes = true,
                                             .keys = 4,
                                             .head = 256,
                                             .window = CE_WINDOW_BY_LAYER };

#define BOTH(type, vocab, max, base)                                                                                   \
    CE_LLAMA_SIZES(type, vocab, max, "2304", "9216", "26", "8", "1e-6", "true"),                                       \
        CE_LLAMA_FUNCTION("hidden_activation", "gelu_pytorch_tanh"), CE_LLAMA_ROPE(base, "0"), CE_LLAMA_LAYER_TYPES,   \
        CE_LLAMA_PADDING("0"), CE_LLAMA_BIAS,                                                                          \
        CE_ROW("sliding_window", INT, window, "4096", 1, 1 << 30, NULL,                                                \
               "tokens to which a token attends in layers with a sliding window; null: all earlier ones"),             \
        CE_ROW("query_pre_attn_scalar", NUMBER, query_scalar, "256", 1e-6, 1e9, NULL,                                  \
               "attention scores are divided by the square root of this number"),                                      \
        CE_REFUSED("use_bidirectional_attention", "false", "false", "attention is causal"),                            \
        CE_INERT("hidden_act", "hidden_activation is used instead"),                                                   \
        CE_INERT("sliding_window_size", "sliding_window is used instead")

static const ce_key gemma_keys[] = {
    CE_LLAMA_SIZES("gemma", "256000", "8192", "3072", "24576", "28", "16", "1e-6", "true"),
    CE_LLAMA_FUNCTION("hidden_act", "gelu_pytorch_tanh"),
    CE_LLAMA_ROPE("10000", "0"),
    CE_LLAMA_PADDING("0"),
    CE_LLAMA_BIAS,
    CE_REFUSED("use_bidirectional_attention", "false", "false", "attention is causal"),
    CE_INERT("hidden_activation", "hidden_act is used instead"),
};

static const ce_key gemma2_keys[] = {
    BOTH("gemma2", "256000", "8192", "10000"),
    CE_ROW("sliding_window_pattern", INT, period, "2", 2, 2, NULL,
           "every second layer attends to all earlier tokens; the others have a sliding window"),
    CE_ROW("attn_logit_softcapping", NUMBER, attention_cap, "50", 1e-3, 1e9, NULL,
           "attention scores are limited to this size by cap * tanh(x / cap); null: no limit"),
    CE_ROW("final_logit_softcapping", NUMBER, logits_cap, "30", 1e-3, 1e9, NULL,
           "logits are limited to this size by cap * tanh(x / cap); null: no limit"),
};

static const ce_key gemma3_text_keys[] = {
    BOTH("gemma3_text", "262208", "131072", "1000000"),
    CE_ROW(
        "sliding_window_pattern", INT, period, "6", 1, 1 << 14, NULL,
        "every n-th layer attends to all earlier tokens, the others have a sliding window; layer_types takes precedence"),
    CE_ROW("rope_local_base_freq", NUMBER, local_theta, "10000", 1, 1e12, NULL,
           "rope_theta of the layers that have a sliding window"),
    CE_REFUSED("attn_logit_softcapping", "null", NULL, "transformers does not use it in Gemma 3"),
    CE_ROW("final_logit_softcapping", NUMBER, logits_cap, "0", 0, 1e9, NULL,
           "logits are limited to this size by cap * tanh(x / cap); null: no limit"),
};

/* As in transformers, "gelu" means the tanh form: the first releases of Gemma have this value. */
static cs_status build_gemma(cs_model **model, ce_model_facts *facts, const ce_family_input *input)
{
    ce_llama_sizes s = *(const ce_llama_sizes *)input->settings;
    if (ce_function_of(s.activation) == CS_GELU)
        s.activation = CE_FUNCTION_GELU_TANH;
    return ce_llama_build_sizes(model, facts, input, &s, &gemma);
}

const ce_family ce_family_gemma = CE_LLAMA_ENTRY(gemma, "GemmaForCausalLM");
CE_LLAMA_FAMILY(gemma2, "Gemma2ForCausalLM");
CE_LLAMA_FAMILY(gemma3_text, "Gemma3ForCausalLM");
