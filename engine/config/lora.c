/* lora.c - the key table of cspeed.lora, and its checks. */
#include "config/resolve.h"
#include "config/rows.h"

#include <string.h>

static const ce_key keys[] = {
    SUPPORTED("r", INT, lora.r, "0", 0, 65536, NULL,
              "rank of the LoRA adapters (PEFT's r), usually 8 to 64; 0: no LoRA"),
    SUPPORTED("alpha", NUMBER, lora.alpha, "8", 0, INFINITY, NULL,
              "the output of an adapter is multiplied by alpha / r (PEFT's lora_alpha)"),
    SUPPORTED("dropout", NUMBER, lora.dropout, "0", 0, 0.999, NULL,
              "probability of dropout on the input of an adapter (PEFT's lora_dropout)"),
    SUPPORTED(
        "targets", JSON, lora.targets, "null", 0, 0, NULL,
        "the linear layers with adapters (PEFT's target_modules): a list of names such as \"q_proj\", or \"all-linear\"; null: those that PEFT takes for the family"),
    SUPPORTED(
        "rslora", BOOL, lora.rslora, "false", 0, 0, NULL,
        "true: the factor of an adapter is alpha / sqrt(r) instead of alpha / r (PEFT's use_rslora), for large r"),
    SUPPORTED("dora", BOOL, lora.dora, "false", 0, 0, NULL,
              "true: DoRA, which also trains the norm of each weight vector (PEFT's use_dora); needs dropout 0"),
    SUPPORTED("bias", CHOICE, lora.bias, "\"none\"", 0, 0, "none|all|lora_only",
              "which biases of the model are trained too: all, or those of the layers that have adapters"),
    SUPPORTED(
        "adapter", STRING, lora.adapter, "null", 0, 0, NULL,
        "folder of PEFT to start from; r, alpha, rslora, dora, bias and targets are those of its adapter_config.json, and so is dropout if it is not given"),
    SUPPORTED(
        "merge", BOOL, lora.merge, "false", 0, 0, NULL,
        "true: cspeed.export writes the whole model with the adapters added to its weights; false: an adapter folder for PEFT"),
    REFUSED("qlora", "false", "its name here is cspeed.quantization_config.load_in_4bit"),
    REFUSED("modules_to_save", "null", "no module can be trained in full beside the adapters, only biases"),
    REFUSED("init_lora_weights", "true",
            "adapters are always initialized by PEFT's default: A uniform within 1/sqrt(inputs), B zero"),
    REFUSED("rank_pattern", "{}", "all adapters have the same rank"),
    REFUSED("alpha_pattern", "{}", "all adapters have the same alpha"),
    REFUSED("lora_alpha", "null", "its name here is cspeed.lora.alpha"),
    REFUSED("lora_dropout", "null", "its name here is cspeed.lora.dropout"),
    REFUSED("target_modules", "null", "its name here is cspeed.lora.targets"),
    REFUSED("use_rslora", "false", "its name here is cspeed.lora.rslora"),
    REFUSED("use_dora", "false", "its name here is cspeed.lora.dora"),
};

const ce_section ce_lora_sections[] = { { "cspeed.lora", CE_KEYS(keys) } };

/* True if the value is "all-linear" or a list of names. */
static bool are_targets(const json_t *value)
{
    size_t index;
    json_t *name;
    json_array_foreach (value, index, name) {
        if (!json_is_string(name) || !*json_string_value(name))
            return false;
    }
    return json_is_array(value) ? json_array_size(value) > 0
                                : json_is_string(value) && strcmp(json_string_value(value), "all-linear") == 0;
}

void ce_lora_resolve(cs_config *config)
{
    static const char *const of_folder[] = { "cspeed.lora.r",    "cspeed.lora.alpha", "cspeed.lora.rslora",
                                             "cspeed.lora.dora", "cspeed.lora.bias",  "cspeed.lora.targets" };
    const ce_lora_settings *lora = &config->settings.lora;
    bool other = lora->alpha < 8 || lora->alpha > 8 || lora->dropout > 0 || lora->rslora || lora->targets ||
                 lora->dora || lora->bias;
    if (lora->targets && !are_targets(lora->targets))
        ce_json_fault(config->doc, "cspeed.lora.targets",
                      "a list of names such as [\"q_proj\", \"v_proj\"] is needed, or \"all-linear\"; regular "
                      "expressions are not supported");
    if (lora->dora && lora->dropout > 0 && !config->reads)
        ce_json_fault(config->doc, "cspeed.lora.dropout",
                      "not supported: %g with DoRA, which would have to compute each product of the weights twice: "
                      "set it to 0, or cspeed.lora.dora to false",
                      lora->dropout);
    if (lora->r == 0 && !lora->adapter && other)
        ce_json_fault(config->doc, "cspeed.lora", "it has no effect without a rank: set cspeed.lora.r");
    for (size_t i = 0; lora->adapter && i < sizeof of_folder / sizeof *of_folder; i++)
        if (ce_resolve_is_given(config, of_folder[i]))
            ce_json_fault(config->doc, of_folder[i],
                          config->reads ? "the checkpoint has adapters of its own, so it takes no others"
                                        : "cspeed.lora.adapter's adapter_config.json sets it: remove this key");
}
