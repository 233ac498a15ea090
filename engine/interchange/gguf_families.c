/* gguf_families.c - the keys of a GGUF file that describe the model, from the model's tensors and its config.json. */
#include "base/must.h"
#include "interchange/gguf_parts.h"
#include "models/models.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Returns the shape of the tensor of the first layer. */
static const int64_t *shape_of(const ce_source *source, const char *name)
{
    static const int64_t none[CS_MAX_DIMS] = { 0 };
    int64_t tensor = ce_source_find(source, name);
    return tensor < 0 ? none : source->tensors[tensor].shape;
}

cs_status ce_gguf_sizes_read(ce_gguf_sizes *sizes, const ce_source *source, const json_t *config)
{
    int64_t q = shape_of(source, "model.layers.0.self_attn.q_proj.weight")[0];
    int64_t k = shape_of(source, "model.layers.0.self_attn.k_proj.weight")[0];
    sizes->vocabulary = shape_of(source, "model.embed_tokens.weight")[0];
    sizes->heads = (int64_t)number(config, "num_attention_heads");
    sizes->width = sizes->heads > 0 ? q / sizes->heads : 0;
    sizes->key_heads = sizes->width > 0 ? k / sizes->width : 0;
    return sizes->key_heads > 0 && sizes->vocabulary > 0
               ? CS_OK
               : ce_fail(CS_UNSUPPORTED,
                         "not supported: a GGUF file of a model without a token table, or without q and "
                         "k in its first layer");
}

float *ce_gguf_family_factors(int64_t *count, const json_t *config, int64_t width)
{
    ce_gguf_llama3 scaling = { .theta = theta(config),
                               .factor = json_number_value(rope(config, "factor")),
                               .low = json_number_value(rope(config, "low_freq_factor")),
                               .high = json_number_value(rope(config, "high_freq_factor")),
                               .before = json_number_value(rope(config, "original_max_position_embeddings")) };
    return strcmp(rope_type(config), "llama3") == 0 ? ce_gguf_llama3_factors(count, &scaling, width) : NULL;
}

/* ---- keys ---- */

static cs_status add_rope(ce_gguf_keys *keys, const json_t *config, int64_t width)
{
    const char *type = rope_type(config);
    bool yarn = strcmp(type, "yarn") == 0;
    ce_gguf_key_real(keys, ".rope.freq_base", theta(config));
    ce_gguf_key_count(keys, ".rope.dimension_count", width);
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

static void add_numbers(ce_gguf_keys *keys, const ce_gguf_family *family, const json_t *config)
{
    for (int i = 0; i < ce_gguf_setting_count; i++) {
        const ce_gguf_setting *row = &ce_gguf_settings[i];
        double value = number(config, row->config);
        if ((row->windowed && !family->period) || (!row->needed && !(value > 0)))
            continue;
        if (row->count)
            ce_gguf_key_count(keys, row->file, (int64_t)value);
        else
            ce_gguf_key_real(keys, row->file, value);
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
    what = json_is_false(rope(config, "truncate")) ? "truncate" : what;
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

static cs_status check(const ce_gguf_family *family, const json_t *config, int64_t width)
{
    double scale = number(config, "query_pre_attn_scalar");
    if (family->large && (int64_t)number(config, "num_hidden_layers") == family->large)
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

cs_status ce_gguf_family_keys(ce_gguf_keys *keys, const ce_gguf_family *family, const json_t *config,
                              const ce_gguf_sizes *sizes)
{
    CE_TRY(check(family, config, sizes->width));
    keys->arch = family->arch;
    ce_gguf_key_text(keys, "general.architecture", family->arch);
    ce_gguf_key_text(keys, "general.type", "model");
    add_numbers(keys, family, config);
    ce_gguf_key_count(keys, ".attention.head_count_kv", sizes->key_heads);
    ce_gguf_key_count(keys, ".attention.key_length", sizes->width);
    ce_gguf_key_count(keys, ".attention.value_length", sizes->width);
    ce_gguf_key_count(keys, ".vocab_size", sizes->vocabulary);
    return add_rope(keys, config, sizes->width);
}
