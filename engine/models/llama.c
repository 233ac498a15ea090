/* llama.c - models built of Llama's block (Touvron et al. 2023): Llama, Mistral, Qwen2 and Qwen3, and those of gemma.c
 * and variants.c.
 *
 * The block has rotary positions, RMSNorm, SwiGLU and grouped-query attention. Parameter names and layouts are those of
 * Hugging Face's transformers. */
#include "models/llama.h"
#include "models/ends.h"
#include "models/layers.h"
#include "models/rotary.h"
#include "layer/linear.h"
#include "layer/residual.h"
#include "unit/pass.h"

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
    CE_LLAMA_MLP_BIAS,
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
    ce_any_norm before[2], after[2]; /* norms before and after attention [0] and feed-forward [1] */
    cs_attention attention;
    cs_gated mlp;
    cs_mlp plain;       /* a feed-forward without gate, which replaces `mlp` if it is declared */
    cs_experts experts; /* experts, which replace `mlp` unless the number of experts is 0 */
    cs_residual residual[2];
    float factor;  /* factor of the outputs of attention and feed-forward; 0 means none */
    bool parallel; /* Attention and feed-forward read the same rows. */
    bool joined;   /* Tensor parallelism: and their results, and their gradients, have one sum over the ranks. */
} block;

typedef struct {
    const ce_llama_sizes *sizes;
    const ce_llama_traits *traits;
    const cs_rope_sizes *rope;
    int64_t window;
    bool sparse; /* True if the block has experts. */
} block_sizes;

static const ce_llama_norms usual_norms = { .before = { "input_layernorm", "post_attention_layernorm" } };

static void declare_norm(ce_any_norm *norm, cs_unit *unit, const char *name, const block_sizes *given)
{
    ce_any_norm_declare(norm, unit, given->traits->norm, name, given->sizes->width, (float)given->sizes->epsilon);
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
        .out_bias = s->out_bias || (s->bias && !traits->qkv_choice) ? CS_BIAS : CS_NO_BIAS,
        .normed = traits->normed || traits->whole,
        .epsilon = (float)s->epsilon,
        .dropout = (float)s->dropout,
        .init = { CS_NORMAL, (float)s->init_std },
        .sinks = traits->sinks,
        .norm_whole = traits->whole,
        .norm_late = traits->late,
        .q_norm = traits->late ? "query_layernorm" : NULL,
        .k_norm = traits->late ? "key_layernorm" : NULL,
        .norm_plus_one = traits->norm == CE_RMS_NORM_PLUS_ONE,
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
                               .down = traits->moe->down,
                               .router = traits->moe->router,
                               .biased = traits->moe->biased,
                               .clamp = { (float)s->clamp_alpha, (float)s->clamp_limit } };
    cs_experts_declare(&b->experts, unit, traits->moe->block, &sizes);
}

static void declare_feed(block *b, cs_unit *unit, const block_sizes *given)
{
    const ce_llama_sizes *s = given->sizes;
    cs_init init = { CS_NORMAL, (float)s->init_std };
    cs_gated_sizes mlp = { s->width,
                           s->inner,
                           s->mlp_bias ? CS_BIAS : CS_NO_BIAS,
                           init,
                           ce_function_of(s->activation),
                           given->traits->fused_mlp ? "gate_up_proj" : NULL };
    cs_mlp_sizes plain = { .width = s->width,
                           .hidden = s->inner,
                           .init = init,
                           .down_init = init,
                           .function = ce_function_of(s->activation),
                           .up = "up_proj",
                           .down = "down_proj",
                           .layout = CS_OUT_IN,
                           .unbiased = !s->mlp_bias };
    if (given->sparse)
        declare_experts(b, unit, given);
    else if (given->traits->plain)
        cs_mlp_declare(&b->plain, unit, "mlp", &plain);
    else
        cs_gated_declare(&b->mlp, unit, "mlp", &mlp);
}

/* Lets the layers of a parallel block leave their sums over the ranks of tensor parallelism to the block. */
static void join(block *b, cs_unit *unit)
{
    cs_linear *layers[] = { &b->attention.qkv, &b->attention.out, &b->mlp.gate_up,
                            &b->mlp.down,      &b->plain.up,      &b->plain.down };
    b->joined = b->parallel && ce_cut_group_of(unit).size > 1 && b->experts.count == 0;
    for (size_t i = 0; b->joined && i < sizeof layers / sizeof *layers; i++)
        ce_linear_join(layers[i]);
}

