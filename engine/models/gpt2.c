/* gpt2.c - GPT-2 (Radford et al. 2019): learned positions, pre-norm, GELU, tied head. Parameter names and layouts
 * are those of Hugging Face's transformers. */
#include "models/ends.h"
#include "models/family.h"
#include "models/functions.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

typedef struct {
    int64_t vocabulary, positions, width, layers, heads, inner;
    double resid_dropout, embed_dropout, attention_dropout, epsilon, init_std;
    int activation;
    bool tied, scaled, scaled_by_layer;
} gpt2_sizes;

/* The settings of the block with the number `layer`, which counts from 0. */
typedef struct {
    const gpt2_sizes *sizes;
    int64_t layer;
} block_sizes;

#define AT(field) offsetof(gpt2_sizes, field)
#define SUMMARY(name)                                                                                                  \
    CE_INERT("summary_" name, "it configures a classification head, and the models here have a language-model head")
static const ce_key keys[] = {
    { "model_type", CE_KEY_INERT, 0, "\"gpt2\"", 0, 0, NULL, "it selects the model family" },
    CE_ROW("vocab_size", INT, vocabulary, "50257", 1, 1 << 24, NULL,
           "number of tokens in the vocabulary; token ids are 0 to vocab_size - 1"),
    CE_ROW("n_positions", INT, positions, "1024", 1, 1 << 20, NULL, "maximum length of a sequence in tokens"),
    CE_ROW("n_embd", INT, width, "768", 1, 1 << 20, NULL, "width of the hidden states (elements for each token)"),
    CE_ROW("n_layer", INT, layers, "12", 1, 1 << 14, NULL, "number of transformer layers"),
    CE_ROW("n_head", INT, heads, "12", 1, 1 << 14, NULL, "number of attention heads; n_embd must be a multiple of it"),
    CE_ROW("n_inner", INT, inner, "0", 0, 1 << 22, NULL,
           "width of the intermediate layer of the feed-forward network (MLP); null or 0: 4 x n_embd"),
    CE_ROW("resid_pdrop", NUMBER, resid_dropout, "0.1", 0, 0.999, NULL,
           "probability of dropout on the outputs of attention and feed-forward before they are added to the residual"),
    CE_ROW("embd_pdrop", NUMBER, embed_dropout, "0.1", 0, 0.999, NULL, "probability of dropout on the embeddings"),
    CE_ROW("attn_pdrop", NUMBER, attention_dropout, "0.1", 0, 0.999, NULL,
           "probability of dropout on the attention probabilities (after the softmax)"),
    CE_ROW("layer_norm_epsilon", NUMBER, epsilon, "1e-5", 1e-12, 1, NULL,
           "epsilon of LayerNorm, added to the variance under the root"),
    CE_ROW("initializer_range", NUMBER, init_std, "0.02", 0, 10, NULL,
           "standard deviation of the normal distribution from which weights are initialized"),
    CE_ROW("activation_function", CHOICE, activation, "\"gelu_new\"", 0, 0, CE_FUNCTIONS,
           "activation function between the two linear layers of the feed-forward"),
    CE_ROW("tie_word_embeddings", BOOL, tied, "true", 0, 0, NULL,
           "true: the output head (lm_head) shares its weights with the token embedding"),
    { "n_ctx", CE_KEY_INERT, 0, "1024", 0, 0, NULL, "n_positions is used instead" },
    SUMMARY("type"),
    SUMMARY("use_proj"),
    SUMMARY("activation"),
    SUMMARY("proj_to_labels"),
    SUMMARY("first_dropout"),
    CE_ROW("scale_attn_weights", BOOL, scaled, "true", 0, 0, NULL,
           "true: attention scores are multiplied by 1/sqrt(width of a head)"),
    CE_ROW("scale_attn_by_inverse_layer_idx", BOOL, scaled_by_layer, "false", 0, 0, NULL,
           "true: the attention scores of layer i, counted from 0, are divided by i + 1"),
    CE_INERT("reorder_and_upcast_attn", "softmax and sums are always computed in fp32"),
};

/* ---- the block ---- */

typedef struct {
    cs_norm norm1, norm2;
    cs_attention attention;
    cs_mlp mlp;
    cs_residual residual1, residual2;
} block;

/* Returns the factor of the attention scores. 0 means 1/sqrt(head size). */
static float scale_of(const gpt2_sizes *s, int64_t layer)
{
    double scale = s->scaled ? 1 / sqrt((double)s->width / (double)s->heads) : 1;
    if (s->scaled && !s->scaled_by_layer)
        return 0;
    return (float)(s->scaled_by_layer ? scale / (double)(layer + 1) : scale);
}

