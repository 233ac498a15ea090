/* family.c - how llama.cpp names a model, its sizes and its tensors. */
#include "gguf/family.h"
#include "base/ends_with.h"
#include "base/must.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GELU "gelu_pytorch_tanh"

static const ce_gguf_family families[] = {
    { "llama", "LlamaForCausalLM", "llama", .permuted = true, .biased = true, .function = "silu" },
    { "mistral", "MistralForCausalLM", "llama", .permuted = true, .biased = true, .function = "silu" },
    { "qwen2", "Qwen2ForCausalLM", "qwen2", .biased = true, .function = "silu" },
    { "qwen3", "Qwen3ForCausalLM", "qwen3", .function = "silu" },
    { "gemma", "GemmaForCausalLM", "gemma", .plus_one = true, .function = GELU },
    { "gemma2", "Gemma2ForCausalLM", "gemma2", .plus_one = true, .sandwich = true, .period = 2, .function = GELU,
      .large = 46 },
    { "gemma3_text", "Gemma3ForCausalLM", "gemma3", .plus_one = true, .sandwich = true, .period = 6, .function = GELU,
      .large = 62 },
    { "olmo2", "Olmo2ForCausalLM", "olmo2", .after = true, .function = "silu" },
    { "granite", "GraniteForCausalLM", "granite", .permuted = true, .function = "silu" },
    { "smollm3", "SmolLM3ForCausalLM", "smollm3", .permuted = true, .function = "silu" },
};
enum { FAMILIES = sizeof families / sizeof *families };

static const ce_gguf_family *find(const char *name, bool by_type, char **known)
{
    *known = ce_must_copy("");
    for (int i = 0; i < FAMILIES; i++) {
        const char *one = by_type ? families[i].type : families[i].arch;
        if (name && strcmp(one, name) == 0)
            return &families[i];
        bool again = i > 0 && !by_type && strcmp(one, families[i - 1].arch) == 0;
        char *longer = again ? ce_must_copy(*known) : ce_must_print("%s%s%s", *known, i ? ", " : "", one);
        free(*known);
        *known = longer;
    }
    return NULL;
}

cs_status ce_gguf_family_of_type(const ce_gguf_family **family, const char *type)
{
    CE_FREED char *known = NULL;
    *family = find(type, true, &known);
    return *family ? CS_OK
                   : ce_fail(CS_UNSUPPORTED,
                             "not supported: GGUF files of model_type %s, because only these are written: %s",
                             type ? type : "null", known);
}

cs_status ce_gguf_family_of_arch(const ce_gguf_family **family, const char *arch)
{
    CE_FREED char *known = NULL;
    *family = find(arch, false, &known);
    return *family ? CS_OK
                   : ce_fail(CS_UNSUPPORTED,
                             "not supported: GGUF files whose general.architecture is %s, because only these are read: "
                             "%s",
                             arch ? arch : "missing", known);
}

/* ---- names of tensors ---- */

static const char *const ends[][2] = {
    { "model.embed_tokens.weight", "token_embd.weight" },
    { "model.norm.weight", "output_norm.weight" },
    { "lm_head.weight", "output.weight" },
};
enum { ENDS = sizeof ends / sizeof *ends };
static const char *const parts[][2] = {
    { "self_attn.q_proj.", "attn_q." },
    { "self_attn.k_proj.", "attn_k." },
    { "self_attn.v_proj.", "attn_v." },
    { "self_attn.o_proj.", "attn_output." },
    { "self_attn.q_norm.", "attn_q_norm." },
    { "self_attn.k_norm.", "attn_k_norm." },
    { "mlp.gate_proj.", "ffn_gate." },
    { "mlp.up_proj.", "ffn_up." },
    { "mlp.down_proj.", "ffn_down." },
    { "input_layernorm.", "attn_norm." },
    { "pre_feedforward_layernorm.", "ffn_norm." },
    { "post_feedforward_layernorm.", "post_ffw_norm." },
};
enum { PARTS = sizeof parts / sizeof *parts };
/* The norm after attention in families that have norms there, and the norm before the feed-forward in others. */
static const char second[] = "post_attention_layernorm.";

/* Translates the name of a tensor from column `from` of the tables to the other one. `form` has the beginning of the
 * names of a layer's tensors in each column. */
static bool translate(char *name, const ce_gguf_family *family, const char *tensor, int from)
{
    static const char *const form[2] = { "model.layers.", "blk." };
    const char *const norm[2] = { second, family->sandwich || family->after ? "post_attention_norm." : "ffn_norm." };
    int layer, length = 0;
    for (int i = 0; i < ENDS; i++)
        if (strcmp(ends[i][from], tensor) == 0)
            return snprintf(name, CE_GGUF_FAMILY_NAME, "%s", ends[i][!from]) > 0;
    if (strncmp(tensor, form[from], strlen(form[from])) != 0)
        return false;
    tensor += strlen(form[from]);
    if (sscanf(tensor, "%7d.%n", &layer, &length) != 1 || length == 0)
        return false;
    tensor += length;
    for (int i = 0; i <= PARTS; i++) {
        const char *const *pair = i > 0 ? parts[i - 1] : norm;
        size_t begin = strlen(pair[from]);
        if (strncmp(tensor, pair[from], begin) != 0)
            continue;
        tensor += begin;
        return (strcmp(tensor, "weight") == 0 || strcmp(tensor, "bias") == 0) &&
               snprintf(name, CE_GGUF_FAMILY_NAME, "%s%d.%s%s", form[!from], layer, pair[!from], tensor) <
                   CE_GGUF_FAMILY_NAME;
    }
    return false;
}