static void block_declare(cs_unit *unit, const void *sizes)
{
    const block_sizes *given = sizes;
    const ce_llama_sizes *s = given->sizes;
    const ce_llama_norms *norms = given->traits->norms ? given->traits->norms : &usual_norms;
    block *b = cs_unit_self(unit, sizeof *b);
    b->factor = factor_of(s->residual);
    b->parallel = given->traits->parallel;
    declare_norm(&b->before[0], unit, norms->before[0], given);
    declare_attention(&b->attention, unit, given);
    declare_norm(&b->after[0], unit, norms->after[0], given);
    declare_norm(&b->before[1], unit, norms->before[1], given);
    declare_feed(b, unit, given);
    declare_norm(&b->after[1], unit, norms->after[1], given);
    cs_residual_declare(&b->residual[0], unit, "self_attn.residual", (float)s->residual_dropout);
    cs_residual_declare(&b->residual[1], unit, "mlp.residual", (float)s->residual_dropout);
    join(b, unit);
}

/* Returns what is added to the residual stream before dropout. t is the output of attention (which = 0) or of
 * feed-forward (which = 1). */
static cs_tensor added(const block *b, cs_pass *pass, int which, cs_tensor t)
{
    if (ce_any_norm_exists(&b->after[which]))
        t = ce_any_norm_forward(&b->after[which], pass, t);
    if (b->factor > 0)
        cs_op_scale(cs_pass_stream(pass), t, t, b->factor);
    return t;
}

static cs_tensor added_backward(const block *b, cs_pass *pass, int which, cs_tensor dy)
{
    dy = cs_residual_backward(&b->residual[which], pass, dy);
    if (b->factor > 0) {
        cs_tensor scaled = cs_pass_like(pass, dy);
        cs_op_scale(cs_pass_stream(pass), scaled, dy, b->factor);
        dy = scaled;
    }
    return ce_any_norm_exists(&b->after[which]) ? ce_any_norm_backward(&b->after[which], pass, dy) : dy;
}

static cs_tensor feed_forward(const block *b, cs_pass *pass, cs_tensor x)
{
    if (b->experts.count > 0)
        return cs_experts_forward(&b->experts, pass, x);
    return b->plain.up.weight ? cs_mlp_forward(&b->plain, pass, x) : cs_gated_forward(&b->mlp, pass, x);
}

static cs_tensor feed_backward(const block *b, cs_pass *pass, cs_tensor dy)
{
    if (b->experts.count > 0)
        return cs_experts_backward(&b->experts, pass, dy);
    return b->plain.up.weight ? cs_mlp_backward(&b->plain, pass, dy) : cs_gated_backward(&b->mlp, pass, dy);
}

static void block_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    const block *b = cs_unit_self(unit, sizeof *b);
    cs_tensor h = b->joined ? x : cs_pass_like(pass, x), t = x;
    if (ce_any_norm_exists(&b->before[0]))
        t = ce_any_norm_forward(&b->before[0], pass, x);
    cs_tensor a = added(b, pass, 0, cs_attention_forward(&b->attention, pass, t));
    if (b->parallel && !b->joined) {
        cs_residual_forward(&b->residual[0], pass, h, x, a);
    } else if (!b->parallel) {
        cs_addition sum = cs_residual_addition(&b->residual[0], pass, h, x, a);
        t = ce_any_norm_forward_add(&b->before[1], pass, &sum);
    }
    t = added(b, pass, 1, feed_forward(b, pass, t));
    if (b->joined)
        ce_residual_forward_joined(&b->residual[0], &b->residual[1], pass, y, x, a, t, b->attention.out.weight);
    else
        cs_residual_forward(&b->residual[1], pass, y, h, t);
}

static void block_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    const block *b = cs_unit_self(unit, sizeof *b);
    cs_tensor all = b->joined ? ce_pass_gather_rows(pass, ce_linear_factor(pass, dy)) : dy;
    cs_tensor dh = dy, read = feed_backward(b, pass, added_backward(b, pass, 1, all));
    if (!b->parallel) {
        dh = cs_pass_like(pass, dy);
        ce_any_norm_backward_add(&b->before[1], pass, dh, read, dy);
    }
    cs_tensor t = cs_attention_backward(&b->attention, pass, added_backward(b, pass, 0, b->parallel ? all : dh));
    if (b->parallel)
        cs_op_add(cs_pass_stream(pass), t, t, read);
    if (b->joined) {
        ce_pass_partial(pass, t, b->attention.qkv.weight);
        t = ce_pass_sum_rows(pass, t);
    }
    ce_any_norm_backward_add(&b->before[0], pass, dx, t, dh);
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
    if (s->period == 0)
        s->period = traits->period;
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

