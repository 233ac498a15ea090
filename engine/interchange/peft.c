/* peft.c - reads and writes PEFT's descriptions of LoRA adapters, and merges adapters into weights. */
#include "interchange/peft.h"
#include "interchange/norms.h"
#include "interchange/peft_names.h"
#include "base/ends_with.h"
#include "base/must.h"
#include "checkpoint/convert.h"
#include "base/files.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG_LIMIT = 1 << 20 };

/* ---- adapter_config.json ---- */

static cs_status refuse(const char *path, const char *key, const char *why)
{
    return ce_fail(CS_UNSUPPORTED, "not supported: %s: \"%s\", because %s", path, key, why);
}

/* Returns true if a value of adapter_config.json asks for no feature: it is absent, null, false, "none", or an empty
 * list or object. */
static bool is_idle(const json_t *value)
{
    const char *text = json_string_value(value);
    return !value || json_is_null(value) || json_is_false(value) || (text && strcmp(text, "none") == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

static cs_status check_idle(const json_t *config, const char *path)
{
    static const struct {
        const char *key, *why;
    } keys[] = {
        { "use_qalora", "weights are not quantized" },
        { "lora_bias", "B has no bias" },
        { "layer_replication", "layers are not repeated" },
        { "megatron_config", "cspeed.mesh.tp says over how many ranks layers are divided" },
        { "trainable_token_indices", "only adapters are read" },
        { "target_parameters", "adapters are beside linear layers" },
        { "alora_invocation_tokens", "an adapter works on all tokens" },
        { "arrow_config", "one adapter is used" },
        { "use_bdlora", "A and B are whole matrices" },
        { "kasa_config", "this is another kind of adapter" },
        { "velora_config", "this is another kind of adapter" },
        { "monteclora_config", "this is another kind of adapter" },
        { "lora_ga_config", "this is another kind of adapter" },
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!is_idle(json_object_get(config, keys[i].key)))
            return refuse(path, keys[i].key, keys[i].why);
    return CS_OK;
}

/* Removes the members that ask for no feature. */
static void drop_idle(json_t *config)
{
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(config, next, key, value)
    {
        if (is_idle(value))
            json_object_del(config, key);
    }
}

/* Refuses adapters that belong to other weights than those of the base model: these initial values move a part of the
 * frozen weights into the adapters. The values that the others gave are replaced by those of the folder. */
static cs_status check_start(json_t *config, const char *path)
{
    static const char *const plain[] = { "gaussian", "eva", "orthogonal" };
    const char *start = json_string_value(json_object_get(config, "init_lora_weights"));
    bool known = !start;
    for (size_t i = 0; start && i < sizeof plain / sizeof *plain; i++)
        known = known || strcmp(start, plain[i]) == 0;
    if (!known)
        return refuse(path, "init_lora_weights",
                      "its adapters belong to changed weights of the base model: convert them by PEFT's "
                      "path_initial_model_for_weight_conversion");
    json_object_del(config, "init_lora_weights");
    return CS_OK;
}

static cs_status check_targets(const json_t *targets, const char *path)
{
    size_t index;
    json_t *name;
    if (!targets)
        return ce_fail(CS_BAD_FILE, "%s: \"target_modules\" is missing", path);
    json_array_foreach (targets, index, name) {
        if (!json_is_string(name))
            return ce_fail(CS_BAD_FILE, "%s: \"target_modules\" is not a list of names", path);
    }
    return json_is_string(targets) || json_is_array(targets)
               ? CS_OK
               : ce_fail(CS_BAD_FILE, "%s: \"target_modules\" is not a list of names", path);
}

static cs_status take(ce_peft_facts *facts, json_t *config, const char *path)
{
    const char *type = json_string_value(json_object_get(config, "peft_type"));
    const char *bias = json_string_value(json_object_get(config, "bias"));
    const json_t *r = json_object_get(config, "r"), *alpha = json_object_get(config, "lora_alpha");
    if (!type || strcmp(type, "LORA") != 0)
        return refuse(path, "peft_type", "only adapters of the kind \"LORA\" are read");
    if (!json_is_integer(r) || json_integer_value(r) < 1 || !json_is_number(alpha))
        return ce_fail(CS_BAD_FILE, "%s: \"r\" and \"lora_alpha\" must be numbers, r at least 1", path);
    CE_TRY(check_idle(config, path));
    *facts = (ce_peft_facts){ .r = json_integer_value(r),
                              .alpha = json_number_value(alpha),
                              .dropout = json_number_value(json_object_get(config, "lora_dropout")),
                              .rslora = json_is_true(json_object_get(config, "use_rslora")),
                              .dora = json_is_true(json_object_get(config, "use_dora")) };
    snprintf(facts->bias, sizeof facts->bias, "%s", bias ? bias : "none");
    if (!(facts->dropout >= 0 && facts->dropout < 1))
        return ce_fail(CS_BAD_FILE, "%s: \"lora_dropout\" must be from 0 to below 1", path);
    CE_TRY(check_start(config, path));
    drop_idle(config);
    facts->config = json_incref(config);
    return check_targets(json_object_get(config, "target_modules"), path);
}

cs_status ce_peft_read(ce_peft_facts *facts, const char *folder)
{
    char *path = ce_files_join(folder, "adapter_config.json"), *text = NULL;
    size_t length;
    cs_status status = ce_files_read(&text, &length, path, CONFIG_LIMIT);
    json_t *config = status == CS_OK ? ce_json_strict(text, length) : NULL;
    if (status == CS_OK && !json_is_object(config))
        status = ce_fail(CS_BAD_FILE, "%s: %s", path, config ? "an object is needed" : cs_error());
    if (status == CS_OK)
        status = take(facts, config, path);
    json_decref(config);
    free(text);
    free(path);
    return status;
}

/* Returns the value of "bias", or "none" for a checkpoint of an earlier version, which does not have this key. */
static const char *bias_word(const json_t *lora)
{
    const char *word = json_string_value(json_object_get(lora, "bias"));
    return word ? word : "none";
}

static bool has_dora(const json_t *lora)
{
    return json_is_true(json_object_get(lora, "dora"));
}

json_t *ce_peft_config(const json_t *lora, const char *base)
{
    json_t *config =
        json_pack("{s:s, s:s, s:s?, s:O, s:O, s:O, s:O, s:O, s:O, s:s, s:b, s:b, s:n, s:b, s:{}, s:{}}", "peft_type",
                  "LORA", "task_type", "CAUSAL_LM", "base_model_name_or_path", base, "r", json_object_get(lora, "r"),
                  "lora_alpha", json_object_get(lora, "alpha"), "lora_dropout", json_object_get(lora, "dropout"),
                  "use_rslora", json_object_get(lora, "rslora"), "target_modules", json_object_get(lora, "targets"),
                  "fan_in_fan_out", json_object_get(lora, "fan_in_fan_out"), "bias", bias_word(lora), "use_dora",
                  has_dora(lora), "inference_mode", 1, "modules_to_save", "init_lora_weights", 1, "rank_pattern",
                  "alpha_pattern");
    json_object_update(config, json_object_get(lora, "peft")); /* a checkpoint of an earlier version has no "peft" */
    return config;
}

/* ---- a source that reads from a checkpoint's source ---- */

typedef struct {
    ce_source inner;
    int64_t *from; /* for each tensor, its index in `inner` */
    char **names;
    const json_t *lora; /* settings of LoRA, which `inner` owns */
    int64_t held;       /* index of the tensor whose factors are in `a` and `b`, or -1 */
    float *a, *b;       /* two factors of an adapter: (r, inputs) and (outputs, r) */
    float scale;        /* of this adapter: alpha / r */
    float *gain;        /* (outputs) DoRA's magnitude divided by the norm, or NULL if the tensor has no magnitudes */
    float *buffer;
    /* of the merged elements so far: the sums of the squares of what the adapters change, and of what rounding changes */
    double changes, roundings;
} layered;

static bool is_adapter(const char *name)
{
    return strstr(name, ".lora_A.weight") || strstr(name, ".lora_B.weight") || ce_norms_are(name);
}

/* Replaces the ending `word` of a tensor's name ("weight") by `which` ("lora_A.weight"). Returns the index in `inner`
 * of the tensor with the new name, or -1 if there is none. */
static int64_t find_beside(const layered *over, const char *name, const char *word, const char *which)
{
    char other[512];
    if (!ce_ends_with(name, word))
        return -1;
    snprintf(other, sizeof other, "%.*s%s", (int)(strlen(name) - strlen(word)), name, which);
    return ce_source_find(&over->inner, other);
}

#define MODEL "base_model.model."

/* Returns the second name of a tensor, such as that of a head that is tied to it; NULL if it has none. */
static const char *second_name(const layered *over, const char *name)
{
    const json_t *second = json_object_get(over->lora, "second");
    const char *of = json_string_value(json_object_get(second, "of"));
    return of && strcmp(of, name) == 0 ? json_string_value(json_object_get(second, "name")) : NULL;
}

static bool is_tied(const layered *over)
{
    return json_is_true(json_object_get(json_object_get(over->lora, "second"), "tied"));
}

static bool is_saved(const layered *over, const char *name)
{
    const char *second = second_name(over, name);
    return ce_peft_saves(over->lora, name) || (second && ce_peft_saves(over->lora, second));
}

/* Returns the name that a tensor of the checkpoint has in a folder of PEFT. Only adapters, trained biases and
 * modules_to_save have such a name; for all other tensors the result is NULL. The caller frees the name. */
static char *name_in_folder(const layered *over, const char *name)
{
    static const char word[] = ".bias";
    size_t length = strlen(name), tail = sizeof word - 1;
    bool bias = ce_ends_with(name, word);
    bool adapted = bias && find_beside(over, name, "bias", "lora_A.weight") >= 0;
    const char *which = bias_word(over->lora), *second = is_tied(over) ? NULL : second_name(over, name);
    if (is_saved(over, name))
        return ce_must_print(MODEL "%s", second ? second : name);
    if (bias && strcmp(which, "all") != 0 && !(adapted && strcmp(which, "lora_only") == 0))
        return NULL;
    if (!bias && !is_adapter(name))
        return NULL;
    return ce_must_print(MODEL "%.*s%s%s", (int)(length - (bias ? tail : 0)), name, adapted ? ".base_layer" : "",
                         bias ? word : "");
}

static void close_layered(ce_source *source)
{
    layered *over = source->private_data;
    for (int64_t i = 0; over->names && i < source->count; i++)
        free(over->names[i]);
    ce_source_close(&over->inner);
    free(over->names);
    free(over->from);
    free(over->a);
    free(over->b);
    free(over->gain);
    free(over->buffer);
    free(over);
}

/* Adds tensor number i of `inner` under a name, which the source then owns. */
static void add(ce_source *source, int64_t i, char *name)
{
    layered *over = source->private_data;
    over->from[source->count] = i;
    over->names[source->count] = name;
    source->tensors[source->count] = over->inner.tensors[i];
    source->tensors[source->count++].name = name;
}

static void list(ce_source *source, bool adapters)
{
    layered *over = source->private_data;
    size_t capacity = (size_t)over->inner.count + 2; /* one tensor may have two names */
    source->tensors = ce_must_alloc(capacity * sizeof *source->tensors);
    over->from = ce_must_alloc(capacity * sizeof *over->from);
    over->names = ce_must_alloc(capacity * sizeof *over->names);
    for (int64_t i = 0; i < over->inner.count; i++) {
        const char *given = over->inner.tensors[i].name, *second = second_name(over, given);
        char *name = adapters ? name_in_folder(over, given) : is_adapter(given) ? NULL : ce_must_copy(given);
        if (name)
            add(source, i, name);
        if (adapters && second && is_tied(over) && is_saved(over, given))
            add(source, i, ce_must_print(MODEL "%s", second));
    }
}

static cs_status read_adapter(ce_source *source, int64_t tensor, ce_range range, void *to, cs_dtype dtype)
{
    layered *over = source->private_data;
    return over->inner.read(&over->inner, over->from[tensor], range, to, dtype);
}

static void put_over(ce_source *source, bool adapters, const json_t *lora)
{
    layered *over = ce_must_alloc(sizeof *over);
    *over = (layered){ .inner = *source, .lora = lora, .held = -1 };
    *source = (ce_source){ .read = read_adapter, .close = close_layered, .private_data = over };
    list(source, adapters);
}

void ce_peft_adapters(ce_source *source, const json_t *lora)
{
    put_over(source, true, lora);
}

/* ---- merging ---- */

static cs_status read_whole(layered *over, int64_t tensor, float **to)
{
    const ce_source_tensor *given = &over->inner.tensors[tensor];
    int64_t count = given->shape[0] * (given->dims > 1 ? given->shape[1] : 1);
    free(*to);
    *to = malloc((size_t)count * sizeof **to);
    if (!*to)
        return ce_fail(CS_NO_MEMORY, "out of memory for an adapter");
    return over->inner.read(&over->inner, tensor, (ce_range){ 0, count }, *to, CS_F32);
}

static double square(float a, float b)
{
    return ((double)a - (double)b) * ((double)a - (double)b);
}

/* over->buffer holds the elements `range` of the weight. Adds scale * B * A to these elements, where B and A are the
 * factors of the adapter. The sum over r is computed in fp32, as in PyTorch. With DoRA the results are multiplied by
 * magnitude / norm. */
static void add_product(layered *over, const ce_source_tensor *weight, ce_range range, int64_t a)
{
    int64_t r = over->inner.tensors[a].shape[0], inputs = over->inner.tensors[a].shape[1];
    bool turned = json_is_true(json_object_get(over->lora, "fan_in_fan_out"));
    for (int64_t i = range.from; i < range.to; i++) {
        int64_t row = i / weight->shape[1], column = i % weight->shape[1];
        int64_t output = turned ? column : row, input = turned ? row : column;
        float sum = 0;
        for (int64_t k = 0; k < r; k++)
            sum += over->b[output * r + k] * over->a[k * inputs + input];
        float before = over->buffer[i - range.from];
        over->buffer[i - range.from] += over->scale * sum;
        if (over->gain)
            over->buffer[i - range.from] *= over->gain[output];
        over->changes += square(over->buffer[i - range.from], before);
    }
}

/* Adds the squares of the differences between the elements in over->buffer and `count` rounded elements. */
static void note_rounding(layered *over, const void *rounded, cs_dtype dtype, int64_t count)
{
    float wide[256];
    for (int64_t at = 0, next; at < count && dtype != CS_F32; at = next) {
        next = at + 256 < count ? at + 256 : count;
        ce_convert_elements(wide, CS_F32, (const char *)rounded + (size_t)at * cs_dtype_bytes(dtype), dtype, next - at);
        for (int64_t i = at; i < next; i++)
            over->roundings += square(over->buffer[i], wide[i - at]);
    }
}

/* Reads elements of an adapted weight whose factors are in over->a and over->b, with the adapter added to them. */
static cs_status read_sum(ce_source *source, int64_t tensor, ce_range range, void *to, cs_dtype dtype)
{
    layered *over = source->private_data;
    const ce_source_tensor *weight = &source->tensors[tensor];
    int64_t a = find_beside(over, weight->name, "weight", "lora_A.weight");
    int64_t max = CE_SOURCE_BUFFER / (int64_t)sizeof(float);
    for (int64_t at = range.from, next; at < range.to; at = next) {
        void *here = (char *)to + (size_t)(at - range.from) * cs_dtype_bytes(dtype);
        next = range.to - at < max ? range.to : at + max;
        CE_TRY(over->inner.read(&over->inner, over->from[tensor], (ce_range){ at, next }, over->buffer, CS_F32));
        add_product(over, weight, (ce_range){ at, next }, a);
        ce_convert_elements(here, dtype, over->buffer, CS_F32, next - at);
        note_rounding(over, here, dtype, next - at);
    }
    return CS_OK;
}

/* Sets over->gain to the magnitudes divided by the norms of the adapted weight, which is read once for these norms. */
static cs_status read_gain(ce_source *source, int64_t tensor, int64_t magnitude)
{
    layered *over = source->private_data;
    ce_source sums = *source;
    int64_t outputs = over->inner.tensors[magnitude].shape[0];
    bool turned = json_is_true(json_object_get(over->lora, "fan_in_fan_out"));
    float *norms = malloc((size_t)outputs * sizeof *norms), *gain = NULL;
    sums.read = read_sum;
    double changes = over->changes;
    cs_status status = norms ? ce_norms_read(&sums, tensor, turned, (ce_range){ 0, outputs }, norms, CS_F32)
                             : ce_fail(CS_NO_MEMORY, "out of memory for norms of weights");
    over->changes = changes; /* this reading writes nothing */
    if (status == CS_OK)
        status = read_whole(over, magnitude, &gain);
    for (int64_t i = 0; i < outputs && status == CS_OK; i++)
        gain[i] /= norms[i];
    free(norms);
    over->gain = gain;
    return status;
}

/* Returns the factor of the adapter of a weight. */
static float scale_of(const json_t *lora, const char *weight)
{
    int64_t r = 1;
    double alpha = 0;
    CE_FREED char *layer = ce_must_copy_part(weight, strlen(weight) - strlen(".weight"));
    ce_peft_choose(lora, layer, &r, &alpha);
    return (float)(alpha / (json_is_true(json_object_get(lora, "rslora")) ? sqrt((double)r) : (double)r));
}

/* Reads the factors and magnitudes of the adapted weight `tensor`, unless they are in memory already. */
static cs_status hold(ce_source *source, int64_t tensor, int64_t a, int64_t b)
{
    layered *over = source->private_data;
    int64_t magnitude = find_beside(over, source->tensors[tensor].name, "weight", "lora_magnitude_vector");
    if (over->held == tensor)
        return CS_OK;
    over->held = -1;
    free(over->gain);
    over->gain = NULL;
    CE_TRY(read_whole(over, a, &over->a));
    CE_TRY(read_whole(over, b, &over->b));
    over->scale = scale_of(over->lora, source->tensors[tensor].name);
    if (magnitude >= 0)
        CE_TRY(read_gain(source, tensor, magnitude));
    over->held = tensor;
    return CS_OK;
}

static cs_status read_merged(ce_source *source, int64_t tensor, ce_range range, void *to, cs_dtype dtype)
{
    layered *over = source->private_data;
    const char *name = source->tensors[tensor].name;
    int64_t a = find_beside(over, name, "weight", "lora_A.weight"),
            b = find_beside(over, name, "weight", "lora_B.weight");
    if (a < 0 || b < 0)
        return over->inner.read(&over->inner, over->from[tensor], range, to, dtype);
    CE_TRY(hold(source, tensor, a, b));
    return read_sum(source, tensor, range, to, dtype);
}

void ce_peft_merge(ce_source *source, const json_t *lora)
{
    put_over(source, false, lora);
    layered *over = source->private_data;
    source->read = read_merged;
    over->buffer = ce_must_alloc(CE_SOURCE_BUFFER);
}

double ce_peft_rounding(const ce_source *source)
{
    const layered *over = source->private_data;
    return over->changes > 0 ? sqrt(over->roundings / over->changes) : 0;
}
