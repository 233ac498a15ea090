/* llama.c - the Llama family (Touvron et al. 2023): Llama, Mistral, Qwen2 and Qwen3. Rotary positions, RMSNorm,
 * SwiGLU, grouped-query attention. Parameter names and layouts are those of Hugging Face's transformers. */
#include "models/ends.h"
#include "models/family.h"
#include "models/rotary.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    int64_t vocabulary, positions, width, inner, layers, heads, keys, head, window, window_from;
    double dropout, epsilon, init_std, theta;
    int activation;
    bool tied, bias, mlp_bias, windowed;
    json_t *scaling, *rotary, *layer_types;
} llama_sizes;

/* The differences between the models of the family. */
typedef struct {
    bool qkv_bias; /* q, k and v always have biases, and o never has */
    bool normed;   /* q and k pass an RMSNorm for each head */
    int64_t keys;  /* num_key_value_heads if config.json does not give it; 0: num_attention_heads */
    int64_t head;  /* head_dim if config.json does not give it; 0: hidden_size / num_attention_heads */
    enum { NO_WINDOW, WINDOW, WINDOW_IF_ASKED } window;
} traits;

static const traits llama = { 0 };
static const traits mistral = { .keys = 8, .window = WINDOW };
static const traits qwen2 = { .qkv_bias = true, .keys = 32, .window = WINDOW_IF_ASKED };
static const traits qwen3 = { .normed = true, .keys = 32, .head = 128, .window = WINDOW_IF_ASKED };

#define AT(field) offsetof(llama_sizes, field)
#define INERT(name, sentence)                                                                                          \
    {                                                                                                                  \
        name, CS_KEY_INERT, 0, "null", 0, 0, NULL, sentence                                                            \
    }
#define COMMON(type, vocab, inner_width, max)                                                                              \
    { "model_type", CS_KEY_INERT, 0, "\"" type "\"", 0, 0, NULL, "chose this family" },                                    \
        { "vocab_size", CS_KEY_INT, AT(vocabulary), vocab, 1, 1 << 24, NULL, "tokens are 0 .. vocab_size - 1" },           \
        { "max_position_embeddings", CS_KEY_INT, AT(positions), max, 1, 1 << 24, NULL, "longest sequence" },               \
        { "hidden_size", CS_KEY_INT, AT(width), "4096", 1, 1 << 20, NULL, "width of the residual stream" },                \
        { "intermediate_size", CS_KEY_INT, AT(inner), inner_width, 1, 1 << 22, NULL, "width inside the feed-forward" },    \
        { "num_hidden_layers", CS_KEY_INT, AT(layers), "32", 1, 1 << 14, NULL, "blocks" },                                 \
        { "num_attention_heads", CS_KEY_INT, AT(heads), "32", 1, 1 << 14, NULL, "heads of queries" },                      \
        { "num_key_value_heads",                                                                                           \
          CS_KEY_INT,                                                                                                      \
          AT(keys),                                                                                                        \
          "0",                                                                                                             \
          0,                                                                                                               \
          1 << 14,                                                                                                         \
          NULL,                                                                                                            \
          "heads of keys and values; divides num_attention_heads; null: as many" },                                        \
        { "head_dim", CS_KEY_INT,    AT(head), "0",                                                                        \
          0,          CS_ROPE_WIDTH, NULL,     "width of a head, even; null: hidden_size / num_attention_heads" },         \
        { "rms_norm_eps", CS_KEY_NUMBER, AT(epsilon), "1e-6", 1e-12, 1, NULL, "added to the mean square" },                \
        { "initializer_range", CS_KEY_NUMBER, AT(init_std), "0.02", 0, 10, NULL, "deviation of first weights" },           \
        { "attention_dropout", CS_KEY_NUMBER, AT(dropout), "0", 0, 0.999, NULL, "dropout on attention probabilities" },    \
        { "hidden_act", CS_KEY_CHOICE, AT(activation), "\"silu\"", 0, 0, "silu|swish", "silu(gate) * up" },                \
        { "tie_word_embeddings", CS_KEY_BOOL, AT(tied), "false", 0, 0, NULL, "the head is the token table" },              \
        { "rope_theta", CS_KEY_NUMBER, AT(theta), "10000", 1, 1e12, NULL, "base of the rotary frequencies" },              \
        { "rope_scaling", CS_KEY_JSON, AT(scaling), "null", 0, 0, NULL, "type: default, linear, llama3, yarn, dynamic" },  \
        { "rope_parameters", CS_KEY_JSON, AT(rotary), "null", 0, 0, NULL, "rope_theta and rope_scaling in one object" },   \
    {                                                                                                                      \
        "layer_types", CS_KEY_JSON, AT(layer_types), "null", 0, 0, NULL,                                                   \
            "full_attention or sliding_attention for each layer; with a choice (qwen2, qwen3) wins over max_window_layers" \
    }