static void block_declare(cs_unit *unit, const void *sizes)
{
    const block_sizes *given = sizes;
    const gpt2_sizes *s = given->sizes;
    block *b = cs_unit_self(unit, sizeof *b);
    cs_init init = { CS_NORMAL, (float)s->init_std };
    cs_init out = { CS_NORMAL, (float)(s->init_std / sqrt(2.0 * (double)s->layers)) };
    float scale = scale_of(s, given->layer);
    cs_attention_sizes attention = { s->width, s->heads, (float)s->attention_dropout, init, out, scale };
    cs_mlp_sizes mlp = { .width = s->width,
                         .hidden = s->inner ? s->inner : 4 * s->width,
                         .init = init,
                         .down_init = out,
                         .function = ce_function_of(s->activation) };
    cs_norm_declare(&b->norm1, unit, "ln_1", s->width, (float)s->epsilon);
    cs_attention_declare(&b->attention, unit, "attn", &attention);
    cs_residual_declare(&b->residual1, unit, "attn.resid", (float)s->resid_dropout);
    cs_norm_declare(&b->norm2, unit, "ln_2", s->width, (float)s->epsilon);
    cs_mlp_declare(&b->mlp, unit, "mlp", &mlp);
    cs_residual_declare(&b->residual2, unit, "mlp.resid", (float)s->resid_dropout);
}

static void block_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    const block *b = cs_unit_self(unit, sizeof *b);
    cs_tensor h = cs_pass_like(pass, x), t;
    t = cs_norm_forward(&b->norm1, pass, x);
    t = cs_attention_forward(&b->attention, pass, t);
    cs_addition sum = cs_residual_addition(&b->residual1, pass, h, x, t);
    t = cs_norm_forward_add(&b->norm2, pass, &sum);
    t = cs_mlp_forward(&b->mlp, pass, t);
    cs_residual_forward(&b->residual2, pass, y, h, t);
}

static void block_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    const block *b = cs_unit_self(unit, sizeof *b);
    cs_tensor dh = cs_pass_like(pass, dy), t;
    t = cs_residual_backward(&b->residual2, pass, dy);
    t = cs_mlp_backward(&b->mlp, pass, t);
    cs_norm_backward_add(&b->norm2, pass, dh, t, dy);
    t = cs_residual_backward(&b->residual1, pass, dh);
    t = cs_attention_backward(&b->attention, pass, t);
    cs_norm_backward_add(&b->norm1, pass, dx, t, dh);
}

static const cs_kind block_kind = { "gpt2 block", block_declare, block_forward, block_backward, NULL };

static cs_status build(cs_model **model, ce_model_facts *facts, const ce_family_input *input)
{
    const gpt2_sizes *s = input->settings;
    if (s->width % s->heads != 0) {
        ce_json_fault(input->doc, input->path, "n_embd %lld is not a multiple of n_head %lld", (long long)s->width,
                      (long long)s->heads);
        return ce_json_verdict(input->doc);
    }
    CE_TRY(ce_family_open(model, input, s->width, s->heads, s->inner ? s->inner : 4 * s->width, s->vocabulary));
    cs_init init = { CS_NORMAL, (float)s->init_std };
    ce_ends_first first = { "wte",
                            "wpe",
                            { .vocabulary = s->vocabulary,
                              .positions = s->positions,
                              .width = s->width,
                              .dropout = (float)s->embed_dropout,
                              .init = init } };
    cs_unit *embed = cs_model_add(*model, &ce_ends_embedding, "transformer", &first);
    for (int64_t i = 0; i < s->layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "transformer.h.%lld", (long long)i);
        cs_model_add(*model, &block_kind, name, &(block_sizes){ s, i });
    }
    ce_ends_last last = { .norm = "transformer.ln_f",
                          .kind = CE_LAYER_NORM,
                          .width = s->width,
                          .vocabulary = s->vocabulary,
                          .epsilon = (float)s->epsilon,
                          .init = init,
                          .owner = s->tied ? embed : NULL,
                          .table = "wte.weight" };
    cs_model_add(*model, &ce_ends_head, "", &last);
    *facts = (ce_model_facts){ .positions = s->positions, .vocabulary = s->vocabulary };
    if (s->tied) {
        facts->alias = "lm_head.weight";
        facts->alias_of = "transformer.wte.weight";
    }
    return CS_OK;
}

const ce_family ce_family_gpt2 = { "gpt2", "GPT2LMHeadModel", CE_KEYS(keys), sizeof(gpt2_sizes), build };
