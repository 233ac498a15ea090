/* huggingface_names.c - derives from a config.json the tensors of the model, with names and shapes as in transformers.
 *
 * The models themselves (models/) declare the same tensors, but they depend on every kernel, which a command that only
 * moves files does not need. test_models checks that both agree. */
#include "interchange/huggingface.h"
#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SIZE = 1 << 24, MOST_LAYERS = 1 << 14 };

typedef enum { NONE, VOCABULARY, POSITIONS, WIDTH, WIDTH_3, INNER, QUERIES, KEYS, HEAD, SIZES } size;
typedef enum { ALWAYS, UNTIED, INPUT_BIAS, OUTPUT_BIAS, MLP_BIAS, NORMED, CONDITIONS } condition;

typedef struct {
    const char *name; /* '#' is replaced by the layer's number, giving one tensor for each layer */
    size rows, columns;
    condition only;
} tensor_row;

static const tensor_row gpt2_rows[] = {
    { "transformer.wte.weight", VOCABULARY, WIDTH, ALWAYS },
    { "transformer.wpe.weight", POSITIONS, WIDTH, ALWAYS },
    { "transformer.h.#.ln_1.weight", WIDTH, NONE, ALWAYS },
    { "transformer.h.#.ln_1.bias", WIDTH, NONE, ALWAYS },
    { "transformer.h.#.attn.c_attn.weight", WIDTH, WIDTH_3, ALWAYS },
    { "transformer.h.#.attn.c_attn.bias", WIDTH_3, NONE, ALWAYS },
    { "transformer.h.#.attn.c_proj.weight", WIDTH, WIDTH, ALWAYS },
    { "transformer.h.#.attn.c_proj.bias", WIDTH, NONE, ALWAYS },
    { "transformer.h.#.ln_2.weight", WIDTH, NONE, ALWAYS },
    { "transformer.h.#.ln_2.bias", WIDTH, NONE, ALWAYS },
    { "transformer.h.#.mlp.c_fc.weight", WIDTH, INNER, ALWAYS },
    { "transformer.h.#.mlp.c_fc.bias", INNER, NONE, ALWAYS },
    { "transformer.h.#.mlp.c_proj.weight", INNER, WIDTH, ALWAYS },
    { "transformer.h.#.mlp.c_proj.bias", WIDTH, NONE, ALWAYS },
    { "transformer.ln_f.weight", WIDTH, NONE, ALWAYS },
    { "transformer.ln_f.bias", WIDTH, NONE, ALWAYS },
    { "lm_head.weight", VOCABULARY, WIDTH, UNTIED },
};

static const tensor_row llama_rows[] = {
    { "model.embed_tokens.weight", VOCABULARY, WIDTH, ALWAYS },
    { "model.layers.#.input_layernorm.weight", WIDTH, NONE, ALWAYS },
    { "model.layers.#.self_attn.q_proj.weight", QUERIES, WIDTH, ALWAYS },
    { "model.layers.#.self_attn.k_proj.weight", KEYS, WIDTH, ALWAYS },
    { "model.layers.#.self_attn.v_proj.weight", KEYS, WIDTH, ALWAYS },
    { "model.layers.#.self_attn.o_proj.weight", WIDTH, QUERIES, ALWAYS },
    { "model.layers.#.self_attn.q_proj.bias", QUERIES, NONE, INPUT_BIAS },
    { "model.layers.#.self_attn.k_proj.bias", KEYS, NONE, INPUT_BIAS },
    { "model.layers.#.self_attn.v_proj.bias", KEYS, NONE, INPUT_BIAS },
    { "model.layers.#.self_attn.o_proj.bias", WIDTH, NONE, OUTPUT_BIAS },
    { "model.layers.#.self_attn.q_norm.weight", HEAD, NONE, NORMED },
    { "model.layers.#.self_attn.k_norm.weight", HEAD, NONE, NORMED },
    { "model.layers.#.post_attention_layernorm.weight", WIDTH, NONE, ALWAYS },
    { "model.layers.#.mlp.gate_proj.weight", INNER, WIDTH, ALWAYS },
    { "model.layers.#.mlp.up_proj.weight", INNER, WIDTH, ALWAYS },
    { "model.layers.#.mlp.down_proj.weight", WIDTH, INNER, ALWAYS },
    { "model.layers.#.mlp.gate_proj.bias", INNER, NONE, MLP_BIAS },
    { "model.layers.#.mlp.up_proj.bias", INNER, NONE, MLP_BIAS },
    { "model.layers.#.mlp.down_proj.bias", WIDTH, NONE, MLP_BIAS },
    { "model.norm.weight", WIDTH, NONE, ALWAYS },
    { "lm_head.weight", VOCABULARY, WIDTH, UNTIED },
};

