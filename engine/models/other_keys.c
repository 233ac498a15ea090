/* other_keys.c - keys of a config.json that are in no key table of its family. Programs write notes into config.json
 * ("unsloth_version"), and transformers ignores keys that a model's class does not read. */
#include "models/other_keys.h"
#include "base/names.h"
#include "base/nearest.h"
#include "base/must.h"
#include "json/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 320 };

/* Keys that change what some models compute, and that no supported family reads unless its own table has them. The
 * values 0, 1, false and null mean that the arithmetic is the usual one. */
#define USUAL "0|1|false"
#define CHANGES(name, sentence)                                                                                        \
    {                                                                                                                  \
        name, CE_KEY_REFUSED, 0, "null", 0, 0, USUAL, sentence                                                         \
    }
#define WEIGHTS "weights must be fp32, bf16 or fp16: quantized weights cannot be read"
#define POSITIONS "this model_type has only rotary positions"
#define ATTENTION "the attention of this model_type computes nothing like it"
#define FACTORS "nothing of this model_type is multiplied by it"
#define EXPERTS "this model_type has no such experts"
#define SIZES "this model_type has another name for it, or no such size"
#define BLOCKS "the blocks of this model_type are not built like this"
#define PARTS "only language models are supported, without images or sound"
static const ce_key arithmetic[] = {
    CHANGES("quantization", WEIGHTS),
    CHANGES("compression_config", WEIGHTS),
    CHANGES("alibi", POSITIONS),
    CHANGES("use_alibi", POSITIONS),
    CHANGES("no_rope_layers", POSITIONS),
    CHANGES("no_rope_layer_interval", POSITIONS),
    CHANGES("rotary_dim", POSITIONS),
    CHANGES("rotary_pct", POSITIONS),
    CHANGES("rotary_emb_base", POSITIONS),
    CHANGES("rope_local_base_freq", POSITIONS),
    CHANGES("rope_interleaved", POSITIONS),
    CHANGES("use_dynamic_ntk", POSITIONS),
    CHANGES("dual_chunk_attention_config", ATTENTION),
    CHANGES("attention_chunk_size", ATTENTION),
    CHANGES("attention_multiplier", ATTENTION),
    CHANGES("attn_logit_softcapping", ATTENTION),
    CHANGES("query_pre_attn_scalar", ATTENTION),
    CHANGES("sliding_window_pattern", ATTENTION),
    CHANGES("layer_types", ATTENTION),
    CHANGES("use_bidirectional_attention", ATTENTION),
    CHANGES("use_logn_attn", ATTENTION),
    CHANGES("use_qk_norm", ATTENTION),
    CHANGES("qk_layernorm", ATTENTION),
    CHANGES("clip_qkv", ATTENTION),
    CHANGES("qkv_bias", ATTENTION),
    CHANGES("use_sinks", ATTENTION),
    CHANGES("sparse_attention_config", ATTENTION),
    CHANGES("kv_lora_rank", ATTENTION),
    CHANGES("q_lora_rank", ATTENTION),
    CHANGES("head_dim", ATTENTION),
    CHANGES("num_key_value_heads", ATTENTION),
    CHANGES("num_kv_heads", ATTENTION),
    CHANGES("n_head_kv", ATTENTION),
    CHANGES("final_logit_softcapping", FACTORS),
    CHANGES("logit_scale", FACTORS),
    CHANGES("logits_scaling", FACTORS),
    CHANGES("embedding_multiplier", FACTORS),
    CHANGES("residual_multiplier", FACTORS),
    CHANGES("scale_emb", FACTORS),
    CHANGES("scale_depth", FACTORS),
    CHANGES("dim_model_base", FACTORS),
    CHANGES("swiglu_alpha", FACTORS),
    CHANGES("swiglu_limit", FACTORS),
    CHANGES("num_experts", EXPERTS),
    CHANGES("num_local_experts", EXPERTS),
    CHANGES("n_routed_experts", EXPERTS),
    CHANGES("n_shared_experts", EXPERTS),
    CHANGES("moe_intermediate_size", EXPERTS),
    CHANGES("n_layer", SIZES),
    CHANGES("n_layers", SIZES),
    CHANGES("num_layers", SIZES),
    CHANGES("n_head", SIZES),
    CHANGES("n_heads", SIZES),
    CHANGES("n_embd", SIZES),
    CHANGES("n_embed", SIZES),
    CHANGES("n_inner", SIZES),
    CHANGES("d_model", SIZES),
    CHANGES("d_ff", SIZES),
    CHANGES("ffn_hidden_size", SIZES),
    CHANGES("hidden_size", SIZES),
    CHANGES("intermediate_size", SIZES),
    CHANGES("num_hidden_layers", SIZES),
    CHANGES("num_attention_heads", SIZES),
    CHANGES("parallel_attn", BLOCKS),
    CHANGES("use_parallel_residual", BLOCKS),
    CHANGES("parallel_residual", BLOCKS),
    CHANGES("lm_head_bias", BLOCKS),
    CHANGES("hidden_activation", BLOCKS),
    CHANGES("text_config", PARTS),
    CHANGES("vision_config", PARTS),
    CHANGES("audio_config", PARTS),
};

