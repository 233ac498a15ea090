/* preference.c - the key table of preference training, cspeed.dpo, and its checks. */
#include "config/resolve.h"
#include "config/rows.h"
#include "data/fill.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define DPO "cspeed.dpo"

#define NAME_OF(name, text) text,
#define LISTED(name, text) " " text
static const char *const losses[] = { CE_PREFERENCE_LOSSES(NAME_OF) };
_Static_assert(sizeof losses / sizeof *losses == CE_PREFERENCE_KINDS, "each loss has a name");

static const ce_key keys[] = {
    SUPPORTED(
        "beta", NUMBER, preference.beta, "0", 0, MAX_EXACT, NULL,
        "DPO's beta: how strongly the model is kept near the reference model, usually 0.1; data are rows with prompt, chosen, rejected; 0: no preference training"),
    SUPPORTED("loss_type", JSON, preference_types, "\"sigmoid\"", 0, 0, NULL,
              "loss of a pair of answers, by TRL's names, or a list of losses that are added:" CE_PREFERENCE_LOSSES(
                  LISTED)),
    SUPPORTED("loss_weights", JSON, preference_weights, "null", 0, 0, NULL,
              "list of the factors of the losses in loss_type; null: all are 1"),
    SUPPORTED(
        "label_smoothing", NUMBER, preference.smoothing, "0", 0, 0.5, NULL,
        "for robust, aot, aot_unpaired, and sigmoid and simpo without a reference: share of pairs whose labels are swapped by mistake, below 0.5 for robust; for exo_pair: epsilon, above 0, usually 1e-3"),
    SUPPORTED(
        "ld_alpha", NUMBER, preference.ld_alpha, "1", 0, 1, NULL,
        "LD-DPO's alpha: factor of the log-probabilities of an answer's tokens beyond the length of the shorter answer"),
    SUPPORTED(
        "f_divergence_type", CHOICE, preference.divergence, "\"reverse_kl\"", 0, 0,
        "reverse_kl|forward_kl|js_divergence|alpha_divergence",
        "f-DPO: the divergence that keeps the model near the reference model; for sigmoid, hinge, ipo, robust, exo_pair, discopop, sft and sigmoid_norm"),
    SUPPORTED("f_alpha_divergence_coef", NUMBER, preference.alpha, "0.5", -MAX_EXACT, MAX_EXACT, NULL,
              "coefficient of alpha_divergence"),
    SUPPORTED("discopop_tau", NUMBER, preference.tau, "0.05", 1e-6, MAX_EXACT, NULL, "temperature of discopop"),
    SUPPORTED(
        "reference", STRING, reference, "null", 0, 0, NULL,
        "Hugging Face folder or Hub name of the reference model; null: the model with which the training starts (load, or model)"),
    SUPPORTED(
        "reference_free", BOOL, preference.reference_free, "false", 0, 0, NULL,
        "true: no reference model, as in TRL's CPOTrainer (CPO, SimPO); loss_type is sigmoid, hinge, ipo or simpo"),
    SUPPORTED(
        "cpo_alpha", NUMBER, cpo_alpha, "0", 0, MAX_EXACT, NULL,
        "with reference_free: factor of the mean of -log p over the tokens of the chosen answers; TRL's default is 1"),
    SUPPORTED("simpo_gamma", NUMBER, preference.gamma, "0.5", 0, MAX_EXACT, NULL,
              "for simpo: the margin of the rewards"),
    REFUSED("use_weighting", "false", "the weights of WPO are not implemented"),
    REFUSED("sync_ref_model", "false", "the log-probabilities of the reference model are computed once, at the start"),
};

const ce_section ce_preference_sections[] = { { DPO, CE_KEYS(keys) } };

/* ---- loss_type and loss_weights ---- */

static int kind_of(const json_t *name)
{
    int kind = 0;
    while (kind < CE_PREFERENCE_KINDS && strcasecmp(losses[kind], json_is_string(name) ? json_string_value(name) : ""))
        kind++;
    return kind;
}

