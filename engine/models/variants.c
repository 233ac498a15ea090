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
    { "partial_rotary_factor", CS_KEY_NUMBER, AT(partial), "1", 1e-6, 1, NULL, "part of a head that is turned" },
    { "sliding_window", CS_KEY_INT, AT(window), "0", 0, 1 << 30, NULL, "rows a row sees; null: all" },
    { "resid_pdrop", CS_KEY_REFUSED, 0, "0.0", 0, 0, "0", "there is no dropout on what a block adds" },
    { "full_attn_mod", CS_KEY_REFUSED, 0, "1", 0, 0, "1", "all layers are alike" },
    { "interpolate_factor", CS_KEY_REFUSED, 0, "1", 0, 0, "1", "transformers does not use it" },
    { "lm_head_bias", CS_KEY_REFUSED, 0, "false", 0, 0, "false", "the head has no biases" },
    CS_INERT("embd_pdrop", "transformers does not use it"),
};

static const ce_key olmo2_keys[] = {
    CS_LLAMA_SIZES("olmo2", "50304", "2048", "4096", "11008", "32", "32", "1e-5", "false"),
    CS_LLAMA_PADDING("1"),
    CS_LLAMA_FUNCTION("hidden_act", "silu"),
    CS_LLAMA_ROPE("10000", "0"),
    CS_LLAMA_BIAS,
};

#define FACTOR(name, field, sentence)                                                                                  \
    {                                                                                                                  \
        name, CS_KEY_NUMBER, AT(field), "1", 1e-9, 1e9, NULL, sentence                                                 \
    }
static const ce_key granite_keys[] = {
    CS_LLAMA_SIZES("granite", "32000", "2048", "4096", "11008", "32", "32", "1e-6", "false"),
    CS_LLAMA_PADDING("null"),
    CS_LLAMA_FUNCTION("hidden_act", "silu"),
    CS_LLAMA_ROPE("10000", "0"),
    CS_LLAMA_BIAS,
    { "mlp_bias", CS_KEY_BOOL, AT(mlp_bias), "false", 0, 0, NULL, "the feed-forward has biases" },
    FACTOR("embedding_multiplier", embedding, "factor of the embeddings"),
    FACTOR("residual_multiplier", residual, "factor of what attention and feed-forward add"),
    FACTOR("attention_multiplier", attention, "factor of the scores, instead of 1/sqrt(head_dim)"),
    FACTOR("logits_scaling", logits, "divisor of the logits"),
};

CS_LLAMA_FAMILY(phi3, "Phi3ForCausalLM");
CS_LLAMA_FAMILY(olmo2, "Olmo2ForCausalLM");
CS_LLAMA_FAMILY(granite, "GraniteForCausalLM");
