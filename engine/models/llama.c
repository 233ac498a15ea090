/* llama.c - models built of Llama's block (Touvron et al. 2023): Llama, Mistral, Qwen2 and Qwen3, and those of gemma.c
 * and variants.c.
 *
 * The block has rotary positions, RMSNorm, SwiGLU and grouped-query attention. Parameter names and layouts are those of
 * Hugging Face's transformers. */
#include "models/llama.h"
#include "models/ends.h"
#include "models/rotary.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const ce_llama_traits llama = { 0 };
static const ce_llama_traits mistral = { .keys = 8, .window = CE_WINDOW };
static const ce_llama_traits qwen2 = { .qkv_bias = true, .keys = 32, .window = CE_WINDOW_IF_ASKED };
static const ce_llama_traits qwen3 = { .normed = true, .keys = 32, .head = 128, .window = CE_WINDOW_IF_ASKED };

#define AT CE_LLAMA_AT
#define COMMON(type, vocab, inner_width, max)                                                                          \
    CE_LLAMA_SIZES(type, vocab, max, "4096", inner_width, "32", "32", "1e-6", "false"),                                \
        CE_LLAMA_FUNCTION("hidden_act", "silu"), CE_LLAMA_ROPE("10000", "0"), CE_LLAMA_LAYER_TYPES,                    \
        CE_LLAMA_PADDING("null")
#define SLIDING                                                                                                        \
    CE_ROW("use_sliding_window", BOOL, windowed, "false", 0, 0, NULL,                                                  \
           "true: the layers from max_window_layers on have a sliding window of sliding_window tokens"),               \
        CE_ROW("sliding_window", INT, window, "4096", 1, 1 << 30, NULL,                                                \
               "tokens to which a token attends in layers with a sliding window"),                                     \
        CE_ROW("max_window_layers", INT, window_from, "28", 0, 1 << 14, NULL,                                          \
               "number of the first layer, from 0, that has a sliding window; needs use_sliding_window")

static const ce_key llama_keys[] = {
    COMMON("llama", "32000", "11008", "2048"),
    CE_LLAMA_BIAS,
    CE_ROW("mlp_bias", BOOL, mlp_bias, "false", 0, 0, NULL, "true: the linear layers of the feed-forward have biases"),
    CE_REFUSED("rope_interleaved", "false", "false",
               "rotary pairs are columns i and i + head_dim / 2, as Hugging Face orders them"),
    CE_INERT("is_llama_config", "information for readers; cspeed does not use it"),
};
static const ce_key mistral_keys[] = {
    COMMON("mistral", "32000", "14336", "131072"),
    CE_ROW("sliding_window", INT, window, "0", 0, 1 << 30, NULL,
           "tokens to which a token attends (sliding window); if absent, 4096; null: all earlier ones"),
};
static const ce_key qwen2_keys[] = {
    COMMON("qwen2", "151936", "22016", "32768"),
    SLIDING,
    CE_INERT("attention_bias", "in this model_type q, k and v always have biases, and o has none"),
};
static const ce_key qwen3_keys[] = { COMMON("qwen3", "151936", "22016", "32768"), SLIDING, CE_LLAMA_BIAS };

/* ---- the block ---- */

typedef struct {
    /* norms before and after attention [0] and feed-forward [1]; a norm that does not exist has `weight` NULL */
    cs_rms before[2], after[2];
    cs_attention attention;
    cs_gated mlp;
    cs_experts experts; /* experts, which replace `mlp` unless the number of experts is 0 */
    float residual;     /* factor of the outputs of attention and feed-forward; 0 means none */
} block;

typedef struct {
    const ce_llama_sizes *sizes;
    const ce_llama_traits *traits;
    const cs_rope_sizes *rope;
    int64_t window;
    bool sparse; /* True if the block has experts. */
} block_sizes;

static void declare_norm(cs_rms *rms, cs_unit *unit, const char *name, const block_sizes *given)
{
    const ce_llama_sizes *s = given->sizes;
    if (given->traits->plus_one)
        cs_rms_declare_plus_one(rms, unit, name, s->width, (float)s->epsilon);
    else
        cs_rms_declare(rms, unit, name, s->width, (float)s->epsilon);
}

/* Converts a factor of config.json for the settings of a layer, in which 0 means that nothing is multiplied: a factor
 * of 1 becomes 0. */