static void state_facts(ce_model_facts *facts, const ce_llama_sizes *s, const ce_llama_traits *traits,
                        const cs_rope_sizes *rope)
{
    *facts = (ce_model_facts){ .positions = s->positions, .vocabulary = s->vocabulary };
    if (rope->kind == CS_ROPE_LONG && (double)s->positions > rope->original)
        facts->context = (int64_t)rope->original;
    if (traits->scaled_queries && (double)s->positions > rope->original)
        facts->positions = (int64_t)rope->original;
    if (s->tied) {
        facts->alias = "lm_head.weight";
        facts->alias_of = "model.embed_tokens.weight";
    }
}

static void add_blocks(cs_model *model, block_sizes *sizes, const cs_rope_sizes ropes[CE_LAYERS_ROPES],
                       const ce_family_input *input)
{
    for (int64_t i = 0; i < sizes->sizes->layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.%lld", (long long)i);
        sizes->window = ce_layers_window(sizes->sizes, sizes->traits, i, input);
        sizes->sparse = sizes->traits->moe && ce_moe_is_sparse(sizes->sizes, i);
        sizes->rope = &ropes[ce_layers_rope(sizes->sizes, sizes->traits, i, input)];
        cs_model_add(model, &block_kind, name, sizes);
    }
}

/* Returns the smallest inner width of the feed-forwards, experts and shared experts; 0 is the width of none. */
static int64_t narrowest(const ce_llama_sizes *s)
{
    int64_t narrow = s->inner;
    if (s->expert_inner > 0 && s->expert_inner < narrow)
        narrow = s->expert_inner;
    return s->shared_inner > 0 && s->shared_inner < narrow ? s->shared_inner : narrow;
}

cs_status ce_llama_build(cs_model **model, ce_model_facts *facts, const ce_family_input *input,
                         const ce_llama_traits *traits)
{
    return ce_llama_build_sizes(model, facts, input, input->settings, traits);
}

cs_status ce_llama_build_sizes(cs_model **model, ce_model_facts *facts, const ce_family_input *input,
                               const ce_llama_sizes *given, const ce_llama_traits *traits)
{
    ce_llama_sizes s = *given;
    block_sizes sizes = { .sizes = &s, .traits = traits };
    cs_rope_sizes ropes[CE_LAYERS_ROPES] = { 0 };
    fill_sizes(&s, traits, input);
    ce_layers_read_ropes(ropes, &s, traits, input);
    for (int64_t i = 0; i < s.layers; i++)
        ce_layers_window(&s, traits, i, input);
    if (traits->moe)
        ce_moe_check(&s, input);
    ce_ends_check_pad(s.padding, input);
    CE_TRY(ce_family_open(model, input, s.width, s.heads, narrowest(&s), s.vocabulary));
    cs_init init = { CS_NORMAL, (float)s.init_std };
    float factor = traits->large ? (float)sqrt((double)s.width) : factor_of(s.embedding);
    ce_ends_first first = { .tokens = "embed_tokens",
                            .wide = { .vocabulary = s.vocabulary, .width = s.width, .init = init, .scale = factor } };
    ce_ends_pad(&first.wide, s.padding);
    cs_unit *embed = cs_model_add(*model, &ce_ends_embedding, "model", &first);
    add_blocks(*model, &sizes, ropes, input);
    ce_ends_last last = { .norm = "model.norm",
                          .kind = traits->norm,
                          .width = s.width,
                          .vocabulary = s.vocabulary,
                          .epsilon = (float)s.epsilon,
                          .init = init,
                          .owner = s.tied ? embed : NULL,
                          .table = "embed_tokens.weight",
                          .scale = s.logits > 0 ? factor_of(1 / s.logits) : 0,
                          .cap = (float)s.logits_cap };
    cs_model_add(*model, &ce_ends_head, "", &last);
    state_facts(facts, &s, traits, &ropes[CE_LAYERS_FULL]);
    return CS_OK;
}

CE_LLAMA_FAMILY(llama, "LlamaForCausalLM");
CE_LLAMA_FAMILY(mistral, "MistralForCausalLM");
CE_LLAMA_FAMILY(qwen2, "Qwen2ForCausalLM");
CE_LLAMA_FAMILY(qwen3, "Qwen3ForCausalLM");
