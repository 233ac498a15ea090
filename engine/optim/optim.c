/* optim.c - optimizers: their table, the hyper-parameters of one step, and the section "optimizer" of a
 * configuration. */
#include "optim/optim.h"
#include "json/value.h"
#include "optim/rules.h"
#include "optim/types.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

ce_optimizer ce_optim_find(const ce_optim_settings *settings)
{
    static const ce_optimizer list[] = {
#define ENTRY(constant, name, slots, first, second, directs)                                                           \
    [CE_OPTIM_##constant] = { CE_OPTIM_##constant, name, slots, { first, second }, 0, directs, false },
#define RULE(function, constant, ...) ENTRY(constant, __VA_ARGS__, false)
#define DIRECTION(function, constant, ...) ENTRY(constant, __VA_ARGS__, true)
#include "optim/rules.h"
    };
    ce_optimizer found = list[settings->kind];
    found.blocks = settings->bits == 8;
    if (found.kind == CE_OPTIM_ADAGRAD)
        found.first_value = (float)settings->first_sum;
    if (found.kind == CE_OPTIM_SGD && settings->momentum == 0) {
        found.slots = 0;
        found.slot_names[0] = NULL;
    }
    return found;
}

bool ce_optim_has_betas(const ce_optim_settings *settings)
{
    return ce_optim_find(settings).slots == 2 || settings->kind == CE_OPTIM_LION;
}

ce_optim_settings ce_optim_beside_blocks(const ce_optim_settings *settings)
{
    ce_optim_settings other = *settings;
    other.bits = 32;
    return other;
}

ce_optim_settings ce_optim_beside_muon(const ce_optim_settings *settings)
{
    ce_optim_settings other = *settings;
    other.kind = CE_OPTIM_ADAMW;
    other.rate = settings->other_rate;
    other.bias_correction = true;
    return other;
}

/* For LAMB, correction1 combines both bias corrections into one factor of the step. For Adagrad, lr_decay is applied to
 * the rate. */
ce_hyper ce_optim_hyper(const ce_optim_settings *settings, double rate, int64_t t, double grad_scale)
{
    int kind = settings->kind;
    bool betas = ce_optim_has_betas(settings);
    bool corrects = betas && kind != CE_OPTIM_LION && settings->bias_correction;
    double one = betas ? settings->betas[0] : settings->momentum;
    double two = betas ? settings->betas[1] : settings->dampening;
    double correction1 = corrects ? 1 / (1 - pow(one, (double)t)) : 1,
           correction2 = corrects ? 1 / (1 - pow(two, (double)t)) : 1;
    if (kind == CE_OPTIM_ADAGRAD)
        rate /= 1 + (double)(t - 1) * settings->lr_decay;
    return (ce_hyper){
        .rate = (float)rate,
        .beta1 = (float)one,
        .beta2 = (float)two,
        .one_minus_beta1 = (float)(1 - one),
        .one_minus_beta2 = (float)(1 - two),
        .epsilon = (float)settings->epsilon,
        .decay = (float)settings->weight_decay,
        .correction1 = (float)(kind == CE_OPTIM_LAMB ? correction1 / sqrt(correction2) : correction1),
        .correction2 = (float)correction2,
        .grad_scale = (float)grad_scale,
        .nesterov = settings->nesterov,
        .first = t == 1,
        .inside_root = settings->inside_root,
    };
}

/* ---- reading ---- */

static void check(ce_json *doc, const char *path, const ce_optim_settings *settings)
{
    char at[128];
    int kind = settings->kind;
    snprintf(at, sizeof at, "%s.betas", path);
    if ((kind == CE_OPTIM_MUON || ce_optim_has_betas(settings)) && (settings->betas[0] >= 1 || settings->betas[1] >= 1))
        ce_json_fault(doc, at, "both must be below 1, not [%g, %g]", settings->betas[0], settings->betas[1]);
    snprintf(at, sizeof at, "%s.nesterov", path);
    if (kind == CE_OPTIM_SGD && settings->nesterov && (settings->momentum == 0 || settings->dampening != 0))
        ce_json_fault(doc, at, "Nesterov needs a momentum above 0 and a dampening of 0, not %g and %g",
                      settings->momentum, settings->dampening);
    snprintf(at, sizeof at, "%s.min_coeff", path);
    if (kind == CE_OPTIM_LAMB && settings->min_ratio > settings->max_ratio)
        ce_json_fault(doc, at, "%g is above max_coeff, %g", settings->min_ratio, settings->max_ratio);
    snprintf(at, sizeof at, "%s.optim_bits", path);
    if (settings->bits != 8 && settings->bits != 32)
        ce_json_fault(doc, at, "8 or 32 is needed, not %lld", (long long)settings->bits);
    snprintf(at, sizeof at, "%s.momentum", path);
    if (kind == CE_OPTIM_MUON && settings->momentum >= 1)
        ce_json_fault(doc, at, "it must be below 1, not %g", settings->momentum);
}

static bool gives(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value && !json_is_null(value) && !ce_value_is_auto(value);
}

/* Sets matrix_rate (the key muon_lr) and other_rate (the key adam_lr) if `object` does not contain these keys. If
 * `object` contains lr, lr is their value. Otherwise a rate that is not set yet (below 0) gets its default: matrix_rate
 * becomes settings->rate, and other_rate becomes 3e-4. */
static void settle_rates(const json_t *object, ce_optim_settings *settings)
{
    bool both = gives(object, "lr");
    if (!gives(object, "muon_lr") && (both || settings->matrix_rate < 0))
        settings->matrix_rate = settings->rate;
    if (!gives(object, "adam_lr") && (both || settings->other_rate < 0))
        settings->other_rate = both ? settings->rate : 3e-4;
    if (settings->kind == CE_OPTIM_MUON)
        settings->rate = settings->matrix_rate;
}

typedef struct {
    const char *type;
} section_text;

static const ce_key section_keys[] = {
    { "type", CE_KEY_STRING, offsetof(section_text, type), "null", 0, 0, NULL,
#define RULE(function, constant, name, ...) name ", "
#include "optim/rules.h"
      "in upper or lower case; Adam is AdamW, as in DeepSpeed, unless adam_w_mode is false" },
    { "params", CE_KEY_SECTION, 0, "{}", 0, 0, NULL, "see the tables below" },
    { "legacy_fusion", CE_KEY_INERT, 0, "false", 0, 0, NULL, "there is only one implementation of the update" },
};

void ce_optim_read(ce_json *doc, json_t *section, ce_optim_settings *settings)
{
    section_text text;
    int64_t bits = 0; /* those of the type's name, if it says them */
    const ce_type *type = ce_types_of(CE_OPTIM_ADAMW);
    json_t *params = json_object_get(section, "params");
    memset(settings, 0, sizeof *settings);
    ce_types_default(settings);
    ce_keys_fill(doc, section, "optimizer", &text, CE_KEYS(section_keys));
    if (section && !text.type)
        ce_types_missing(doc);
    else if (section)
        type = ce_types_find(doc, text.type, &bits);
    if (!type || (section && !text.type))
        return;
    ce_keys_fill(doc, params, "optimizer.params", settings, type->keys, type->count);
    bool decoupled = type->kind == CE_OPTIM_ADAM && settings->adam_w_mode;
    if (gives(params, "optim_bits") && bits != 0 && settings->bits != bits)
        ce_json_fault(doc, "optimizer.params.optim_bits", "the type %s has %lld bits", text.type, (long long)bits);
    settings->bits = gives(params, "optim_bits") ? settings->bits : bits ? bits : 32;
    settings->kind = (int)(decoupled ? CE_OPTIM_ADAMW : type->kind);
    if (decoupled && strcasecmp(text.type, "Adam") == 0)
        ce_json_note(doc, "optimizer.type",
                     "\"Adam\" is AdamW, as in DeepSpeed, because adam_w_mode is true by default; "
                     "--set optimizer.params.adam_w_mode=false is Adam with L2");
    settle_rates(params, settings);
    check(doc, "optimizer.params", settings);
    ce_keys_settle(doc, params, "optimizer.params", settings, type->keys, type->count);
}

static void override(ce_json *doc, const char *path, const char *name, const json_t *value, ce_optim_settings *settings)
{
    char full[160];
    int count;
    const ce_key *keys = ce_optim_keys(settings, &count), *key = ce_keys_find(keys, count, name);
    const char *near = ce_keys_nearest(keys, count, name);
    snprintf(full, sizeof full, "%s.%.64s", path, name);
    if (!key)
        ce_json_unknown(doc, full, "unknown key; the nearest known one is \"%s\"", near ? near : "params");
    else if (key->type > CE_KEY_PAIR || key->type == CE_KEY_CHOICE || strcmp(name, "adam_w_mode") == 0)
        ce_json_fault(doc, full, "a parameter group cannot set this key: set it in optimizer.params");
    else if (ce_value_is_auto(value))
        ce_json_fault(doc, full, "\"auto\" cannot be resolved here: give the value, or leave the key out");
    else if (!json_is_null(value))
        ce_value_read(&(ce_value){ doc, key, full, value, (char *)settings + key->offset });
}

void ce_optim_override(ce_json *doc, json_t *object, const char *path, ce_optim_settings *settings)
{
    const char *name;
    json_t *value;
    json_object_foreach (object, name, value) {
        if (*name != '_' && strcmp(name, "params") != 0 && strcmp(name, "train") != 0)
            override(doc, path, name, value, settings);
    }
    settle_rates(object, settings);
    check(doc, path, settings);
}

const ce_key *ce_optim_keys(const ce_optim_settings *settings, int *count)
{
    const ce_type *type = ce_types_of(settings->kind);
    *count = type->count;
    return type->keys;
}

const ce_key *ce_optim_section(int *count)
{
    *count = sizeof section_keys / sizeof *section_keys;
    return section_keys;
}

void ce_optim_help(void)
{
    ce_keys_help("optimizer", CE_KEYS(section_keys));
    ce_types_help();
}