/* True if the name is the known one with a wrong letter or, if it is long, with two. */
static bool is_misspelt(const ce_key *table, int count, const char *name)
{
    bool found = false;
    for (int i = 0; i < count && !found; i++)
        found = ce_nearest_distance(name, table[i].name) <= (strlen(name) < 8 ? 1 : 2);
    return found;
}

static ce_key inert(const char *name)
{
    return (ce_key){ name, CE_KEY_INERT, 0, "null", 0, 0, NULL, "no part of this model reads it" };
}

ce_key *ce_other_keys_add(const ce_key *table, int *count, json_t *object, ce_json *doc, const char *path)
{
    ce_names unread = { 0 }, ignored = { 0 };
    ce_key *keys = ce_must_alloc(((size_t)*count + json_object_size(object) + 1) * sizeof *keys);
    const char *name;
    json_t *value;
    int own = *count;
    memcpy(keys, table, (size_t)own * sizeof *keys);
    json_object_foreach (object, name, value) {
        ce_key *key = (ce_key *)(uintptr_t)ce_keys_find(keys, own, name);
        const ce_key *changes = key ? key : ce_keys_find(CE_KEYS(arithmetic), name);
        bool refused = changes && changes->type == CE_KEY_REFUSED && !ce_value_is_harmless(changes, value);
        bool misspelt = !changes && is_misspelt(table, own, name);
        if (*name == '_' || (key && !refused))
            continue;
        if ((refused || misspelt) && ce_json_is_lenient(doc)) {
            ce_names_add(&ignored, "%s", name);
            *(key ? key : &keys[(*count)++]) = inert(name);
        } else if (refused) {
            key = key ? key : &keys[(*count)++];
            *key = *changes;
            key->min = 1; /* --lenient ignores it */
        } else if (!key && !misspelt) {
            ce_names_add(&unread, "%s", name);
            keys[(*count)++] = inert(name);
        }
    }
    if (unread.count)
        ce_json_warn(doc, path, "no part of this model reads these keys, and they have no effect: %s",
                     ce_names_text(&unread));
    if (ignored.count)
        ce_json_warn(doc, path, "--lenient ignores these keys, and the model may compute something else: %s",
                     ce_names_text(&ignored));
    return keys;
}

/* ---- keys with two names ---- */

static const struct {
    const char *type, *other, *key;
} names[] = {
    { "gpt2", "hidden_size", "n_embd" },
    { "gpt2", "num_hidden_layers", "n_layer" },
    { "gpt2", "num_attention_heads", "n_head" },
    { "gpt2", "max_position_embeddings", "n_positions" },
    { "falcon", "n_embed", "hidden_size" },
    { "mixtral", "num_experts", "num_local_experts" },
    { "gpt_oss", "num_experts", "num_local_experts" },
    { "internlm3", "qkv_bias", "attention_bias" },
    { "internlm3", "bias", "mlp_bias" },
    { "olmoe", "num_local_experts", "num_experts" },
    { "qwen3_moe", "num_local_experts", "num_experts" },
};

void ce_other_keys_rename(const char *type, json_t *config, ce_json *doc, const char *path)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *value = json_object_get(config, names[i].other), *own = json_object_get(config, names[i].key);
        char there[48], here[48];
        if (strcmp(type, names[i].type) != 0 || !value || json_is_null(value))
            continue;
        if (own && !json_equal(own, value))
            ce_json_warn(doc, path,
                         "%s %s is used and %s %s is ignored, as in transformers: both have the same meaning",
                         names[i].other, ce_json_show(value, there, sizeof there), names[i].key,
                         ce_json_show(own, here, sizeof here));
        json_object_set(config, names[i].key, value);
        json_object_del(config, names[i].other);
    }
}
