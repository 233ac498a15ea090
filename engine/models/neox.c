/* neox.c - models with LayerNorm, rotary positions and a plain feed-forward: GPT-NeoX and Pythia (Black et al. 2022),
 * Falcon (Almazrouei et al. 2023), Phi-1 to Phi-2 (Li et al. 2023) and StarCoder 2 (Lozhkov et al. 2024).
 *
 * Attention and feed-forward may read the same rows (parallel residual). Parameter names and layouts are those of
 * Hugging Face's transformers. */
#include "models/ends.h"
#include "models/family.h"
#include "models/functions.h"
#include "models/rotary.h"
#include "layer/linear.h"
#include "layer/residual.h"
#include "unit/pass.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    int64_t vocabulary, positions, width, inner, layers, heads, keys, head, window;
    /* A number that says which norms a block has. 0: input_layernorm and post_attention_layernorm. 1: input_layernorm
     * only. 2: ln_attn and ln_mlp (only in Falcon). */
    int64_t norms;
    double dropout, embed_dropout, attention_dropout, epsilon, init_std, theta, partial;
    int activation;
    bool tied, bias, mlp_bias, parallel, newer, multi_query;
    int64_t original; /* original_max_position_embeddings; 0 means that it is not given */
    json_t *scaling, *rotary;
    json_t *padding; /* pad_token_id of StarCoder 2; NULL in other families, which have none */
} neox_sizes;

/* The names of a family's parameters. */
typedef struct {
    const char *body, *tokens, *layers, *last_norm, *attention, *out, *up, *down;
    const char *fused; /* name of the one projection to q, k and v; NULL if there are three projections */
    const char *head;  /* name of the head; NULL means lm_head */
    bool head_bias;    /* the head has a bias */
} neox_names;

static const neox_names gpt_neox = { .body = "gpt_neox",
                                     .tokens = "gpt_neox.embed_in.weight",
                                     .layers = "gpt_neox.layers",
                                     .last_norm = "gpt_neox.final_layer_norm",
                                     .attention = "attention",
                                     .out = "dense",
                                     .up = "dense_h_to_4h",
                                     .down = "dense_4h_to_h",
                                     .fused = "query_key_value",
                                     .head = "embed_out" };
static const neox_names falcon = { .body = "transformer",
                                   .tokens = "transformer.word_embeddings.weight",
                                   .layers = "transformer.h",
                                   .last_norm = "transformer.ln_f",
                                   .attention = "self_attention",
                                   .out = "dense",
                                   .up = "dense_h_to_4h",
                                   .down = "dense_4h_to_h",
                                   .fused = "query_key_value" };
static const neox_names starcoder2 = { .body = "model",
                                       .tokens = "model.embed_tokens.weight",
                                       .layers = "model.layers",
                                       .last_norm = "model.norm",
                                       .attention = "self_attn",
                                       .out = "o_proj",
                                       .up = "c_fc",
                                       .down = "c_proj" };

static const neox_names phi = { .body = "model",
                                .tokens = "model.embed_tokens.weight",
                                .layers = "model.layers",
                                .last_norm = "model.final_layernorm",
                                .attention = "self_attn",
                                .out = "dense",
                                .up = "fc1",
                                .down = "fc2",
                                .head_bias = true };

