/* rotary.c - reads the rotary position settings of a config.json, in the old spelling and in the new one. */
#include "base/must.h"
#include "models/rotary.h"
#include "models/other_keys.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    double theta, factor, low, high, original, attention, fast, slow, partial, mscale, mscale_all, alpha;
    int type, old_type;
    bool truncate;
    json_t *shorter, *longer;
} rope_keys;

enum { DEFAULT, LINEAR, LLAMA3, YARN, DYNAMIC, LONGROPE, SU, UNSAID };

#define TYPES "default|linear|llama3|yarn|dynamic|longrope|su|none"
#define AT(field) offsetof(rope_keys, field)
static const ce_key keys[] = {
    { "rope_type", CE_KEY_CHOICE, AT(type), "\"none\"", 0, 0, TYPES, "how positions are scaled" },
    { "type", CE_KEY_CHOICE, AT(old_type), "\"none\"", 0, 0, TYPES, "rope_type's older name" },
    { "rope_theta", CE_KEY_NUMBER, AT(theta), "null", 1, 1e12, NULL,
      "base of the frequencies of rotary position embeddings (RoPE)" },
    { "factor", CE_KEY_NUMBER, AT(factor), "null", 1, 1e6, NULL, "how much longer the context became" },
    { "low_freq_factor", CE_KEY_NUMBER, AT(low), "null", 1e-6, 1e6, NULL, "llama3: longer wavelengths are stretched" },
    { "high_freq_factor", CE_KEY_NUMBER, AT(high), "null", 1e-6, 1e6, NULL, "llama3: shorter wavelengths stay" },
    { "original_max_position_embeddings", CE_KEY_NUMBER, AT(original), "null", 1, 1e9, NULL, "the context before" },
    { "attention_factor", CE_KEY_NUMBER, AT(attention), "null", 1e-6, 1e6, NULL, "yarn, longrope: on cosine, sine" },
    { "beta_fast", CE_KEY_NUMBER, AT(fast), "32", 1e-6, 1e6, NULL, "yarn: pairs that turn as often stay" },
    { "beta_slow", CE_KEY_NUMBER, AT(slow), "1", 1e-6, 1e6, NULL, "yarn: pairs that turn as seldom are stretched" },
    { "truncate", CE_KEY_BOOL, AT(truncate), "true", 0, 0, NULL, "yarn: the ramp ends at whole numbers" },
    { "short_factor", CE_KEY_JSON, AT(shorter), "null", 0, 0, NULL, "longrope: divisors of the frequencies" },
    { "long_factor", CE_KEY_JSON, AT(longer), "null", 0, 0, NULL, "longrope: those of texts longer than before" },
    { "partial_rotary_factor", CE_KEY_NUMBER, AT(partial), "null", 1e-6, 1, NULL,
      "share of the columns of a head, 0 to 1, to which RoPE is applied" },
    { "mscale", CE_KEY_NUMBER, AT(mscale), "null", 0, 1e6, NULL, "yarn: factor in the numerator of attention_factor" },
    { "alpha", CE_KEY_NUMBER, AT(alpha), "null", 0, 1e6, NULL, "dynamic, in Hunyuan: rope_theta grows with it" },
    { "llama_4_scaling_beta", CE_KEY_INERT, 0, "null", 0, 0, NULL,
      "it scales queries beyond original_max_position_embeddings, and longer texts are refused" },
    { "max_position_embeddings", CE_KEY_INERT, 0, "null", 0, 0, NULL, "the key of config.json itself is used" },
    { "mscale_all_dim", CE_KEY_NUMBER, AT(mscale_all), "null", 0, 1e6, NULL, "yarn: that in its denominator" },
};

static void need(ce_json *doc, const char *path, const char *type, const char *key, double value)
{
    if (value == 0)
        ce_json_fault(doc, path, "rope_type \"%s\" needs \"%s\"", type, key);
}

/* Reads a list that has one divisor for each pair of columns of a head. */
static void take_divisors(float *to, const json_t *list, const char *key, int64_t pairs, ce_json *doc, const char *path)
{
    bool good = json_is_array(list) && (int64_t)json_array_size(list) == pairs;
    for (int64_t i = 0; good && i < pairs; i++) {
        to[i] = (float)json_number_value(json_array_get(list, (size_t)i));
        good = to[i] > 0;
    }
    if (!good)
        ce_json_fault(doc, path, "rope_type \"longrope\" needs \"%s\", a list of %lld positive numbers", key,
                      (long long)pairs);
}

/* Returns the type, which two keys may name. As in transformers, "rope_type" counts. */
static int take_type(const rope_keys *k, ce_json *doc, const char *path)
{
    bool same = k->type == k->old_type || (k->type == LONGROPE && k->old_type == SU);
    if (k->type != UNSAID && k->old_type != UNSAID && !same)
        ce_json_warn(doc, path, "rope_type is used and type is ignored, as in transformers: they differ");
    return k->type != UNSAID ? k->type : k->old_type;
}