typedef struct {
    const char *type;
    bool is_gpt2, asks_bias, asks_mlp_bias; /* config.json may have the keys attention_bias, mlp_bias */
    bool input_bias, normed;                /* properties that every model of the family has */
    /* Defaults of num_key_value_heads and head_dim if config.json lacks them; 0: derived from other sizes. */
    int64_t keys, head;
} family_row;

static const family_row families[] = {
    { "gpt2", true, false, false, false, false, 0, 0 },     { "llama", false, true, true, false, false, 0, 0 },
    { "mistral", false, false, false, false, false, 8, 0 }, { "qwen2", false, false, false, true, false, 32, 0 },
    { "qwen3", false, true, false, false, true, 32, 128 },
};

typedef struct {
    const family_row *family;
    int64_t layers, heads, sizes[SIZES];
    bool holds[CONDITIONS];
} described;

/* Reads an integer; null and a missing key give 0 unless it is needed. */
static cs_status read_size(int64_t *value, const json_t *config, const char *key, bool needed)
{
    const json_t *entry = json_object_get(config, key);
    *value = json_integer_value(entry);
    if (!needed && (!entry || json_is_null(entry)))
        return CS_OK;
    if (!json_is_integer(entry) || *value < (needed ? 1 : 0) || *value > MOST_SIZE)
        return cs_fail(CS_BAD_FILE, "config.json: \"%s\" %s", key,
                       entry ? "is no size of a model" : "is missing, and the shapes of the weights follow from it");
    return CS_OK;
}

static bool read_flag(const json_t *config, const char *key, bool otherwise)
{
    const json_t *entry = json_object_get(config, key);
    return json_is_boolean(entry) ? json_is_true(entry) : otherwise;
}

static cs_status describe_gpt2(described *d, const json_t *config)
{
    CS_TRY(read_size(&d->sizes[VOCABULARY], config, "vocab_size", true));
    CS_TRY(read_size(&d->sizes[POSITIONS], config, "n_positions", true));
    CS_TRY(read_size(&d->sizes[WIDTH], config, "n_embd", true));
    CS_TRY(read_size(&d->sizes[INNER], config, "n_inner", false));
    CS_TRY(read_size(&d->layers, config, "n_layer", true));
    d->sizes[WIDTH_3] = 3 * d->sizes[WIDTH];
    if (d->sizes[INNER] == 0)
        d->sizes[INNER] = 4 * d->sizes[WIDTH];
    d->holds[UNTIED] = !read_flag(config, "tie_word_embeddings", true);
    return CS_OK;
}