#define AT(field) offsetof(neox_sizes, field)
#define COMMON(type, vocab, max, width_, layers_, heads_, epsilon_name, std, tied_)                                                 \
    CE_ROWS_OF_SIZES(type, vocab, max, width_),                                                                                     \
        CE_ROW("num_hidden_layers", INT, layers, layers_, 1, 1 << 14, NULL, "number of transformer layers"),                        \
        CE_ROW("num_attention_heads", INT, heads, heads_, 1, 1 << 14, NULL,                                                         \
               "number of attention heads; hidden_size must be a multiple of it"),                                                  \
        CE_ROW(epsilon_name, NUMBER, epsilon, "1e-5", 1e-12, 1, NULL,                                                               \
               "epsilon of LayerNorm, added to the variance under the root"),                                                       \
        CE_ROW("initializer_range", NUMBER, init_std, std, 0, 10, NULL,                                                             \
               "standard deviation of the normal distribution from which weights are initialized"),                                 \
        CE_ROW("tie_word_embeddings", BOOL, tied, tied_, 0, 0, NULL,                                                                \
               "true: the output head (lm_head) shares its weights with the token embedding"),                                      \
        CE_ROW(                                                                                                                     \
            "rope_scaling", JSON, scaling, "null", 0, 0, NULL,                                                                      \
            "object that extends RoPE to longer sequences; its key rope_type: default, linear, llama3, yarn, longrope or dynamic"), \
        CE_ROW(                                                                                                                     \
            "original_max_position_embeddings", INT, original, "0", 0, 1 << 24, NULL,                                               \
            "context length in tokens before rope_scaling extended it, for llama3, yarn and longrope; 0: not given"),               \
        CE_ROW("rope_parameters", JSON, rotary, "null", 0, 0, NULL,                                                                 \
               "transformers 5's object with the keys rope_theta and those of rope_scaling")
#define INNER(name, fallback)                                                                                          \
    CE_ROW(name, INT, inner, fallback, 0, 1 << 22, NULL,                                                               \
           "width of the intermediate layer of the feed-forward network (MLP)")
#define FUNCTION(name, fallback)                                                                                       \
    CE_ROW(name, CHOICE, activation, "\"" fallback "\"", 0, 0, CE_FUNCTIONS,                                           \
           "activation function between the two linear layers of the feed-forward")
#define PADDING                                                                                                        \
    CE_ROW("pad_token_id", JSON, padding, "null", 0, 0, NULL,                                                          \
           "id of the padding token, whose embedding gets no gradient, as in transformers; null: none")
#define RATE(name, field, sentence) CE_ROW(name, NUMBER, field, "0", 0, 0.999, NULL, sentence)
#define THETA(name)                                                                                                    \
    CE_ROW(name, NUMBER, theta, "10000", 1, 1e12, NULL, "base of the frequencies of rotary position embeddings (RoPE)")

static const ce_key gpt_neox_keys[] = {
    COMMON("gpt_neox", "50432", "2048", "6144", "44", "64", "layer_norm_eps", "0.02", "false"),
    INNER("intermediate_size", "24576"),
    FUNCTION("hidden_act", "gelu"),
    RATE("attention_dropout", attention_dropout,
         "probability of dropout on the attention probabilities (after the softmax)"),
    RATE("hidden_dropout", dropout,
         "probability of dropout on the embeddings and on the outputs of attention and feed-forward"),
    THETA("rotary_emb_base"),
    CE_ROW("rotary_pct", NUMBER, partial, "0.25", 1e-6, 1, NULL,
           "share of the columns of a head, 0 to 1, to which RoPE is applied"),
    CE_ROW("use_parallel_residual", BOOL, parallel, "true", 0, 0, NULL,
           "true: attention and feed-forward have the same input (parallel residual); false: one after the other"),
    CE_ROW("attention_bias", BOOL, bias, "true", 0, 0, NULL, "true: the linear layers of attention have biases"),
    CE_INERT("rope_theta", "rotary_emb_base is used instead"),
    CE_INERT("attention_probs_dropout_prob", "attention_dropout is used instead"),
    CE_INERT("hidden_dropout_prob", "hidden_dropout is used instead"),
};