static void take_part(cs_rope_sizes *sizes, const rope_keys *k, int type, const ce_rotary_input *input, ce_json *doc,
                      const char *path)
{
    if (input->partial == 0 && k->partial != 0 && k->partial != 1 && (type == DEFAULT || type == UNSAID))
        ce_json_warn(doc, path, "partial_rotary_factor has no effect: whole heads are rotated, as in transformers");
    else if (input->partial == 0 && k->partial != 0 && k->partial != 1)
        ce_json_fault(doc, path, "not supported: partial_rotary_factor, because whole heads are turned");
    if (input->partial > 0 && k->partial > 0)
        sizes->width = (int64_t)((double)input->width * k->partial);
}

/* Yarn's factor of cosine and sine for a context that became `factor` times as long. */
static double mscale(double factor, double weight)
{
    return factor <= 1 ? 1 : 0.1 * weight * log(factor) + 1;
}

static void take(cs_rope_sizes *sizes, const rope_keys *k, const ce_rotary_input *input, const json_t *object,
                 ce_json *doc, const char *path)
{
    int type = take_type(k, doc, path);
    sizes->theta = k->theta > 0 ? k->theta : sizes->theta;
    sizes->factor = k->factor;
    sizes->original = input->original > 0 ? (double)input->original
                      : k->original > 0   ? k->original
                                          : (double)input->positions;
    take_part(sizes, k, type, input, doc, path);
    if (input->ntk_alpha && type == DYNAMIC && k->alpha > 0)
        sizes->theta *= pow(k->alpha, (double)sizes->width / (double)(sizes->width - 2));
    if (type == LONGROPE || type == SU) {
        sizes->kind = CS_ROPE_LONG;
        sizes->attention = k->attention;
        sizes->factor = k->factor > 0 ? k->factor : (double)input->positions / sizes->original;
        take_divisors(sizes->shorter, k->shorter, "short_factor", sizes->width / 2, doc, path);
        take_divisors(sizes->longer, k->longer, "long_factor", sizes->width / 2, doc, path);
    } else if (type == LINEAR) {
        sizes->kind = CS_ROPE_LINEAR;
        need(doc, path, "linear", "factor", k->factor);
    } else if (type == LLAMA3) {
        sizes->kind = CS_ROPE_LLAMA3;
        sizes->low = k->low;
        sizes->high = k->high;
        need(doc, path, "llama3", "factor", k->factor);
        need(doc, path, "llama3", "low_freq_factor", k->low);
        need(doc, path, "llama3", "high_freq_factor", k->high);
        if (k->low > 0 && k->high > 0 && k->high <= k->low)
            ce_json_fault(doc, path, "high_freq_factor must be greater than low_freq_factor");
    } else if (type == YARN) {
        sizes->kind = CS_ROPE_YARN;
        sizes->low = k->slow;
        sizes->high = k->fast;
        sizes->factor = k->factor > 0 ? k->factor : (double)input->positions / sizes->original;
        sizes->attention = k->attention;
        if (k->attention == 0 && k->mscale > 0 && k->mscale_all > 0)
            sizes->attention = mscale(sizes->factor, k->mscale) / mscale(sizes->factor, k->mscale_all);
        sizes->truncate = k->truncate;
        if (sizes->attention == 0 && sizes->factor <= 1)
            sizes->attention = 1;
        if (!json_object_get(object, "factor"))
            need(doc, path, "yarn", "factor", 0);
        /* The type "dynamic" changes only sequences longer than max_position_embeddings, which do not occur. */
    }
}

void ce_rotary_read(cs_rope_sizes *sizes, const ce_rotary_input *input, ce_json *doc, const char *path)
{
    bool scaled = input->scaling && (!json_is_object(input->scaling) || json_object_size(input->scaling) > 0);
    json_t *object = scaled ? input->scaling : input->parameters;
    char full[256];
    rope_keys k = { 0 };
    *sizes = (cs_rope_sizes){ .width = input->width, .theta = input->theta, .head = input->width };
    if (input->partial > 0)
        sizes->width = (int64_t)((double)input->width * input->partial);
    snprintf(full, sizeof full, "%s%s%s", path, *path ? "." : "", scaled ? "rope_scaling" : "rope_parameters");
    if (scaled && input->parameters && !json_equal(input->scaling, input->parameters))
        ce_json_warn(doc, path,
                     "rope_scaling counts and rope_parameters does not, as in transformers: both mean the same");
    if (object && !json_is_object(object))
        ce_json_fault(doc, full, "must be an object, or null");
    if (json_is_object(object)) {
        int count = sizeof keys / sizeof *keys;
        CE_FREED ce_key *all = ce_other_keys_add(keys, &count, object, doc, full);
        ce_keys_fill(doc, object, full, &k, all, count);
        take(sizes, &k, input, object, doc, full);
    }
    if (sizes->width % 2 != 0 || sizes->width == 0)
        ce_json_fault(doc, path, "%lld columns of each head are turned: it must be an even number, and at least 2",
                      (long long)sizes->width);
}