static float factor_of(double given)
{
    return given == 1 ? 0 : (float)given;
}

static float scale_of(const ce_llama_sizes *s)
{
    return s->query_scalar > 0 ? (float)(1 / sqrt(s->query_scalar)) : (float)s->attention;
}

static void declare_attention(cs_attention *attention, cs_unit *unit, const block_sizes *given)
{
    const ce_llama_sizes *s = given->sizes;
    const ce_llama_traits *traits = given->traits;
    cs_attention_parts parts = {
        .width = s->width,
        .head = s->head,
        .heads = { .queries = s->heads,
                   .keys = s->keys,
                   .window = given->window,
                   .scale = scale_of(s),
                   .cap = (float)s->attention_cap },
        .rope = given->rope,
        .bias = s->bias || traits->qkv_bias ? CS_BIAS : CS_NO_BIAS,
        .out_bias = s->bias && !traits->qkv_choice ? CS_BIAS : CS_NO_BIAS,
        .normed = traits->normed || traits->whole,
        .epsilon = (float)s->epsilon,
        .dropout = (float)s->dropout,
        .init = { CS_NORMAL, (float)s->init_std },
        .norm_whole = traits->whole,
        .norm_plus_one = traits->plus_one,
        .fused = traits->fused ? "qkv_proj" : NULL,
    };
    cs_attention_declare_parts(attention, unit, "self_attn", &parts);
}

static void declare_experts(block *b, cs_unit *unit, const block_sizes *given)
{
    const ce_llama_sizes *s = given->sizes;
    const ce_llama_traits *traits = given->traits;
    cs_experts_sizes sizes = { .width = s->width,
                               .hidden = s->expert_inner > 0 ? s->expert_inner : s->inner,
                               .count = s->experts,
                               .chosen = s->chosen,
                               .shared = s->shared_inner,
                               .init = { CS_NORMAL, (float)s->init_std },
                               .function = ce_function_of(s->activation),
                               .normalized = s->normalized || traits->moe_normalized,
                               .rounded = traits->moe_rounded,
                               .balance = s->balanced ? (float)s->balance : 0,
                               .gate = traits->moe->gate,
                               .up = traits->moe->up,
                               .down = traits->moe->down };
    cs_experts_declare(&b->experts, unit, traits->moe->block, &sizes);
}

static void block_declare(cs_unit *unit, const void *sizes)
{
    const block_sizes *given = sizes;
    const ce_llama_sizes *s = given->sizes;
    const ce_llama_traits *traits = given->traits;
    bool after = traits->after || traits->only_after;
    block *b = cs_unit_self(unit, sizeof *b);
    cs_gated_sizes mlp = { s->width,
                           s->inner,
                           s->mlp_bias ? CS_BIAS : CS_NO_BIAS,
                           { CS_NORMAL, (float)s->init_std },
                           ce_function_of(s->activation),
                           traits->fused ? "gate_up_proj" : NULL };
    b->residual = factor_of(s->residual);
    if (!traits->only_after)
        declare_norm(&b->before[0], unit, "input_layernorm", given);
    declare_attention(&b->attention, unit, given);
    if (after)
        declare_norm(&b->after[0], unit, "post_attention_layernorm", given);
    if (!traits->only_after)
        declare_norm(&b->before[1], unit, after ? "pre_feedforward_layernorm" : "post_attention_layernorm", given);
    if (given->sparse)
        declare_experts(b, unit, given);
    else
        cs_gated_declare(&b->mlp, unit, "mlp", &mlp);
    if (after)
        declare_norm(&b->after[1], unit, "post_feedforward_layernorm", given);
}

/* Returns what is added to the residual stream. t is the output of attention (which = 0) or of feed-forward (which =
 * 1). */
static cs_tensor added(const block *b, cs_pass *pass, int which, cs_tensor t)
{
    if (b->after[which].weight)
        t = cs_rms_forward(&b->after[which], pass, t);
    if (b->residual > 0)
        cs_op_scale(cs_pass_stream(pass), t, t, b->residual);
    return t;
}