static const ce_key falcon_keys[] = {
    COMMON("falcon", "65024", "2048", "4544", "32", "71", "layer_norm_epsilon", "0.02", "true"),
    INNER("ffn_hidden_size", "0"),
    FUNCTION("activation", "gelu"),
    THETA("rope_theta"),
    CE_ROW("num_kv_heads", INT, keys, "0", 0, 1 << 14, NULL,
           "number of key and value heads if new_decoder_architecture is true; null: num_attention_heads"),
    CE_ROW("new_decoder_architecture", BOOL, newer, "false", 0, 0, NULL,
           "true: the block of Falcon 40B and 180B, with grouped-query attention; false: that of Falcon 7B"),
    CE_ROW(
        "num_ln_in_parallel_attn", INT, norms, "0", 0, 2, NULL,
        "if new_decoder_architecture: LayerNorms of a block, 1, or 2 (one for attention, one for feed-forward); null: 2"),
    CE_ROW(
        "multi_query", BOOL, multi_query, "true", 0, 0, NULL,
        "true: all query heads share one key and value head (multi-query attention); without new_decoder_architecture"),
    CE_ROW("parallel_attn", BOOL, parallel, "true", 0, 0, NULL,
           "true: attention and feed-forward have the same input (parallel residual); false: one after the other"),
    CE_ROW("bias", BOOL, bias, "false", 0, 0, NULL, "true: linear layers have biases"),
    CE_REFUSED("alibi", "false", "false", "ALiBi is not implemented"),
    CE_REFUSED("hidden_dropout", "0.0", "0",
               "dropout on the outputs of attention and feed-forward is not implemented for this model_type"),
    CE_REFUSED("attention_dropout", "0.0", "0", "transformers applies no dropout to Falcon's attention probabilities"),
    CE_REFUSED("apply_residual_connection_post_layernorm", "false", "false", "transformers does not use it"),
};

static const ce_key phi_keys[] = {
    COMMON("phi", "51200", "2048", "2048", "24", "32", "layer_norm_eps", "0.02", "false"),
    INNER("intermediate_size", "8192"),
    FUNCTION("hidden_act", "gelu_new"),
    THETA("rope_theta"),
    PADDING,
    CE_ROW("num_key_value_heads", INT, keys, "0", 0, 1 << 14, NULL,
           "number of key and value heads (grouped-query attention); null: num_attention_heads"),
    CE_ROW("partial_rotary_factor", NUMBER, partial, "0.5", 1e-6, 1, NULL,
           "share of the columns of a head, 0 to 1, to which RoPE is applied"),
    RATE("attention_dropout", attention_dropout,
         "probability of dropout on the attention probabilities (after the softmax)"),
    RATE("resid_pdrop", dropout,
         "probability of dropout on the outputs of attention and feed-forward before they are added to the residual"),
    RATE("embd_pdrop", embed_dropout, "probability of dropout on the embeddings"),
    CE_REFUSED("qk_layernorm", "false", "false", "LayerNorms of q and k are not implemented"),
};

static const ce_key starcoder2_keys[] = {
    COMMON("starcoder2", "49152", "4096", "3072", "30", "24", "norm_epsilon", "0.018042", "true"),
    INNER("intermediate_size", "12288"),
    FUNCTION("hidden_act", "gelu_pytorch_tanh"),
    THETA("rope_theta"),
    PADDING,
    CE_ROW("num_key_value_heads", INT, keys, "2", 1, 1 << 14, NULL,
           "number of key and value heads (grouped-query attention); must divide num_attention_heads"),
    CE_ROW("head_dim", INT, head, "0", 0, CS_ROPE_WIDTH, NULL,
           "width of an attention head, an even number; null: hidden_size / num_attention_heads"),
    CE_ROW("sliding_window", INT, window, "0", 0, 1 << 30, NULL,
           "tokens to which a token attends (sliding window); null: all earlier ones"),
    RATE("attention_dropout", attention_dropout,
         "probability of dropout on the attention probabilities (after the softmax)"),
    RATE("residual_dropout", dropout,
         "probability of dropout on the outputs of attention and feed-forward before they are added to the residual"),
    RATE("embedding_dropout", embed_dropout, "probability of dropout on the embeddings"),
    CE_ROW("use_bias", BOOL, bias, "true", 0, 0, NULL, "true: linear layers have biases"),
    CE_INERT("activation_function", "hidden_act is used instead"),
    CE_INERT("layer_norm_epsilon", "norm_epsilon is used instead"),
    CE_INERT("mlp_type", "information for readers; cspeed does not use it"),
    CE_INERT("norm_type", "information for readers; cspeed does not use it"),
    CE_INERT("scale_attn_weights", "transformers does not use it"),
    CE_INERT("scale_attention_softmax_in_fp32", "softmax and sums are always computed in fp32"),
    CE_INERT("attention_softmax_in_fp32", "softmax and sums are always computed in fp32"),
};

/* ---- the block ---- */