#define ATTENTION_BIAS                                                                                                 \
    {                                                                                                                  \
        "attention_bias", CS_KEY_BOOL, AT(bias), "false", 0, 0, NULL, "q, k, v and o have biases"                      \
    }
#define SLIDING                                                                                                        \
    { "use_sliding_window", CS_KEY_BOOL, AT(windowed), "false", 0, 0, NULL, "later layers have a sliding window" },    \
        { "sliding_window", CS_KEY_INT, AT(window), "4096", 1, 1 << 30, NULL, "rows a windowed layer sees" },          \
    {                                                                                                                  \
        "max_window_layers", CS_KEY_INT, AT(window_from), "28", 0, 1 << 14, NULL, "layers before have no window"       \
    }

static const ce_key llama_keys[] = {
    COMMON("llama", "32000", "11008", "2048"),
    ATTENTION_BIAS,
    { "mlp_bias", CS_KEY_BOOL, AT(mlp_bias), "false", 0, 0, NULL, "the feed-forward has biases" },
    { "pretraining_tp", CS_KEY_REFUSED, 0, "1", 0, 0, "1", "it asks for another order of sums" },
    { "rope_interleaved", CS_KEY_REFUSED, 0, "false", 0, 0, "false", "the order of rotary pairs is Hugging Face's" },
    INERT("is_llama_config", "a note"),
};
static const ce_key mistral_keys[] = {
    COMMON("mistral", "32000", "14336", "131072"),
    { "sliding_window", CS_KEY_INT, AT(window), "0", 0, 1 << 30, NULL, "rows a row sees; missing: 4096; null: all" },
};
static const ce_key qwen2_keys[] = {
    COMMON("qwen2", "151936", "22016", "32768"),
    SLIDING,
    INERT("attention_bias", "q, k and v have biases always, and o never"),
};
static const ce_key qwen3_keys[] = { COMMON("qwen3", "151936", "22016", "32768"), SLIDING, ATTENTION_BIAS };

/* ---- the block ---- */

typedef struct {
    cs_rms norm1, norm2;
    cs_attention attention;
    cs_gated mlp;
} block;

typedef struct {
    const llama_sizes *sizes;
    const traits *model_traits;
    cs_rope_sizes rope;
    int64_t window;
} block_sizes;

static void block_declare(cs_unit *unit, const void *sizes)
{
    const block_sizes *given = sizes;
    const llama_sizes *s = given->sizes;
    block *b = cs_unit_self(unit, sizeof *b);
    cs_init init = { CS_NORMAL, (float)s->init_std };
    cs_attention_parts attention = {
        .width = s->width,
        .head = s->head,
        .heads = { .queries = s->heads, .keys = s->keys, .window = given->window },
        .rope = &given->rope,
        .bias = s->bias || given->model_traits->qkv_bias ? CS_BIAS : CS_NO_BIAS,
        .out_bias = s->bias ? CS_BIAS : CS_NO_BIAS,
        .normed = given->model_traits->normed,
        .epsilon = (float)s->epsilon,
        .dropout = (float)s->dropout,
        .init = init,
    };
    cs_gated_sizes mlp = { s->width, s->inner, s->mlp_bias ? CS_BIAS : CS_NO_BIAS, init };
    cs_rms_declare(&b->norm1, unit, "input_layernorm", s->width, (float)s->epsilon);
    cs_attention_declare_parts(&b->attention, unit, "self_attn", &attention);
    cs_rms_declare(&b->norm2, unit, "post_attention_layernorm", s->width, (float)s->epsilon);
    cs_gated_declare(&b->mlp, unit, "mlp", &mlp);
}

static void block_forward(cs_unit *unit, cs_pass *pass, cs_tensor x, cs_tensor y)
{
    const block *b = cs_unit_self(unit, sizeof *b);
    cs_tensor h = cs_pass_like(pass, x), t;
    t = cs_rms_forward(&b->norm1, pass, x);
    t = cs_attention_forward(&b->attention, pass, t);
    t = cs_rms_forward_add(&b->norm2, pass, &(cs_addition){ .sum = h, .a = x, .b = t });
    t = cs_gated_forward(&b->mlp, pass, t);
    cs_op_add(cs_pass_stream(pass), y, h, t);
}

static void block_backward(cs_unit *unit, cs_pass *pass, cs_tensor dy, cs_tensor dx)
{
    const block *b = cs_unit_self(unit, sizeof *b);
    cs_tensor dh = cs_pass_like(pass, dy), t;
    t = cs_gated_backward(&b->mlp, pass, dy);
    cs_rms_backward_add(&b->norm2, pass, dh, t, dy);
    t = cs_attention_backward(&b->attention, pass, dh);
    cs_rms_backward_add(&b->norm1, pass, dx, t, dh);
}

static const cs_kind block_kind = { "llama block", block_declare, block_forward, block_backward, NULL };

/* ---- sizes ---- */

