/* gguf_families.c - how llama.cpp names a model, its sizes and its tensors. */
#include "base/ends_with.h"
#include "base/must.h"
#include "interchange/gguf_parts.h"
#include "models/models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GELU "gelu_pytorch_tanh"

static const ce_gguf_family families[] = {
    { .type = "llama", .arch = "llama", .permuted = true, .function = "silu" },
    { .type = "mistral", .arch = "llama", .permuted = true, .function = "silu" },
    { .type = "qwen2", .arch = "qwen2", .function = "silu" },
    { .type = "qwen3", .arch = "qwen3", .function = "silu" },
    { .type = "gemma", .arch = "gemma", .plus_one = true, .function = GELU },
    { .type = "gemma2", .arch = "gemma2", .plus_one = true, .sandwich = true, .period = 2, .function = GELU },
    { .type = "gemma3_text", .arch = "gemma3", .plus_one = true, .sandwich = true, .period = 6, .function = GELU },
    { .type = "olmo2", .arch = "olmo2", .after = true, .function = "silu" },
    { .type = "granite", .arch = "granite", .permuted = true, .function = "silu" },
    { .type = "smollm3", .arch = "smollm3", .permuted = true, .function = "silu" },
};
enum { FAMILIES = sizeof families / sizeof *families };

cs_status ce_gguf_family_find(const ce_gguf_family **family, const json_t *config)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    CE_FREED char *known = ce_must_copy("");
    for (int i = 0; i < FAMILIES; i++) {
        if (type && strcmp(families[i].type, type) == 0) {
            *family = &families[i];
            return CS_OK;
        }
        char *longer = ce_must_print("%s%s%s", known, i ? ", " : "", families[i].type);
        free(known);
        known = longer;
    }
    return ce_fail(CS_UNSUPPORTED, "not supported: GGUF files of model_type %s, because only these are written: %s",
                   type ? type : "null", known);
}

/* ---- names of tensors ---- */

static const char *const ends[][2] = {
    { "model.embed_tokens.weight", "token_embd.weight" },
    { "model.norm.weight", "output_norm.weight" },
    { "lm_head.weight", "output.weight" },
};
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

bool ce_gguf_family_name(char name[128], const ce_gguf_family *family, const char *tensor)
{
    int layer, length = 0;
    bool biases = strcmp(family->arch, "llama") == 0 || strcmp(family->arch, "qwen2") == 0;
    if ((ce_ends_with(tensor, ".bias") && !biases) || (strcmp(tensor, "lm_head.weight") == 0 && family->plus_one))
        return false; /* llama.cpp's model has no such tensor */
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strcmp(ends[i][0], tensor) == 0)
            return snprintf(name, 128, "%s", ends[i][1]) > 0;
    if (sscanf(tensor, "model.layers.%d.%n", &layer, &length) != 1 || length == 0)
        return false;
    tensor += length;
    const char *const second[2] = { "post_attention_layernorm.",
                                    family->sandwich || family->after ? "post_attention_norm." : "ffn_norm." };
    for (size_t i = 0; i <= sizeof parts / sizeof *parts; i++) {
        const char *const *pair = i < sizeof parts / sizeof *parts ? parts[i] : second;
        if (strncmp(tensor, pair[0], strlen(pair[0])) == 0)
            return snprintf(name, 128, "blk.%d.%s%s", layer, pair[1], tensor + strlen(pair[0])) < 128;
    }
    return false;
}

/* ---- values of config.json ---- */

/* Returns the number at a key of config.json, or the family's default. */
static double number(const json_t *config, const char *key)
{
    json_t *value = ce_models_value(config, key);
    double result = json_is_number(value) ? json_number_value(value) : 0;
    json_decref(value);
    return result;
}