typedef struct {
    /* `norm2.weight` is NULL if the feed-forward reads the output of `norm1`, as the attention does. */
    cs_norm norm1, norm2;
    cs_attention attention;
    cs_mlp mlp;
    cs_residual residual1, residual2;
    bool parallel;
    /* Tensor parallelism of a block that is parallel. `joined`: forward adds the results of attention and feed-forward
     * before their one sum over the ranks. In backward, the gradients of the rows that both read are added first if there
     * is one norm; if there are two, the gradients through the norms are added first, which needs all rows (`whole`). */
    bool joined, whole;
} block;

typedef struct {
    const neox_sizes *sizes;
    const neox_names *names;
    const cs_rope_sizes *rope;
} block_sizes;

static void declare_norms(block *b, cs_unit *unit, const neox_sizes *s)
{
    bool two = s->norms == 2;
    cs_norm_declare(&b->norm1, unit, two ? "ln_attn" : "input_layernorm", s->width, (float)s->epsilon);
    if (s->norms != 1)
        cs_norm_declare(&b->norm2, unit, two ? "ln_mlp" : "post_attention_layernorm", s->width, (float)s->epsilon);
}

/* Lets the layers of a parallel block leave their sums over the ranks of tensor parallelism to the block. */
static void join(block *b, cs_unit *unit)
{
    ce_cut_group tp = ce_cut_group_of(unit);
    b->joined = b->parallel && tp.size > 1;
    b->whole = b->joined && b->norm2.weight && !tp.rows;
    if (!b->joined)
        return;
    ce_linear_join(&b->attention.out);
    ce_linear_join(&b->mlp.down);
    if (b->norm2.weight && !b->whole)
        return;
    ce_linear_join(&b->attention.qkv);
    ce_linear_join(&b->mlp.up);
    for (int i = 0; b->whole && i < 4; i++)
        ce_cut_partial((cs_param *[]){ b->norm1.weight, b->norm1.bias, b->norm2.weight, b->norm2.bias }[i]);
}

static void block_declare(cs_unit *unit, const void *sizes)
{
    const block_sizes *given = sizes;
    const neox_sizes *s = given->sizes;
    block *b = cs_unit_self(unit, sizeof *b);
    cs_init init = { CS_NORMAL, (float)s->init_std };
    cs_attention_parts attention = {
        .width = s->width,
        .head = s->head,
        .heads = { .queries = s->heads, .keys = s->keys, .window = s->window },
        .rope = given->rope,
        .bias = s->bias ? CS_BIAS : CS_NO_BIAS,
        .out_bias = s->bias ? CS_BIAS : CS_NO_BIAS,
        .dropout = (float)s->attention_dropout,
        .init = init,
        .fused = given->names->fused,
        .grouped = given->names->fused && s->keys > 1,
        .out = given->names->out,
    };
    cs_mlp_sizes mlp = { .width = s->width,
                         .hidden = s->inner,
                         .init = init,
                         .down_init = init,
                         .function = ce_function_of(s->activation),
                         .up = given->names->up,
                         .down = given->names->down,
                         .layout = CS_OUT_IN,
                         .unbiased = !s->mlp_bias };
    b->parallel = s->parallel;
    declare_norms(b, unit, s);
    cs_attention_declare_parts(&b->attention, unit, given->names->attention, &attention);
    cs_residual_declare(&b->residual1, unit, "attention.residual", (float)s->dropout);
    cs_mlp_declare(&b->mlp, unit, "mlp", &mlp);
    cs_residual_declare(&b->residual2, unit, "mlp.residual", (float)s->dropout);
    join(b, unit);
}

static void block_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    const block *b = cs_unit_self(unit, sizeof *b);
    cs_tensor h = b->joined ? x : cs_pass_like(pass, x), t = cs_norm_forward(&b->norm1, pass, x);
    cs_tensor a = cs_attention_forward(&b->attention, pass, t);
    if (!b->joined)
        cs_residual_forward(&b->residual1, pass, h, x, a);
    if (b->norm2.weight)
        t = cs_norm_forward(&b->norm2, pass, b->parallel ? x : h);
    t = cs_mlp_forward(&b->mlp, pass, t);
    if (b->joined)
        ce_residual_forward_joined(&b->residual1, &b->residual2, pass, y, x, a, t, b->mlp.down.weight);
    else
        cs_residual_forward(&b->residual2, pass, y, h, t);
}