static cs_tensor added_backward(const block *b, cs_pass *pass, int which, cs_tensor dy)
{
    if (b->residual > 0) {
        cs_tensor scaled = cs_pass_like(pass, dy);
        cs_op_scale(cs_pass_stream(pass), scaled, dy, b->residual);
        dy = scaled;
    }
    return b->after[which].weight ? cs_rms_backward(&b->after[which], pass, dy) : dy;
}

static cs_tensor feed_forward(const block *b, cs_pass *pass, cs_tensor x)
{
    return b->experts.count > 0 ? cs_experts_forward(&b->experts, pass, x) : cs_gated_forward(&b->mlp, pass, x);
}

static cs_tensor feed_backward(const block *b, cs_pass *pass, cs_tensor dy)
{
    return b->experts.count > 0 ? cs_experts_backward(&b->experts, pass, dy) : cs_gated_backward(&b->mlp, pass, dy);
}

static void block_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    const block *b = cs_unit_self(unit, sizeof *b);
    cs_tensor h = cs_pass_like(pass, x), t = x;
    if (b->before[0].weight)
        t = cs_rms_forward(&b->before[0], pass, x);
    t = cs_attention_forward(&b->attention, pass, t);
    t = added(b, pass, 0, t);
    if (b->before[1].weight)
        t = cs_rms_forward_add(&b->before[1], pass, &(cs_addition){ .sum = h, .a = x, .b = t });
    else
        cs_op_add(cs_pass_stream(pass), h, x, t);
    t = feed_forward(b, pass, b->before[1].weight ? t : h);
    t = added(b, pass, 1, t);
    cs_op_add(cs_pass_stream(pass), y, h, t);
}

/* Backward of the norm before attention (which = 0) or feed-forward (which = 1). dt is the gradient of the norm's
 * output. dx becomes the gradient of the norm's input plus `beside`, the gradient of the residual connection. If there
 * is no such norm, dx becomes dt plus `beside`. */
static void read_backward(const block *b, cs_pass *pass, int which, cs_tensor dx, cs_tensor dt, cs_tensor beside)
{
    if (b->before[which].weight)
        cs_rms_backward_add(&b->before[which], pass, dx, dt, beside);
    else
        cs_op_add(cs_pass_stream(pass), dx, beside, dt);
}

static void block_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    const block *b = cs_unit_self(unit, sizeof *b);
    cs_tensor dh = cs_pass_like(pass, dy), t;
    t = added_backward(b, pass, 1, dy);
    t = feed_backward(b, pass, t);
    read_backward(b, pass, 1, dh, t, dy);
    t = added_backward(b, pass, 0, dh);
    t = cs_attention_backward(&b->attention, pass, t);
    read_backward(b, pass, 0, dx, t, dh);
}

static const cs_kind block_kind = { "llama block", block_declare, block_forward, block_backward, NULL };

/* ---- sizes ---- */

/* True if config.json has the key and its value is null. Used for keys whose value null does not mean the default. */
static bool is_null(const ce_family_input *input, const char *key)
{
    return json_is_null(json_object_get(input->config, key));
}

/* Sets the sizes that config.json leaves out or gives as null. */
static void fill_sizes(ce_llama_sizes *s, const ce_llama_traits *traits, const ce_family_input *input)
{
    bool keys_said = json_object_get(input->config, "num_key_value_heads") != NULL;
    if (s->keys == 0)
        s->keys = !keys_said && traits->keys > 0 ? traits->keys : s->heads;
    if (s->head == 0)
        s->head = traits->head > 0 ? traits->head : s->width / s->heads;
    if (traits->window == CE_WINDOW && !json_object_get(input->config, "sliding_window"))
        s->window = 4096;
    if (traits->window >= CE_WINDOW_IF_ASKED && is_null(input, "sliding_window"))
        s->window = 0;
    if (is_null(input, "attn_logit_softcapping"))
        s->attention_cap = 0;
    if (is_null(input, "final_logit_softcapping"))
        s->logits_cap = 0;
    if (s->heads % s->keys != 0)
        ce_json_fault(input->doc, input->path, "num_attention_heads %lld is not a multiple of num_key_value_heads %lld",
                      (long long)s->heads, (long long)s->keys);
    if (s->head % 2 != 0 || s->head == 0 || s->head > CS_ROPE_WIDTH)
        ce_json_fault(input->doc, input->path, "heads are %lld wide (head_dim): it must be even, and at most %d",
                      (long long)s->head, CS_ROPE_WIDTH);
    if (s->layer_types && (int64_t)json_array_size(s->layer_types) != s->layers)
        ce_json_fault(input->doc, input->path, "layer_types must be a list of num_hidden_layers %lld words",
                      (long long)s->layers);
}

