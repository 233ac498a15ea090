/* preference.c - the key table of preference training, cspeed.dpo, and its checks. */
#include "config/resolve.h"
#include "config/rows.h"
#include "data/fill.h"

#include <string.h>

#define DPO "cspeed.dpo"

static const ce_key keys[] = {
    SUPPORTED(
        "beta", NUMBER, preference.beta, "0", 0, MAX_EXACT, NULL,
        "DPO's beta: how strongly the model is kept near the reference model, usually 0.1; data are rows with prompt, chosen, rejected; 0: no preference training"),
    SUPPORTED("loss_type", CHOICE, preference.kind, "\"sigmoid\"", 0, 0, "sigmoid|hinge|ipo|robust",
              "loss of a pair of answers, by TRL's names; sigmoid is the loss of DPO"),
    SUPPORTED("label_smoothing", NUMBER, preference.smoothing, "0", 0, 0.5, NULL,
              "for robust: share of pairs whose labels are swapped by mistake, below 0.5"),
    SUPPORTED(
        "reference", STRING, reference, "null", 0, 0, NULL,
        "Hugging Face folder or Hub name of the reference model; null: the model with which the training starts (load, or model)"),
};

const ce_section ce_preference_sections[] = { { DPO, CE_KEYS(keys) } };

static void refuse(cs_config *config, const char *path, bool given, const char *why)
{
    if (given)
        ce_json_fault(config->doc, path, "not supported: with " DPO ", because %s", why);
}

/* Reports an error if the file contains a key that has no effect without cspeed.dpo.beta. */
static void check_off(cs_config *config)
{
    const ce_settings *s = &config->settings;
    const char *given = s->preference.kind != CE_PREFERENCE_SIGMOID ? DPO ".loss_type"
                        : s->preference.smoothing > 0               ? DPO ".label_smoothing"
                        : s->reference                              ? DPO ".reference"
                                                                    : NULL;
    if (given)
        ce_json_fault(config->doc, given,
                      "has no effect without " DPO ".beta, which turns preference training on; "
                      "TRL's default is 0.1");
}

void ce_preference_resolve(cs_config *config)
{
    const ce_settings *s = &config->settings;
    const ce_preference *rule = &s->preference;
    if (rule->beta <= 0) {
        check_off(config);
        return;
    }
    if (rule->smoothing > 0 && rule->kind != CE_PREFERENCE_ROBUST)
        ce_json_fault(config->doc, DPO ".label_smoothing", "only the loss_type \"robust\" has it");
    if (rule->smoothing >= 0.5)
        ce_json_fault(config->doc, DPO ".label_smoothing",
                      "less than 0.5 is needed: with half of the labels wrong the loss has no gradient");
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