/* Computes the gradients of a block in which the feed-forward follows the attention. */
static void backward_in_turn(const block *b, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    cs_tensor dh = cs_pass_like(pass, dy), t;
    t = cs_residual_backward(&b->residual2, pass, dy);
    t = cs_mlp_backward(&b->mlp, pass, t);
    cs_norm_backward_add(&b->norm2, pass, dh, t, dy);
    t = cs_residual_backward(&b->residual1, pass, dh);
    t = cs_attention_backward(&b->attention, pass, t);
    cs_norm_backward_add(&b->norm1, pass, dx, t, dh);
}

/* Computes the gradients of a block in which attention and feed-forward both read x: dx is the sum of dy and the
 * gradients through both. */
static void backward_parallel(const block *b, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    cs_tensor beside = dy, read = { 0 }, all = b->joined ? ce_pass_gather_rows(pass, ce_linear_factor(pass, dy)) : dy,
              t;
    t = cs_residual_backward(&b->residual2, pass, all);
    t = cs_mlp_backward(&b->mlp, pass, t);
    if (b->whole) {
        beside = cs_norm_backward(&b->norm2, pass, t);
    } else if (b->norm2.weight) {
        beside = cs_pass_like(pass, dy);
        cs_norm_backward_add(&b->norm2, pass, beside, t, dy);
    } else {
        read = t;
    }
    t = cs_residual_backward(&b->residual1, pass, all);
    t = cs_attention_backward(&b->attention, pass, t);
    if (read.data)
        cs_op_add(cs_pass_stream(pass), t, t, read);
    if (read.data && b->joined) {
        ce_pass_partial(pass, t, b->attention.qkv.weight);
        t = ce_pass_sum_rows(pass, t);
    }
    cs_norm_backward_add(&b->norm1, pass, dx, t, beside);
    if (b->whole) {
        ce_pass_partial(pass, dx, b->attention.qkv.weight);
        cs_op_add(cs_pass_stream(pass), dx, ce_pass_sum_rows(pass, dx), dy);
    }
}

static void block_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    const block *b = cs_unit_self(unit, sizeof *b);
    if (b->parallel)
        backward_parallel(b, pass, dy, dx);
    else
        backward_in_turn(b, pass, dy, dx);
}

static const cs_kind block_kind = { "neox block", block_declare, block_forward, block_backward, NULL };

/* ---- models ---- */

static void state_facts(ce_model_facts *facts, const neox_sizes *s, const neox_names *names)
{
    *facts = (ce_model_facts){ .positions = s->positions, .vocabulary = s->vocabulary };
    /* The head is called lm_head in transformers, and embed_out in saved models of GPT-NeoX. */
    if (s->tied || names->head) {
        facts->alias = "lm_head.weight";
        facts->alias_of = s->tied ? names->tokens : "embed_out.weight";
    }
}

static void check_sizes(neox_sizes *s, const ce_family_input *input)
{
    if (s->head == 0 && s->width % s->heads != 0)
        ce_json_fault(input->doc, input->path, "hidden_size %lld is not a multiple of num_attention_heads %lld",
                      (long long)s->width, (long long)s->heads);
    if (s->head == 0)
        s->head = s->width / s->heads;
    if (s->head > CS_ROPE_WIDTH)
        ce_json_fault(input->doc, input->path, "heads are %lld wide: at most %d", (long long)s->head, CS_ROPE_WIDTH);
    if (s->heads % s->keys != 0)
        ce_json_fault(input->doc, input->path, "%lld heads of queries are not a multiple of %lld heads of keys",
                      (long long)s->heads, (long long)s->keys);
}