/* Returns a key of the rotary positions, which transformers 5 writes into an object, or NULL. */
static const json_t *rope(const json_t *config, const char *key)
{
    const json_t *all = json_object_get(config, "rope_parameters"), *scaling = json_object_get(config, "rope_scaling");
    const json_t *global = json_object_get(all, "full_attention");
    const json_t *value = json_object_get(scaling, key); /* as in transformers, rope_scaling counts */
    return value ? value : json_object_get(json_is_object(global) ? global : all, key);
}

static const char *rope_type(const json_t *config)
{
    const char *type = json_string_value(rope(config, "rope_type"));
    type = type ? type : json_string_value(rope(config, "type"));
    return type ? type : "default";
}

static double theta(const json_t *config)
{
    const json_t *given = rope(config, "rope_theta");
    return json_is_number(given) ? json_number_value(given) : number(config, "rope_theta");
}

static int64_t head_width(const json_t *config)
{
    static const char *const wide[] = { "gemma", "gemma2", "gemma3_text" };
    const char *type = json_string_value(json_object_get(config, "model_type"));
    int64_t head = (int64_t)number(config, "head_dim");
    for (size_t i = 0; i < sizeof wide / sizeof *wide && head <= 0; i++)
        head = type && strcmp(wide[i], type) == 0 ? 256 : head; /* the default of transformers */
    return head > 0 ? head : (int64_t)number(config, "hidden_size") / (int64_t)number(config, "num_attention_heads");
}

static int64_t key_heads(const json_t *config)
{
    const json_t *given = json_object_get(config, "num_key_value_heads");
    int64_t heads = json_is_null(given) ? 0 : (int64_t)number(config, "num_key_value_heads");
    return heads > 0 ? heads : (int64_t)number(config, "num_attention_heads");
}

int64_t ce_gguf_family_heads(const ce_gguf_family *family, const char *tensor, const json_t *config)
{
    bool q = strstr(tensor, ".q_proj.") != NULL, k = strstr(tensor, ".k_proj.") != NULL;
    if (!family->permuted || (!q && !k))
        return 0;
    return q ? (int64_t)number(config, "num_attention_heads") : key_heads(config);
}

float *ce_gguf_family_factors(int64_t *count, const json_t *config)
{
    int64_t width = head_width(config);
    double factor = json_number_value(rope(config, "factor")), low = json_number_value(rope(config, "low_freq_factor"));
    double high = json_number_value(rope(config, "high_freq_factor"));
    double before = json_number_value(rope(config, "original_max_position_embeddings"));
    *count = width / 2;
    if (strcmp(rope_type(config), "llama3") != 0)
        return NULL;
    float *factors = ce_must_alloc((size_t)*count * sizeof *factors);
    for (int64_t i = 0; i < *count; i++) {
        double length = 2 * M_PI * pow(theta(config), 2 * (double)i / (double)width);
        double smooth = (before / length - low) / (high - low);
        smooth = fmin(fmax(smooth, 0), 1);
        factors[i] = (float)(1 / ((1 - smooth) / factor + smooth));
    }
    return factors;
}

/* ---- keys ---- */

static cs_status add_rope(ce_gguf_keys *keys, const json_t *config)
{
    const char *type = rope_type(config);
    bool yarn = strcmp(type, "yarn") == 0;
    ce_gguf_key_real(keys, ".rope.freq_base", theta(config));
    ce_gguf_key_count(keys, ".rope.dimension_count", head_width(config));
    if (strcmp(type, "default") == 0 || strcmp(type, "llama3") == 0)
        return CS_OK;
    if (!yarn && strcmp(type, "linear") != 0)
        return ce_fail(CS_UNSUPPORTED, "not supported: a GGUF file with rotary scaling of type %s", type);
    ce_gguf_key_text(keys, ".rope.scaling.type", type);
    ce_gguf_key_real(keys, ".rope.scaling.factor", json_number_value(rope(config, "factor")));
    if (yarn)
        ce_gguf_key_count(keys, ".rope.scaling.original_context_length",
                          (int64_t)json_number_value(rope(config, "original_max_position_embeddings")));
    return CS_OK;
}