/* Returns the type of layer i in the list layer_types, or NULL if there is no such list. */
static const char *type_of(const ce_llama_sizes *s, int64_t i, const ce_family_input *input)
{
    const char *type = json_string_value(json_array_get(s->layer_types, (size_t)i));
    if (s->layer_types && (!type || (strcmp(type, "full_attention") != 0 && strcmp(type, "sliding_attention") != 0)))
        ce_json_fault(input->doc, input->path, "layer_types[%lld] is neither full_attention nor sliding_attention",
                      (long long)i);
    return type;
}

/* True if layer i has a window in a model whose layers may differ. The list layer_types decides; without this list the
 * rule of traits->window does. */
static bool is_local(const ce_llama_sizes *s, const ce_llama_traits *traits, int64_t i, const ce_family_input *input)
{
    const char *type = type_of(s, i, input);
    if (type)
        return strcmp(type, "sliding_attention") == 0;
    switch (traits->window) {
    case CE_WINDOW_BY_LAYER:
        return (i + 1) % s->period != 0;
    case CE_WINDOW_BEFORE:
        return i % 2 == 0 && i < s->window_from;
    case CE_WINDOW_ALL_IF_ASKED:
        return true;
    default:
        return i >= s->window_from;
    }
}

/* Returns the attention window of layer i, or 0 if the layer has none. If all layers of a family have the same type,
 * the list layer_types must contain that type only. */
static int64_t window_of(const ce_llama_sizes *s, const ce_llama_traits *traits, int64_t i,
                         const ce_family_input *input)
{
    const char *type = json_string_value(json_array_get(s->layer_types, (size_t)i));
    bool wanted = is_local(s, traits, i, input);
    if (traits->window == CE_WINDOW_BY_LAYER)
        return wanted ? s->window : 0;
    if (traits->window == CE_WINDOW_IF_ASKED || traits->window == CE_WINDOW_BEFORE ||
        traits->window == CE_WINDOW_ALL_IF_ASKED)
        return s->windowed && wanted ? s->window : 0;
    if (type && wanted != (s->window > 0))
        ce_json_fault(input->doc, input->path,
                      "not supported: layer_types[%lld] \"%s\", because all layers of this model_type %s", (long long)i,
                      type, s->window > 0 ? "see sliding_window rows" : "see all rows before them");
    return s->window;
}

/* Reads the rotary positions: ropes[0] is for layers without a window, ropes[1] for layers with a window. */
static void read_ropes(cs_rope_sizes ropes[2], const ce_llama_sizes *s, const ce_llama_traits *traits,
                       const ce_family_input *input)
{
    ce_rotary_input all = { .width = s->head,
                            .positions = s->positions,
                            .theta = s->theta,
                            .scaling = s->scaling,
                            .parameters = s->rotary,
                            .partial = s->partial > 0 ? s->partial : traits->partial,
                            .original = s->original };
    if (!traits->two_ropes) {
        ce_rotary_read(&ropes[0], &all, input->doc, input->path);
        ropes[1] = ropes[0];
        if (traits->fused && ropes[0].kind != CS_ROPE_PLAIN && ropes[0].kind != CS_ROPE_LONG)
            ce_json_fault(input->doc, input->path,
                          "not supported: this rope_type, because Phi-3 has only \"longrope\"");
        return;
    }
    ce_rotary_input local = all;
    local.theta = s->local_theta;
    local.scaling = NULL;
    all.parameters = json_object_get(s->rotary, "full_attention");
    local.parameters = json_object_get(s->rotary, "sliding_attention");
    if (s->rotary && json_object_size(s->rotary) != (size_t)(!!all.parameters + !!local.parameters))
        ce_json_fault(input->doc, input->path,
                      "rope_parameters must be an object of \"full_attention\" and \"sliding_attention\"");
    /* Transformers writes the keys of rope_scaling over those of "full_attention". */
    json_t *both = all.parameters && json_object_size(s->scaling) > 0 ? json_copy(all.parameters) : NULL;
    if (both) {
        json_object_update(both, s->scaling);
        all.parameters = both;
        all.scaling = NULL;
        ce_json_warn(input->doc, input->path,
                     "rope_scaling overrides the same keys of rope_parameters.full_attention, as in transformers");
    }
    ce_rotary_read(&ropes[0], &all, input->doc, input->path);
    ce_rotary_read(&ropes[1], &local, input->doc, input->path);
    json_decref(both);
}