static cs_status build(cs_model **model, ce_model_facts *facts, const ce_family_input *input, neox_sizes *s,
                       const neox_names *names)
{
    cs_rope_sizes rope;
    check_sizes(s, input);
    ce_rotary_read(&rope,
                   &(ce_rotary_input){ .width = s->head,
                                       .positions = s->positions,
                                       .theta = s->theta,
                                       .scaling = s->scaling,
                                       .parameters = s->rotary,
                                       .partial = s->partial,
                                       .original = s->original },
                   input->doc, input->path);
    ce_ends_check_pad(s->padding, input);
    CE_TRY(ce_family_open(model, input, s->width, s->heads, s->inner, s->vocabulary));
    cs_init init = { CS_NORMAL, (float)s->init_std };
    char tokens[64];
    const char *table = names->tokens + strlen(names->body) + 1;
    snprintf(tokens, sizeof tokens, "%.*s", (int)(strlen(table) - strlen(".weight")), table);
    ce_ends_first first = {
        .tokens = tokens,
        .wide = { .vocabulary = s->vocabulary, .width = s->width, .dropout = (float)s->embed_dropout, .init = init }
    };
    ce_ends_pad(&first.wide, s->padding);
    cs_unit *embed = cs_model_add(*model, &ce_ends_embedding, names->body, &first);
    for (int64_t i = 0; i < s->layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.%lld", names->layers, (long long)i);
        cs_model_add(*model, &block_kind, name, &(block_sizes){ s, names, &rope });
    }
    ce_ends_last last = { .norm = names->last_norm,
                          .kind = CE_LAYER_NORM,
                          .width = s->width,
                          .vocabulary = s->vocabulary,
                          .epsilon = (float)s->epsilon,
                          .init = init,
                          .owner = s->tied ? embed : NULL,
                          .table = table,
                          .head = names->head,
                          .bias = names->head_bias };
    cs_model_add(*model, &ce_ends_head, "", &last);
    state_facts(facts, s, names);
    return CS_OK;
}

static cs_status build_gpt_neox(cs_model **model, ce_model_facts *facts, const ce_family_input *input)
{
    neox_sizes s = *(const neox_sizes *)input->settings;
    s.keys = s.heads;
    s.mlp_bias = true;
    s.embed_dropout = s.dropout;
    return build(model, facts, input, &s, &gpt_neox);
}

static cs_status build_falcon(cs_model **model, ce_model_facts *facts, const ce_family_input *input)
{
    neox_sizes s = *(const neox_sizes *)input->settings;
    s.keys = !s.newer ? s.multi_query ? 1 : s.heads : s.keys ? s.keys : s.heads;
    s.mlp_bias = s.bias;
    s.inner = s.inner ? s.inner : 4 * s.width;
    if (s.newer && !s.parallel)
        ce_json_fault(input->doc, input->path,
                      "not supported: parallel_attn false, because the new decoder architecture is parallel");
    if (!s.newer && s.norms == 2)
        ce_json_fault(input->doc, input->path,
                      "not supported: num_ln_in_parallel_attn 2, because the old decoder architecture has one norm");
    if (s.newer)
        s.norms = s.norms ? s.norms : 2;
    else
        s.norms = s.parallel;
    return build(model, facts, input, &s, &falcon);
}

static cs_status build_starcoder2(cs_model **model, ce_model_facts *facts, const ce_family_input *input)
{
    neox_sizes s = *(const neox_sizes *)input->settings;
    s.mlp_bias = s.bias;
    return build(model, facts, input, &s, &starcoder2);
}

static cs_status build_phi(cs_model **model, ce_model_facts *facts, const ce_family_input *input)
{
    neox_sizes s = *(const neox_sizes *)input->settings;
    s.keys = s.keys ? s.keys : s.heads;
    s.bias = s.mlp_bias = s.parallel = true;
    s.norms = 1;
    if (s.tied)
        ce_json_fault(input->doc, input->path,
                      "not supported: tie_word_embeddings true, because the head of this model_type has a bias");
    return build(model, facts, input, &s, &phi);
}

#define FAMILY(name, class)                                                                                            \
    {                                                                                                                  \
#name, class, CE_KEYS(name##_keys), sizeof(neox_sizes), build_##name                                           \
    }
const ce_family ce_family_gpt_neox = FAMILY(gpt_neox, "GPTNeoXForCausalLM");
const ce_family ce_family_falcon = FAMILY(falcon, "FalconForCausalLM");
const ce_family ce_family_phi = FAMILY(phi, "PhiForCausalLM");
const ce_family ce_family_starcoder2 = FAMILY(starcoder2, "Starcoder2ForCausalLM");