/* Fills in what config.json leaves out or gives as null. */
static void fill_sizes(llama_sizes *s, const traits *model_traits, const ce_family_input *input)
{
    bool keys_said = json_object_get(input->config, "num_key_value_heads") != NULL;
    if (s->keys == 0)
        s->keys = !keys_said && model_traits->keys > 0 ? model_traits->keys : s->heads;
    if (s->head == 0)
        s->head = model_traits->head > 0 ? model_traits->head : s->width / s->heads;
    if (model_traits->window == WINDOW && !json_object_get(input->config, "sliding_window"))
        s->window = 4096;
    if (model_traits->window == WINDOW_IF_ASKED && json_is_null(json_object_get(input->config, "sliding_window")))
        s->window = 0;
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

/* Returns the type that layer_types gives for layer i, or NULL if it does not. */
static const char *type_of(const llama_sizes *s, int64_t i, const ce_family_input *input)
{
    const char *type = json_string_value(json_array_get(s->layer_types, (size_t)i));
    if (s->layer_types && (!type || (strcmp(type, "full_attention") != 0 && strcmp(type, "sliding_attention") != 0)))
        ce_json_fault(input->doc, input->path, "layer_types[%lld] is neither full_attention nor sliding_attention",
                      (long long)i);
    return type;
}

/* Returns the attention window of layer i, or 0 if it has none. If all layers of a model have the same type,
 * layer_types may only repeat that type. */
static int64_t window_of(const llama_sizes *s, const traits *model_traits, int64_t i, const ce_family_input *input)
{
    const char *type = type_of(s, i, input);
    bool wanted = type ? strcmp(type, "sliding_attention") == 0 : i >= s->window_from;
    if (model_traits->window == WINDOW_IF_ASKED)
        return s->windowed && wanted ? s->window : 0;
    if (type && wanted != (s->window > 0))
        ce_json_fault(input->doc, input->path,
                      "not supported: layer_types[%lld] \"%s\", because all layers of this model_type %s", (long long)i,
                      type, s->window > 0 ? "see sliding_window rows" : "see all rows before them");
    return s->window;
}

static cs_status build(cs_model **model, ce_model_facts *facts, const ce_family_input *input,
                       const traits *model_traits)
{
    llama_sizes s = *(const llama_sizes *)input->settings;
    block_sizes sizes = { .sizes = &s, .model_traits = model_traits };
    fill_sizes(&s, model_traits, input);
    ce_rotary_read(&sizes.rope, &(ce_rotary_input){ s.head, s.positions, s.theta, s.scaling, s.rotary }, input->doc,
                   input->path);
    for (int64_t i = 0; i < s.layers; i++)
        window_of(&s, model_traits, i, input);
    CS_TRY(ce_json_verdict(input->doc));
    CS_TRY(cs_model_new(model, s.width));
    cs_init init = { CS_NORMAL, (float)s.init_std };
    ce_ends_first first = { "embed_tokens", NULL, { s.vocabulary, 0, s.width, 0, init } };
    cs_unit *embed = cs_model_add(*model, &ce_ends_embedding, "model", &first);
    for (int64_t i = 0; i < s.layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.%lld", (long long)i);
        sizes.window = window_of(&s, model_traits, i, input);
        cs_model_add(*model, &block_kind, name, &sizes);
    }
    ce_ends_last last = { "model.norm",          CS_ENDS_RMS_NORM,     s.width, s.vocabulary, (float)s.epsilon, init,
                          s.tied ? embed : NULL, "embed_tokens.weight" };
    cs_model_add(*model, &ce_ends_head, "", &last);
    *facts = (ce_model_facts){ .positions = s.positions, .vocabulary = s.vocabulary };
    if (s.tied) {
        facts->alias = "lm_head.weight";
        facts->alias_of = "model.embed_tokens.weight";
    }
    return CS_OK;
}

static cs_status build_llama(cs_model **model, ce_model_facts *facts, const ce_family_input *input)
{
    return build(model, facts, input, &llama);
}

static cs_status build_mistral(cs_model **model, ce_model_facts *facts, const ce_family_input *input)
{
    return build(model, facts, input, &mistral);
}

static cs_status build_qwen2(cs_model **model, ce_model_facts *facts, const ce_family_input *input)
{
    return build(model, facts, input, &qwen2);
}

static cs_status build_qwen3(cs_model **model, ce_model_facts *facts, const ce_family_input *input)
{
    return build(model, facts, input, &qwen3);
}

#define FAMILY(name, class)                                                                                            \
    {                                                                                                                  \
#name, class, CS_KEYS(name##_keys), sizeof(llama_sizes), build_##name                                          \
    }
const ce_family ce_family_llama = FAMILY(llama, "LlamaForCausalLM");
const ce_family ce_family_mistral = FAMILY(mistral, "MistralForCausalLM");
const ce_family ce_family_qwen2 = FAMILY(qwen2, "Qwen2ForCausalLM");
const ce_family ce_family_qwen3 = FAMILY(qwen3, "Qwen3ForCausalLM");