static void read_loss(cs_config *config, const json_t *name, const json_t *weight)
{
    int kind = kind_of(name);
    double *at = config->settings.preference.weights;
    if (kind == CE_PREFERENCE_KINDS)
        ce_json_fault(config->doc, DPO ".loss_type", "it needs names of losses:" CE_PREFERENCE_LOSSES(LISTED));
    else if (at[kind] > 0)
        ce_json_fault(config->doc, DPO ".loss_type", "\"%s\" is listed twice", losses[kind]);
    else if (weight && !(json_number_value(weight) > 0))
        ce_json_fault(config->doc, DPO ".loss_weights", "a weight is a number above 0");
    else
        at[kind] = weight ? json_number_value(weight) : 1;
}

/* Sets the weights of the losses. */
static void read_losses(cs_config *config)
{
    const json_t *types = config->settings.preference_types, *weights = config->settings.preference_weights;
    size_t count = json_is_array(types) ? json_array_size(types) : 1;
    memset(config->settings.preference.weights, 0, sizeof config->settings.preference.weights);
    if (weights && json_array_size(weights) != count) {
        ce_json_fault(config->doc, DPO ".loss_weights",
                      "a list of as many numbers as loss_type has losses is needed: %d", (int)count);
        return;
    }
    if (!types) /* the default */
        config->settings.preference.weights[CE_PREFERENCE_SIGMOID] = 1;
    for (size_t i = 0; types && i < count; i++)
        read_loss(config, json_is_array(types) ? json_array_get(types, i) : types, json_array_get(weights, i));
    if (count == 0)
        ce_json_fault(config->doc, DPO ".loss_type", "the list is empty");
}

/* Returns the name of a loss that is used and that `all`, a list which ends with CE_PREFERENCE_KINDS, contains or lacks,
 * as `contains` says; NULL if there is none. */
static const char *used(const ce_preference *rule, const int *all, bool contains)
{
    for (int kind = 0; kind < CE_PREFERENCE_KINDS; kind++) {
        const int *at = all;
        while (*at != kind && *at != CE_PREFERENCE_KINDS)
            at++;
        if (rule->weights[kind] > 0 && (*at == kind) == contains)
            return losses[kind];
    }
    return NULL;
}

static void refuse(cs_config *config, const char *path, bool given, const char *why)
{
    if (given)
        ce_json_fault(config->doc, path, "not supported: with " DPO ", because %s", why);
}

/* Checks the keys that only trainings with, or only those without a reference model have, and sets the weight of
 * cpo_alpha. */
static void check_free(cs_config *config)
{
    static const int free_losses[] = { CE_PREFERENCE_SIGMOID, CE_PREFERENCE_HINGE, CE_PREFERENCE_IPO,
                                       CE_PREFERENCE_SIMPO, CE_PREFERENCE_KINDS };
    ce_settings *s = &config->settings;
    ce_preference *rule = &s->preference;
    const char *other = used(rule, free_losses, false), *given = rule->ld_alpha < 1                  ? DPO ".ld_alpha"
                                                                 : rule->divergence != CE_REVERSE_KL ? DPO
                                                                     ".f_divergence_type"
                                                                 : s->reference ? DPO ".reference"
                                                                                : NULL;
    if (!rule->reference_free && rule->weights[CE_PREFERENCE_SIMPO] > 0)
        ce_json_fault(config->doc, DPO ".loss_type", "simpo needs " DPO ".reference_free true");
    if (!rule->reference_free && s->cpo_alpha > 0)
        ce_json_fault(config->doc, DPO ".cpo_alpha",
                      "it needs " DPO ".reference_free true; with a reference model, add sft to loss_type");
    if (!rule->reference_free)
        return;
    if (other || json_array_size(s->preference_types) > 1)
        ce_json_fault(config->doc, DPO ".loss_type",
                      "with reference_free one of sigmoid, hinge, ipo and simpo is needed");
    refuse(config, given, given, "there is no reference model (reference_free)");
    rule->weights[CE_PREFERENCE_SFT] = s->cpo_alpha;
}

