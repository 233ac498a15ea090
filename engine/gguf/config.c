/* config.c - the config.json of a model in a GGUF file. */
#include "base/files.h"
#include "base/must.h"
#include "base/names.h"
#include "gguf/describe.h"
#include "gguf/family.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    const ce_gguf_file *file;
    const ce_gguf_family *family;
    const char *path;
    json_t *left; /* the keys of the file that were not read yet */
    json_t *config;
    int64_t width; /* of a head */
} describing;

/* Returns the value of a key, or NULL. A name that begins with '.' follows that of the architecture. */
static const json_t *take(describing *d, const char *name)
{
    char key[CE_GGUF_NAME];
    snprintf(key, sizeof key, "%s%s", *name == '.' ? d->family->arch : "", name);
    json_object_del(d->left, key);
    return json_object_get(d->file->keys, key);
}

static cs_status refuse(const describing *d, const char *key, const char *why)
{
    return ce_fail(CS_UNSUPPORTED, "not supported: %s: the key %s%s %s", d->path, *key == '.' ? d->family->arch : "",
                   key, why);
}

/* Returns the shortest decimal number that is the same fp32 number. */
static double shortest(double value)
{
    char text[32];
    for (int digits = 1; digits < 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if ((float)strtod(text, NULL) == (float)value)
            return strtod(text, NULL);
    }
    return value;
}

static void set_real(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key, json_real(shortest(value)));
}

/* ---- sizes ---- */

/* Sets *number to the value of a key, which is a positive integer, and leaves it as it is if the file has no such key. */
static cs_status integer(int64_t *number, describing *d, const char *name)
{
    const json_t *value = take(d, name);
    if (value && (!json_is_integer(value) || json_integer_value(value) < 1))
        return refuse(d, name, "is no positive integer");
    *number = value ? json_integer_value(value) : *number;
    return CS_OK;
}

static cs_status set_numbers(describing *d)
{
    for (int i = 0; i < ce_gguf_setting_count; i++) {
        const ce_gguf_setting *row = &ce_gguf_settings[i];
        if (row->windowed && !d->family->period)
            continue;
        const json_t *value = take(d, row->file);
        if (!value && row->needed)
            return ce_fail(CS_BAD_FILE, "%s has no key %s%s", d->path, d->family->arch, row->file);
        if (value && (row->count ? !json_is_integer(value) : !json_is_number(value)))
            return refuse(d, row->file, "has a value for each layer, or one that is no number");
        if (value && row->count)
            json_object_set_new(d->config, row->config, json_integer(json_integer_value(value)));
        else if (value)
            set_real(d->config, row->config, json_number_value(value));
    }
    return CS_OK;
}

static bool has(const describing *d, const char *name)
{
    return ce_gguf_find(d->file, name) != NULL;
}

/* Sets what the shapes of the tensors say, and checks that the keys agree. */
static cs_status set_sizes(describing *d)
{
    const ce_gguf_tensor *table = ce_gguf_find(d->file, "token_embd.weight");
    int64_t heads = json_integer_value(json_object_get(d->config, "num_attention_heads"));
    int64_t hidden = json_integer_value(json_object_get(d->config, "hidden_size"));
    if (!table || table->dims != 2)
        return ce_fail(CS_BAD_FILE, "%s has no matrix token_embd.weight", d->path);
    if (heads < 1)
        return ce_fail(CS_BAD_FILE, "%s: %s.attention.head_count is %lld", d->path, d->family->arch, (long long)heads);
    take(d, ".vocab_size");
    int64_t key_heads = heads;
    d->width = hidden / heads;
    CE_TRY(integer(&d->width, d, ".attention.key_length"));
    int64_t values = d->width, rotated = d->width;
    CE_TRY(integer(&values, d, ".attention.value_length"));
    CE_TRY(integer(&rotated, d, ".rope.dimension_count"));
    CE_TRY(integer(&key_heads, d, ".attention.head_count_kv"));
    if (values != d->width)
        return refuse(d, ".attention.value_length", "differs from attention.key_length");
    if (rotated != d->width)
        return refuse(d, ".rope.dimension_count", "is not the width of a head");
    json_object_set_new(d->config, "num_key_value_heads", json_integer(key_heads));
    json_object_set_new(d->config, "head_dim", json_integer(d->width));
    json_object_set_new(d->config, "vocab_size", json_integer(table->shape[0]));
    json_object_set_new(d->config, "tie_word_embeddings", json_boolean(!has(d, "output.weight")));
    if (d->family->permuted && d->family->biased) {
        json_object_set_new(d->config, "attention_bias", json_boolean(has(d, "blk.0.attn_q.bias")));
        json_object_set_new(d->config, "mlp_bias", json_boolean(has(d, "blk.0.ffn_gate.bias")));
    }
    if (d->family->period)
        json_object_set_new(d->config, "query_pre_attn_scalar",
                            json_integer(json_integer_value(json_object_get(d->config, "num_hidden_layers")) ==
                                                 d->family->large
                                             ? hidden / heads
                                             : d->width));
    return CS_OK;
}

/* ---- rotary positions ---- */