/* Keys that a family has if config.json has a number other than 0 for them. */
static void add_others(ce_gguf_keys *keys, const ce_gguf_family *family, const json_t *config)
{
    static const struct {
        const char *from, *to;
        bool count;
    } others[] = { { "attn_logit_softcapping", ".attn_logit_softcapping", false },
                   { "final_logit_softcapping", ".final_logit_softcapping", false },
                   { "sliding_window", ".attention.sliding_window", true },
                   { "embedding_multiplier", ".embedding_scale", false },
                   { "residual_multiplier", ".residual_scale", false },
                   { "attention_multiplier", ".attention.scale", false },
                   { "logits_scaling", ".logit_scale", false } };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        double value = number(config, others[i].from);
        if (others[i].count && !family->period)
            continue;
        if (value > 0 && others[i].count)
            ce_gguf_key_count(keys, others[i].to, (int64_t)value);
        else if (value > 0)
            ce_gguf_key_real(keys, others[i].to, value);
    }
}

/* ---- what llama.cpp takes for granted ---- */

/* Returns true if the layer has a sliding window by config.json. */
static bool is_windowed(const json_t *config, int64_t layer, int64_t period)
{
    const json_t *types = json_object_get(config, "layer_types");
    const json_t *pattern = json_object_get(config, "sliding_window_pattern");
    int64_t n = json_is_integer(pattern) ? json_integer_value(pattern) : period;
    const char *kind = json_string_value(json_array_get(types, (size_t)layer));
    if (json_is_array(types))
        return kind && strcmp(kind, "sliding_attention") == 0;
    return n > 0 && (layer + 1) % n != 0;
}

static cs_status check_windows(const ce_gguf_family *family, const json_t *config)
{
    json_t *used = ce_models_value(config, "use_sliding_window");
    double window = number(config, "sliding_window");
    bool other =
        !family->period && window > 0 && !json_is_false(used) && window < number(config, "max_position_embeddings");
    int64_t layers = (int64_t)number(config, "num_hidden_layers");
    for (int64_t i = 0; i < layers && family->period; i++)
        other = other || is_windowed(config, i, family->period) != ((i + 1) % family->period != 0);
    json_decref(used);
    return other ? ce_fail(CS_UNSUPPORTED,
                           "not supported: a GGUF file of a model with these layers of sliding windows, "
                           "because llama.cpp computes them for model_type %s otherwise",
                           family->type)
                 : CS_OK;
}

static cs_status check_function(const ce_gguf_family *family, const json_t *config)
{
    json_t *value = ce_models_value(config, "hidden_act"), *other = ce_models_value(config, "hidden_activation");
    const char *first = json_string_value(other), *name = first ? first : json_string_value(value);
    /* transformers computes "gelu" of a Gemma by the approximation with tanh too. */
    bool same = !name || strcmp(name, family->function) == 0 || (strncmp(name, "gelu", 4) == 0 && family->plus_one);
    cs_status status = same ? CS_OK
                            : ce_fail(CS_UNSUPPORTED,
                                      "not supported: a GGUF file of model_type %s with the activation "
                                      "function %s, because llama.cpp always computes %s",
                                      family->type, name, family->function);
    json_decref(value);
    json_decref(other);
    return status;
}

/* SmolLM3: every fourth layer has no rotary positions. */
static cs_status check_rotated(const json_t *config)
{
    const json_t *list = json_object_get(config, "no_rope_layers");
    double interval = number(config, "no_rope_layer_interval");
    bool same = interval <= 0 || (int64_t)interval == 4;
    for (size_t i = 0; i < json_array_size(list); i++)
        same = (i > 0 ? same : true) && json_integer_value(json_array_get(list, i)) == ((i + 1) % 4 != 0);
    return same ? CS_OK
                : ce_fail(CS_UNSUPPORTED,
                          "not supported: a GGUF file with this no_rope_layers or no_rope_layer_interval, "
                          "because in llama.cpp every fourth layer has no rotary positions");
}

