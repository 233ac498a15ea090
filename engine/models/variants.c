/* variants.c - models that differ from Llama in a few places.
 *
 * Phi-3 and Phi-4 have fused projections, rotate parts of heads, and have longrope. OLMo 2 has norms after attention
 * and feed-forward, one norm for all heads of q together, and one for all heads of k together. OLMo 3 also
 * has windows in most layers, which do not scale their rotary positions. Granite multiplies
 * embeddings, attention scores, and the outputs of attention and feed-forward by constants. Granite also divides the
 * logits by a constant. */
#include "models/llama.h"

#define AT CE_LLAMA_AT

static const ce_llama_traits phi3 = { .fused = true, .fused_mlp = true, .partial = 1, .window = CE_WINDOW_IF_GIVEN };
static const ce_llama_norms after_only = { .after = { "post_attention_layernorm", "post_feedforward_layernorm" } };
static const ce_llama_traits olmo2 = { .norms = &after_only, .whole = true };
static const ce_llama_traits olmo3 = { .norms = &after_only,
                                       .whole = true,
                                       .two_ropes = true,
                                       .local_theta = 500000,
                                       .period = 4,
                                       .window = CE_WINDOW_BY_LAYER };
static const ce_llama_traits granite = { 0 };

static const ce_key phi3_keys[] = {
    CE_LLAMA_SIZES("phi3", "32064", "4096", "3072", "8192", "32", "32", "1e-5", "false"),
    CE_LLAMA_PADDING("32000"),
    CE_LLAMA_FUNCTION("hidden_act", "silu"),
    CE_LLAMA_ROPE("10000", "4096"),
    CE_ROW("partial_rotary_factor", NUMBER, partial, "1", 1e-6, 1, NULL,
           "share of the columns of a head, 0 to 1, to which RoPE is applied"),
    CE_ROW("sliding_window", INT, window, "0", 0, 1 << 30, NULL,
           "tokens to which a token attends (sliding window); null: all earlier ones"),
    CE_REFUSED("resid_pdrop", "0.0", "0",
               "dropout on the outputs of attention and feed-forward is not implemented for this model_type"),
    CE_REFUSED("full_attn_mod", "1", "1", "all layers have the same kind of attention"),
    CE_REFUSED("interpolate_factor", "1", "1", "transformers does not use it"),
    CE_REFUSED("lm_head_bias", "false", "false", "the output head has no biases"),
    CE_INERT("embd_pdrop", "transformers does not use it"),
};

static const ce_key olmo2_keys[] = {
    CE_LLAMA_SIZES("olmo2", "50304", "2048", "4096", "11008", "32", "32", "1e-5", "false"),
    CE_LLAMA_PADDING("1"),
    CE_LLAMA_FUNCTION("hidden_act", "silu"),
    CE_LLAMA_ROPE("10000", "0"),
    CE_LLAMA_BIAS,
};

static const ce_key olmo3_keys[] = {
    CE_LLAMA_SIZES("olmo3", "50304", "2048", "4096", "11008", "32", "32", "1e-5", "false"),
    CE_LLAMA_PADDING("1"),
    CE_LLAMA_FUNCTION("hidden_act", "silu"),
    CE_LLAMA_ROPE("500000", "0"),
    CE_LLAMA_LAYER_TYPES,
    CE_LLAMA_BIAS,
    CE_ROW("sliding_window", INT, window, "4096", 1, 1 << 30, NULL,
           "tokens to which a token attends in layers with a sliding window, all except every fourth"),
};

#define FACTOR(name, field, sentence) CE_ROW(name, NUMBER, field, "1", 1e-9, 1e9, NULL, sentence)
static const ce_key granite_keys[] = {
    CE_LLAMA_SIZES("granite", "32000", "2048", "4096", "11008", "32", "32", "1e-6", "false"),
    CE_LLAMA_PADDING("null"),
    CE_LLAMA_FUNCTION("hidden_act", "silu"),
    CE_LLAMA_ROPE("10000", "0"),
    CE_LLAMA_BIAS,
    CE_LLAMA_MLP_BIAS,
    FACTOR("embedding_multiplier", embedding, "token embeddings are multiplied by this number"),
    FACTOR("residual_multiplier", residual,
           "outputs of attention and feed-forward are multiplied by this number before they are added to the residual"),
    FACTOR("attention_multiplier", attention,
           "attention scores are multiplied by this number instead of 1/sqrt(head_dim)"),
    FACTOR("logits_scaling", logits, "logits are divided by this number"),
};

CE_LLAMA_FAMILY(phi3, "Phi3ForCausalLM");
CE_LLAMA_FAMILY(olmo3, "Olmo3ForCausalLM");
CE_LLAMA_FAMILY(olmo2, "Olmo2ForCausalLM");
CE_LLAMA_FAMILY(granite, "GraniteForCausalLM");
