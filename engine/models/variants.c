/* variants.c - models that differ from Llama in a few places.
 *
 * Phi-3 and Phi-4 have fused projections, rotate parts of heads, and have longrope. OLMo 2 has norms after attention
 * and feed-forward, one norm for all heads of q together, and one for all heads of k together. Granite multiplies
 * embeddings, attention scores, and the outputs of attention and feed-forward by constants. Granite also divides the
 * logits by a constant. */
#include "models/llama.h"

#define AT CS_LLAMA_AT

static const ce_llama_traits phi3 = { .fused = true, .partial = 1, .window = CS_WINDOW_IF_GIVEN };
static const ce_llama_traits olmo2 = { .only_after = true, .whole = true };
static const ce_llama_traits granite = { 0 };

static const ce_key phi3_keys[] = {
    CS_LLAMA_SIZES("phi3", "32064", "4096", "3072", "8192", "32", "32", "1e-5", "false"),
    CS_LLAMA_PADDING("32000"),
    CS_LLAMA_FUNCTION("hidden_act", "silu"),
    CS_LLAMA_ROPE("10000", "4096"),
    CS_ROW("partial_rotary_factor", NUMBER, partial, "1", 1e-6, 1, NULL,
           "share of the columns of a head, 0 to 1, to which RoPE is applied"),
    CS_ROW("sliding_window", INT, window, "0", 0, 1 << 30, NULL,
           "tokens to which a token attends (sliding window); null: all earlier ones"),
    CS_REFUSED("resid_pdrop", "0.0", "0",
               "dropout on the outputs of attention and feed-forward is not implemented for this model_type"),
    CS_REFUSED("full_attn_mod", "1", "1", "all layers have the same kind of attention"),
    CS_REFUSED("interpolate_factor", "1", "1", "transformers does not use it"),
    CS_REFUSED("lm_head_bias", "false", "false", "the output head has no biases"),
    CS_INERT("embd_pdrop", "transformers does not use it"),
};

static const ce_key olmo2_keys[] = {
    CS_LLAMA_SIZES("olmo2", "50304", "2048", "4096", "11008", "32", "32", "1e-5", "false"),
    CS_LLAMA_PADDING("1"),
    CS_LLAMA_FUNCTION("hidden_act", "silu"),
    CS_LLAMA_ROPE("10000", "0"),
    CS_LLAMA_BIAS,
};

#define FACTOR(name, field, sentence) CS_ROW(name, NUMBER, field, "1", 1e-9, 1e9, NULL, sentence)
static const ce_key granite_keys[] = {
    CS_LLAMA_SIZES("granite", "32000", "2048", "4096", "11008", "32", "32", "1e-6", "false"),
    CS_LLAMA_PADDING("null"),
    CS_LLAMA_FUNCTION("hidden_act", "silu"),
    CS_LLAMA_ROPE("10000", "0"),
    CS_LLAMA_BIAS,
    CS_ROW("mlp_bias", BOOL, mlp_bias, "false", 0, 0, NULL, "true: the linear layers of the feed-forward have biases"),
    FACTOR("embedding_multiplier", embedding, "token embeddings are multiplied by this number"),
    FACTOR("residual_multiplier", residual,
           "outputs of attention and feed-forward are multiplied by this number before they are added to the residual"),
    FACTOR("attention_multiplier", attention,
           "attention scores are multiplied by this number instead of 1/sqrt(head_dim)"),
    FACTOR("logits_scaling", logits, "logits are divided by this number"),
};

CS_LLAMA_FAMILY(phi3, "Phi3ForCausalLM");
CS_LLAMA_FAMILY(olmo2, "Olmo2ForCausalLM");
CS_LLAMA_FAMILY(granite, "GraniteForCausalLM");