/* Settings that the file cannot express. */
static cs_status check_settings(const ce_gguf_family *family, const json_t *config)
{
    static const char *const scaling[] = { "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim" };
    static const char *const caps[] = { "attn_logit_softcapping", "final_logit_softcapping" };
    const char *what = NULL;
    for (size_t i = 0; i < sizeof scaling / sizeof *scaling; i++)
        what = json_is_number(rope(config, scaling[i])) ? scaling[i] : what;
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        const json_t *cap = json_object_get(config, caps[i]);
        what = strcmp(family->arch, "gemma2") == 0 && json_is_null(cap) ? caps[i] : what;
    }
    const json_t *local = json_object_get(config, "rope_local_base_freq");
    const json_t *sliding = json_object_get(json_object_get(config, "rope_parameters"), "sliding_attention");
    local = json_is_number(local) ? local : json_object_get(sliding, "rope_theta");
    if (json_is_number(local) && fabs(json_number_value(local) - 10000) > 0)
        what = "rope_local_base_freq";
    if (strcmp(rope_type(config), "llama3") == 0 && strcmp(family->arch, "llama") != 0)
        what = "rope_type llama3";
    return what ? ce_fail(CS_UNSUPPORTED,
                          "not supported: a GGUF file of model_type %s with this %s, because llama.cpp reads "
                          "no such setting from the file",
                          family->type, what)
                : CS_OK;
}

static cs_status check(const ce_gguf_family *family, const json_t *config)
{
    double scale = number(config, "query_pre_attn_scalar");
    int64_t layers = (int64_t)number(config, "num_hidden_layers"), width = head_width(config);
    /* llama.cpp knows the models of 27B by their number of layers. */
    if ((strcmp(family->arch, "gemma2") == 0 && layers == 46) || (strcmp(family->arch, "gemma3") == 0 && layers == 62))
        width = (int64_t)(number(config, "hidden_size") / number(config, "num_attention_heads"));
    CE_TRY(check_windows(family, config));
    CE_TRY(check_function(family, config));
    CE_TRY(check_settings(family, config));
    if (scale > 0 && (int64_t)scale != width)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: a GGUF file with query_pre_attn_scalar %g and heads of %lld "
                       "columns, because llama.cpp takes the width of a head",
                       scale, (long long)width);
    return check_rotated(config);
}

cs_status ce_gguf_family_keys(ce_gguf_keys *keys, const ce_gguf_family *family, const json_t *config)
{
    CE_TRY(check(family, config));
    keys->arch = family->arch;
    ce_gguf_key_text(keys, "general.architecture", family->arch);
    ce_gguf_key_text(keys, "general.type", "model");
    ce_gguf_key_count(keys, ".block_count", (int64_t)number(config, "num_hidden_layers"));
    ce_gguf_key_count(keys, ".context_length", (int64_t)number(config, "max_position_embeddings"));
    ce_gguf_key_count(keys, ".embedding_length", (int64_t)number(config, "hidden_size"));
    ce_gguf_key_count(keys, ".feed_forward_length", (int64_t)number(config, "intermediate_size"));
    ce_gguf_key_count(keys, ".attention.head_count", (int64_t)number(config, "num_attention_heads"));
    ce_gguf_key_count(keys, ".attention.head_count_kv", key_heads(config));
    ce_gguf_key_count(keys, ".attention.key_length", head_width(config));
    ce_gguf_key_count(keys, ".attention.value_length", head_width(config));
    ce_gguf_key_real(keys, ".attention.layer_norm_rms_epsilon", number(config, "rms_norm_eps"));
    ce_gguf_key_count(keys, ".vocab_size", (int64_t)number(config, "vocab_size"));
    add_others(keys, family, config);
    return add_rope(keys, config);
}