static cs_status describe_llama(described *d, const json_t *config)
{
    const family_row *f = d->family;
    int64_t keys, head;
    CS_TRY(read_size(&d->sizes[VOCABULARY], config, "vocab_size", true));
    CS_TRY(read_size(&d->sizes[WIDTH], config, "hidden_size", true));
    CS_TRY(read_size(&d->sizes[INNER], config, "intermediate_size", true));
    CS_TRY(read_size(&d->layers, config, "num_hidden_layers", true));
    CS_TRY(read_size(&d->heads, config, "num_attention_heads", true));
    CS_TRY(read_size(&keys, config, "num_key_value_heads", false));
    CS_TRY(read_size(&head, config, "head_dim", false));
    if (keys == 0)
        keys = f->keys > 0 && !json_object_get(config, "num_key_value_heads") ? f->keys : d->heads;
    if (head == 0)
        head = f->head > 0 ? f->head : d->sizes[WIDTH] / d->heads;
    d->sizes[HEAD] = head;
    d->sizes[QUERIES] = d->heads * head;
    d->sizes[KEYS] = keys * head;
    bool bias = f->asks_bias && read_flag(config, "attention_bias", false);
    d->holds[INPUT_BIAS] = f->input_bias || bias;
    d->holds[OUTPUT_BIAS] = bias;
    d->holds[MLP_BIAS] = f->asks_mlp_bias && read_flag(config, "mlp_bias", false);
    d->holds[NORMED] = f->normed;
    d->holds[UNTIED] = !read_flag(config, "tie_word_embeddings", false);
    return CS_OK;
}

static cs_status describe(described *d, const json_t *config)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    for (size_t i = 0; type && i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].type, type) == 0)
            d->family = &families[i];
    if (!d->family)
        return cs_fail(CS_UNSUPPORTED,
                       "not supported: config.json's model_type %s%.64s%s; there are: gpt2, llama, mistral, qwen2, "
                       "qwen3",
                       type ? "\"" : "", type ? type : "(which is missing)", type ? "\"" : "");
    d->holds[ALWAYS] = true;
    CS_TRY(d->family->is_gpt2 ? describe_gpt2(d, config) : describe_llama(d, config));
    return d->layers <= MOST_LAYERS ? CS_OK : cs_fail(CS_BAD_FILE, "config.json: more than %d layers", MOST_LAYERS);
}

static char *name_of(const char *pattern, int64_t layer)
{
    const char *hole = strchr(pattern, '#');
    char *name = NULL;
    int written = hole ? asprintf(&name, "%.*s%lld%s", (int)(hole - pattern), pattern, (long long)layer, hole + 1)
                       : asprintf(&name, "%s", pattern);
    if (written < 0)
        cs_fatal(CS_NO_MEMORY, "out of memory for a tensor's name");
    return name;
}

static int64_t list_rows(cs_source_tensor *list, const described *d, const tensor_row *rows, size_t row_count)
{
    int64_t count = 0;
    for (size_t i = 0; i < row_count; i++) {
        const tensor_row *row = &rows[i];
        for (int64_t layer = 0; d->holds[row->only] && layer < (strchr(row->name, '#') ? d->layers : 1); layer++)
            list[count++] = (cs_source_tensor){ name_of(row->name, layer),
                                                CS_F32,
                                                row->columns == NONE ? 1 : 2,
                                                { d->sizes[row->rows], d->sizes[row->columns] } };
    }
    return count;
}

cs_status cs_huggingface_names(cs_source_tensor **wanted, int64_t *count, const char **tied, const json_t *config)
{
    described d = { 0 };
    *wanted = NULL;
    *count = 0;
    CS_TRY(describe(&d, config));
    const tensor_row *rows = d.family->is_gpt2 ? gpt2_rows : llama_rows;
    size_t row_count = d.family->is_gpt2 ? sizeof gpt2_rows / sizeof *rows : sizeof llama_rows / sizeof *rows;
    *wanted = calloc(row_count * (size_t)d.layers, sizeof **wanted);
    if (!*wanted)
        return cs_fail(CS_NO_MEMORY, "out of memory for the list of a model's tensors");
    *count = list_rows(*wanted, &d, rows, row_count);
    *tied = d.holds[UNTIED] ? NULL : d.family->is_gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight";
    return CS_OK;
}

void cs_huggingface_free(cs_source_tensor *wanted, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        free((char *)(uintptr_t)wanted[i].name);
    free(wanted);
}