static cs_status set_llama3(describing *d, double theta, const ce_gguf_tensor *tensor)
{
    ce_gguf_llama3 found = { .theta = theta };
    int descriptor;
    if (tensor->type != CE_GGUF_F32 || tensor->dims != 1 || tensor->shape[0] != d->width / 2 || d->width < 4)
        return ce_fail(CS_UNSUPPORTED, "not supported: %s: rope_freqs.weight is no vector of %lld fp32 numbers",
                       d->path, (long long)d->width / 2);
    CE_FREED float *factors = ce_must_alloc((size_t)tensor->bytes);
    CE_TRY(ce_files_open(&descriptor, d->path));
    cs_status status = ce_files_read_at(descriptor, factors, (size_t)tensor->bytes, tensor->offset, d->path);
    close(descriptor);
    CE_TRY(status);
    if (!ce_gguf_llama3_find(&found, factors, d->width))
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: %s: the rotary scaling of rope_freqs.weight is not that of Llama 3", d->path);
    json_object_set_new(d->config, "rope_scaling",
                        json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor", found.factor,
                                  "low_freq_factor", found.low, "high_freq_factor", found.high,
                                  "original_max_position_embeddings", (json_int_t)found.before));
    return CS_OK;
}

static cs_status set_rope(describing *d)
{
    const json_t *base = take(d, ".rope.freq_base"), *named = take(d, ".rope.scaling.type");
    double theta = base ? shortest(json_number_value(base)) : 10000;
    const ce_gguf_tensor *factors = ce_gguf_find(d->file, "rope_freqs.weight");
    double factor = json_number_value(take(d, ".rope.scaling.factor"));
    /* llama.cpp's type is linear if the file has no type. */
    bool scales = factor > 0 && fabs(factor - 1) > 0;
    const char *type = json_is_string(named) ? json_string_value(named) : scales ? "linear" : "none";
    int64_t before = 0;
    CE_TRY(integer(&before, d, ".rope.scaling.original_context_length"));
    bool yarn = strcmp(type, "yarn") == 0;
    take(d, ".rope.scaling.finetuned");
    json_object_set_new(d->config, "rope_theta", json_real(theta));
    if (factors && strcmp(type, "none") != 0)
        return refuse(d, ".rope.scaling.type", "is given beside rope_freqs.weight");
    if (factors)
        return set_llama3(d, theta, factors);
    if (strcmp(type, "none") == 0)
        return CS_OK;
    if (!yarn && strcmp(type, "linear") != 0)
        return refuse(d, ".rope.scaling.type", "is neither none, linear nor yarn");
    json_t *scaling = json_pack("{s:s, s:f}", "rope_type", type, "factor", shortest(factor));
    if (yarn)
        json_object_set_new(scaling, "original_max_position_embeddings", json_integer(before));
    json_object_set_new(d->config, "rope_scaling", scaling);
    return CS_OK;
}

/* ---- keys with one value ---- */

/* Keys that have an effect in llama.cpp only with another value. */
static cs_status check_fixed(describing *d)
{
    static const struct {
        const char *key;
        double value;
    } fixed[] = { { ".attention.causal", 1 },
                  { ".expert_count", 0 },
                  { ".expert_used_count", 0 },
                  { ".rope.freq_base_swa", 10000 },
                  { ".pooling_type", 0 } };
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
        const json_t *value = take(d, fixed[i].key);
        double number = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
        if (value && (json_is_string(value) || fabs(number - fixed[i].value) > 0))
            return refuse(d, fixed[i].key, "has a value that is not supported");
    }
    const json_t *window = d->family->period ? NULL : take(d, ".attention.sliding_window");
    int64_t positions = json_integer_value(json_object_get(d->config, "max_position_embeddings"));
    if (window && json_integer_value(window) > 0 && json_integer_value(window) < positions)
        return refuse(d, ".attention.sliding_window", "has a window, which llama.cpp does not compute for this model");
    const char *type = json_string_value(take(d, "general.type"));
    return !type || strcmp(type, "model") == 0 ? CS_OK : refuse(d, "general.type", "is not \"model\"");
}

/* Fails if the file has another key of the architecture. Keys that begin otherwise say nothing about the model. */
static cs_status check_left(const describing *d)
{
    size_t length = strlen(d->family->arch);
    const char *key;
    json_t *value;
    ce_names names = { 0 };
    json_object_foreach (d->left, key, value)
        if (strncmp(key, d->family->arch, length) == 0 && key[length] == '.')
            ce_names_add(&names, "%s", key);
    return names.count
               ? ce_fail(CS_UNSUPPORTED, "not supported: %s: keys of which it is not known what they change: %s",
                         d->path, ce_names_text(&names))
               : CS_OK;
}

static cs_status describe(describing *d)
{
    static const char *const ids[][2] = { { "bos_token_id", "tokenizer.ggml.bos_token_id" },
                                          { "eos_token_id", "tokenizer.ggml.eos_token_id" } };
    CE_TRY(set_numbers(d));
    CE_TRY(set_sizes(d));
    CE_TRY(set_rope(d));
    CE_TRY(check_fixed(d));
    for (int i = 0; i < 2; i++) {
        const json_t *id = take(d, ids[i][1]);
        json_object_set_new(d->config, ids[i][0],
                            json_is_integer(id) ? json_integer(json_integer_value(id)) : json_null());
    }
    json_object_set_new(d->config, "pad_token_id", json_null()); /* no row of the token table is left untrained */
    return check_left(d);
}

cs_status ce_gguf_config(json_t **config, const ce_gguf_file *file, const char *path)
{
    describing d = { .file = file, .path = path };
    if (json_integer_value(json_object_get(file->keys, "split.count")) > 1)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: %s, because it is one of several files of a model (split.count): "
                       "`llama-gguf-split --merge FIRST OUT` makes one file of them",
                       path);
    CE_TRY(ce_gguf_family_of_arch(&d.family, json_string_value(json_object_get(file->keys, "general.architecture"))));
    d.left = json_copy(file->keys);
    d.config = json_pack("{s:s, s:[s]}", "model_type", d.family->type, "architectures", d.family->class);
    cs_status status = describe(&d);
    json_decref(d.left);
    *config = status == CS_OK ? d.config : NULL;
    if (status != CS_OK)
        json_decref(d.config);
    return status;
}