bool ce_gguf_family_name(char name[CE_GGUF_FAMILY_NAME], const ce_gguf_family *family, const char *tensor)
{
    /* llama.cpp's model has no such tensor. */
    if ((ce_ends_with(tensor, ".bias") && !family->biased) ||
        (strcmp(tensor, "lm_head.weight") == 0 && family->plus_one))
        return false;
    return translate(name, family, tensor, 0);
}

bool ce_gguf_family_tensor(char name[CE_GGUF_FAMILY_NAME], const ce_gguf_family *family, const char *in_file)
{
    char back[CE_GGUF_FAMILY_NAME];
    return translate(name, family, in_file, 1) && ce_gguf_family_name(back, family, name) && strcmp(back, in_file) == 0;
}

int64_t ce_gguf_family_heads(const ce_gguf_family *family, const char *tensor, int64_t heads, int64_t key_heads)
{
    if (!family->permuted)
        return 0;
    return strstr(tensor, ".q_proj.") ? heads : strstr(tensor, ".k_proj.") ? key_heads : 0;
}

bool ce_gguf_family_plus_one(const ce_gguf_family *family, const char *in_file)
{
    return family->plus_one && ce_ends_with(in_file, "norm.weight");
}

/* ---- numbers ---- */

const ce_gguf_setting ce_gguf_settings[] = {
    { "num_hidden_layers", ".block_count", true, true, false },
    { "max_position_embeddings", ".context_length", true, true, false },
    { "hidden_size", ".embedding_length", true, true, false },
    { "intermediate_size", ".feed_forward_length", true, true, false },
    { "num_attention_heads", ".attention.head_count", true, true, false },
    { "rms_norm_eps", ".attention.layer_norm_rms_epsilon", false, true, false },
    { "attn_logit_softcapping", ".attn_logit_softcapping", false, false, false },
    { "final_logit_softcapping", ".final_logit_softcapping", false, false, false },
    { "sliding_window", ".attention.sliding_window", true, false, true },
    { "embedding_multiplier", ".embedding_scale", false, false, false },
    { "residual_multiplier", ".residual_scale", false, false, false },
    { "attention_multiplier", ".attention.scale", false, false, false },
    { "logits_scaling", ".logit_scale", false, false, false },
};
const int ce_gguf_setting_count = sizeof ce_gguf_settings / sizeof *ce_gguf_settings;

/* ---- the rotary scaling of Llama 3 ---- */

static double wavelength(double theta, int64_t pair, int64_t width)
{
    return 2 * M_PI * pow(theta, 2 * (double)pair / (double)width);
}

float *ce_gguf_llama3_factors(int64_t *count, const ce_gguf_llama3 *scaling, int64_t width)
{
    *count = width / 2;
    float *factors = ce_must_alloc((size_t)(*count + 1) * sizeof *factors);
    for (int64_t i = 0; i < *count; i++) {
        double smooth =
            (scaling->before / wavelength(scaling->theta, i, width) - scaling->low) / (scaling->high - scaling->low);
        smooth = fmin(fmax(smooth, 0), 1);
        factors[i] = (float)(1 / ((1 - smooth) / scaling->factor + smooth));
    }
    return factors;
}

/* Rounds to an integer that is near enough. */
static double whole(double value)
{
    return fabs(value - round(value)) < 1e-3 * fabs(value) ? round(value) : value;
}

/* The greatest factor is that of the longest wavelengths. Between the bounds 1 / factor is linear in 1 / wavelength, so
 * two frequencies there give before / low and before / high. Only these ratios matter: `low` is 1. A single frequency
 * between the bounds gives `before` if `high` is that of Llama 3. */
bool ce_gguf_llama3_find(ce_gguf_llama3 *scaling, const float *factors, int64_t width)
{
    int64_t count, found = 0;
    double x[2] = { 0 }, smooth[2] = { 0 }; /* of the first and the last frequency between the bounds */
    *scaling = (ce_gguf_llama3){ scaling->theta, whole((double)factors[width / 2 - 1]), 1, 4, 0 };
    for (int64_t i = 0; i < width / 2; i++) {
        if (factors[i] <= 1 + 1e-4F || (double)factors[i] >= scaling->factor * (1 - 1e-4))
            continue;
        x[found > 0] = 1 / wavelength(scaling->theta, i, width);
        smooth[found++ > 0] = (1 / (double)factors[i] - 1 / scaling->factor) / (1 - 1 / scaling->factor);
    }
    if (found == 0 || !(scaling->factor > 1))
        return false;
    double slope = found > 1 ? (smooth[0] - smooth[1]) / (x[0] - x[1]) : 0;
    if (found > 1)
        scaling->high = whole(1 - 1 / (smooth[0] - slope * x[0]));
    scaling->before = whole((smooth[0] * (scaling->high - 1) + 1) / x[0]);
    CE_FREED float *same = ce_gguf_llama3_factors(&count, scaling, width);
    for (int64_t i = 0; i < count; i++)
        if (!(fabsf(same[i] - factors[i]) <= 1e-4F * factors[i]))
            return false;
    return scaling->high > 1 && scaling->before > 0;
}