static void check_losses(cs_config *config)
{
    static const int by_score[] = { CE_PREFERENCE_SIGMOID, CE_PREFERENCE_HINGE,        CE_PREFERENCE_IPO,
                                    CE_PREFERENCE_ROBUST,  CE_PREFERENCE_EXO_PAIR,     CE_PREFERENCE_DISCOPOP,
                                    CE_PREFERENCE_SFT,     CE_PREFERENCE_SIGMOID_NORM, CE_PREFERENCE_KINDS };
    static const int smoothed[] = { CE_PREFERENCE_ROBUST, CE_PREFERENCE_EXO_PAIR, CE_PREFERENCE_AOT,
                                    CE_PREFERENCE_AOT_UNPAIRED, CE_PREFERENCE_KINDS };
    static const int free_smoothed[] = { CE_PREFERENCE_SIGMOID, CE_PREFERENCE_SIMPO, CE_PREFERENCE_KINDS };
    const ce_preference *rule = &config->settings.preference;
    const char *other = used(rule, by_score, false);
    if (rule->divergence != CE_REVERSE_KL && other)
        ce_json_fault(config->doc, DPO ".f_divergence_type", "the loss_type \"%s\" has only reverse_kl", other);
    if (rule->smoothing > 0 && !used(rule, rule->reference_free ? free_smoothed : smoothed, true))
        ce_json_fault(config->doc, DPO ".label_smoothing",
                      "only the loss_types robust, exo_pair, aot and aot_unpaired have it, and with reference_free "
                      "sigmoid and simpo");
    if (rule->smoothing >= 0.5 && rule->weights[CE_PREFERENCE_ROBUST] > 0)
        ce_json_fault(config->doc, DPO ".label_smoothing",
                      "less than 0.5 is needed: with half of the labels wrong the loss has no gradient");
    if (rule->smoothing <= 0 && rule->weights[CE_PREFERENCE_EXO_PAIR] > 0)
        ce_json_fault(config->doc, DPO ".label_smoothing",
                      "exo_pair needs a number above 0; its authors recommend 1e-3");
}

/* Reports an error if the file contains a key that has no effect without cspeed.dpo.beta. */
static void check_off(cs_config *config)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char path[64];
        snprintf(path, sizeof path, DPO ".%s", keys[i].name);
        if (keys[i].type < CE_KEY_INERT && ce_resolve_is_changed(config, path, &keys[i])) {
            ce_json_fault(config->doc, path,
                          "has no effect without " DPO ".beta, which turns preference training on; "
                          "TRL's default is 0.1");
            return;
        }
    }
}

void ce_preference_resolve(cs_config *config)
{
    const ce_settings *s = &config->settings;
    const ce_preference *rule = &s->preference;
    if (rule->beta <= 0) {
        check_off(config);
        return;
    }
    read_losses(config);
    check_losses(config);
    check_free(config);
    refuse(config, "cspeed.data.packing", s->packing == CE_PACK_DOCUMENTS, "each answer is a sequence of its own");
    refuse(config, "cspeed.data.long", s->longer != CE_LONG_AUTO, "an answer is always cut after seq_len tokens");
    refuse(config, "cspeed.data.turns", s->turns != 0, "the answers after the prompt always count in the loss");
    refuse(config, "cspeed.data.weights", s->weighted, "sets of pairs cannot be mixed by weight");
    refuse(config, "cspeed.data.field", strcmp(s->field, "text") != 0,
           "the keys of a pair are prompt, chosen and rejected");
    refuse(config, "cspeed.data.columns", s->columns.count > 0, "the keys of a pair are prompt, chosen and rejected");
    refuse(config, "curriculum_learning", s->curriculum.kind != CE_DIFFICULTY_NONE,
           "an answer that is cut has another log-probability than the reference's");
}