static void state_facts(ce_model_facts *facts, const ce_llama_sizes *s, const cs_rope_sizes *rope)
{
    *facts = (ce_model_facts){ .positions = s->positions, .vocabulary = s->vocabulary };
    if (rope->kind == CS_ROPE_LONG && (double)s->positions > rope->original)
        facts->context = (int64_t)rope->original;
    if (s->tied) {
        facts->alias = "lm_head.weight";
        facts->alias_of = "model.embed_tokens.weight";
    }
}

static void add_blocks(cs_model *model, block_sizes *sizes, const cs_rope_sizes ropes[2], const ce_family_input *input)
{
    for (int64_t i = 0; i < sizes->sizes->layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.%lld", (long long)i);
        sizes->window = window_of(sizes->sizes, sizes->traits, i, input);
        sizes->sparse = sizes->traits->moe && ce_moe_is_sparse(sizes->sizes, i);
        sizes->rope = &ropes[is_local(sizes->sizes, sizes->traits, i, input)];
        cs_model_add(model, &block_kind, name, sizes);
    }
}

/* Returns the smallest inner width of the feed-forwards and experts of all layers. */
static int64_t narrowest(const ce_llama_sizes *s)
{
    int64_t expert = s->experts > 0 && s->expert_inner > 0 ? s->expert_inner : s->inner;
    int64_t shared = s->experts > 0 && s->shared_inner > 0 ? s->shared_inner : expert;
    int64_t narrow = expert < shared ? expert : shared;
    return narrow < s->inner ? narrow : s->inner;
}

cs_status ce_llama_build(cs_model **model, ce_model_facts *facts, const ce_family_input *input,
                         const ce_llama_traits *traits)
{
    ce_llama_sizes s = *(const ce_llama_sizes *)input->settings;
    block_sizes sizes = { .sizes = &s, .traits = traits };
    cs_rope_sizes ropes[2];
    fill_sizes(&s, traits, input);
    read_ropes(ropes, &s, traits, input);
    for (int64_t i = 0; i < s.layers; i++)
        window_of(&s, traits, i, input);
    if (traits->moe)
        ce_moe_check(&s, input);
    ce_ends_check_pad(s.padding, input);
    CE_TRY(ce_family_open(model, input, s.width, s.heads, narrowest(&s), s.vocabulary));
    cs_init init = { CS_NORMAL, (float)s.init_std };
    float factor = traits->plus_one ? (float)sqrt((double)s.width) : factor_of(s.embedding);
    ce_ends_first first = { .tokens = "embed_tokens",
                            .wide = { .vocabulary = s.vocabulary, .width = s.width, .init = init, .scale = factor } };
    ce_ends_pad(&first.wide, s.padding);
    cs_unit *embed = cs_model_add(*model, &ce_ends_embedding, "model", &first);
    add_blocks(*model, &sizes, ropes, input);
    ce_ends_last last = { .norm = "model.norm",
                          .kind = CE_ENDS_RMS_NORM,
                          .width = s.width,
                          .vocabulary = s.vocabulary,
                          .epsilon = (float)s.epsilon,
                          .init = init,
                          .owner = s.tied ? embed : NULL,
                          .table = "embed_tokens.weight",
                          .plus_one = traits->plus_one,
                          .scale = s.logits > 0 ? factor_of(1 / s.logits) : 0,
                          .cap = (float)s.logits_cap };
    cs_model_add(*model, &ce_ends_head, "", &last);
    state_facts(facts, &s, &ropes[0]);
    return CS_OK;
}

CE_LLAMA_FAMILY(llama, "LlamaForCausalLM");
CE_LLAMA_FAMILY(mistral, "MistralForCausalLM");
CE_LLAMA_FAMILY(qwen2, "Qwen2ForCausalLM");
CE_LLAMA_FAMILY(qwen3, "Qwen3ForCausalLM");
