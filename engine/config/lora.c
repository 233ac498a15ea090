/* lora.c - the key table of cspeed.lora, and its checks. */
#include "base/must.h"
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
        "the linear layers with adapters (PEFT's target_modules): a list of names such as \"q_proj\", \"all-linear\", or one regular expression for whole names; null: those that PEFT takes for the family"),
    SUPPORTED(
        "exclude_modules", JSON, lora.peft[CE_PEFT_EXCLUDED], "null", 0, 0, NULL,
        "layers that `targets` names and that get no adapter: a list of names, or one regular expression for whole names"),
    SUPPORTED(
        "layers_to_transform", JSON, lora.peft[CE_PEFT_LAYERS], "null", 0, 0, NULL,
        "number, or list of numbers, of the model's layers with adapters; null: all; needs a list of names as targets"),
    SUPPORTED(
        "layers_pattern", JSON, lora.peft[CE_PEFT_LAYERS_OF], "null", 0, 0, NULL,
        "name, or list of names, in front of the numbers of layers_to_transform, such as \"layers\" or \"h\"; null: any"),
    SUPPORTED(
        "rank_pattern", JSON, lora.peft[CE_PEFT_RANKS], "null", 0, 0, NULL,
        "ranks that differ from r: an object of names of layers, or regular expressions for the ends of their names, and ranks"),
    SUPPORTED(
        "modules_to_save", JSON, lora.peft[CE_PEFT_MODULES], "null", 0, 0, NULL,
        "list of modules that are trained in full beside the adapters, such as \"embed_tokens\", \"lm_head\" or \"norm\": all whose names end with an item"),
    SUPPORTED(
        "ensure_weight_tying", JSON, lora.peft[CE_PEFT_TIES], "null", 0, 0, NULL,
        "true: a head that is tied to the token table stays tied if modules_to_save names one of them; false or null: each is a matrix of its own then"),
    SUPPORTED(
        "init_lora_weights", JSON, lora.peft[CE_PEFT_INIT], "null", 0, 0, NULL,
        "first values of new adapters, whose B is zero: true or null: A uniform within 1/sqrt(inputs); \"gaussian\": A normal with deviation 1/r"),
    SUPPORTED(
        "loraplus_lr_ratio", NUMBER, lora.plus, "0", 0, 1e6, NULL,
        "LoRA+: B, magnitudes and biases of adapters have the learning rate optimizer.params.lr times this, such as 16; 0: no LoRA+"),
    SUPPORTED("alpha_pattern", JSON, lora.peft[CE_PEFT_ALPHAS], "null", 0, 0, NULL,
              "values of alpha that differ from alpha, written as in rank_pattern"),
    SUPPORTED(
        "rslora", BOOL, lora.rslora, "false", 0, 0, NULL,
        "true: the factor of an adapter is alpha / sqrt(r) instead of alpha / r (PEFT's use_rslora), for large r"),
    SUPPORTED("dora", BOOL, lora.dora, "false", 0, 0, NULL,
              "true: DoRA, which also trains the norm of each weight vector (PEFT's use_dora); needs dropout 0"),
    SUPPORTED("bias", CHOICE, lora.bias, "\"none\"", 0, 0, "none|all|lora_only",
              "which biases of the model are trained too: all, or those of the layers that have adapters"),
    SUPPORTED(
        "adapter", STRING, lora.adapter, "null", 0, 0, NULL,
        "folder of PEFT to start from; all keys that its adapter_config.json sets are those of the folder, except dropout if it is given here"),
    SUPPORTED(
        "merge", BOOL, lora.merge, "false", 0, 0, NULL,
        "true: cspeed.export writes the whole model with the adapters added to its weights; false: an adapter folder for PEFT"),
    REFUSED("qlora", "false", "its name here is cspeed.quantization_config.load_in_4bit"),
    REFUSED("lora_alpha", "null", "its name here is cspeed.lora.alpha"),
    REFUSED("lora_dropout", "null", "its name here is cspeed.lora.dropout"),
    REFUSED("target_modules", "null", "its name here is cspeed.lora.targets"),
    REFUSED("use_rslora", "false", "its name here is cspeed.lora.rslora"),
    REFUSED("use_dora", "false", "its name here is cspeed.lora.dora"),
};

const ce_section ce_lora_sections[] = { { "cspeed.lora", CE_KEYS(keys) } };

const char *const ce_config_peft_keys[CE_PEFT_KEYS] = {
    [CE_PEFT_RANKS] = "rank_pattern",         [CE_PEFT_ALPHAS] = "alpha_pattern",
    [CE_PEFT_LAYERS] = "layers_to_transform", [CE_PEFT_LAYERS_OF] = "layers_pattern",
    [CE_PEFT_EXCLUDED] = "exclude_modules",   [CE_PEFT_MODULES] = "modules_to_save",
    [CE_PEFT_TIES] = "ensure_weight_tying",   [CE_PEFT_INIT] = "init_lora_weights",
};

/* ---- forms of values ---- */

static bool is_name(const json_t *value)
{
    return json_is_string(value) && *json_string_value(value);
}

static bool is_rank(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) > 0 && json_integer_value(value) <= 65536;
}

static bool is_number(const json_t *value)
{
    return json_is_number(value) && json_number_value(value) >= 0;
}

static bool is_index(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

/* True if the value is a list that is not empty, all of whose items have the form. */
static bool is_list(const json_t *value, bool (*form)(const json_t *))
{
    size_t index;
    json_t *item;
    json_array_foreach (value, index, item) {
        if (!form(item))
            return false;
    }
    return json_array_size(value) > 0;
}

static bool is_map(const json_t *value, bool (*form)(const json_t *))
{
    const char *key;
    json_t *item;
    json_object_foreach ((json_t *)value, key, item) {
        if (!form(item))
            return false;
    }
    return json_is_object(value);
}

const char *ce_config_peft_fault(int key, const json_t *value)
{
    switch (key) {
    case CE_PEFT_RANKS:
        return is_map(value, is_rank) ? NULL : "an object is needed whose values are ranks from 1 to 65536";
    case CE_PEFT_ALPHAS:
        return is_map(value, is_number) ? NULL : "an object is needed whose values are numbers";
    case CE_PEFT_LAYERS:
        return is_index(value) || is_list(value, is_index) ? NULL
                                                           : "the number of a layer is needed, or a list of numbers";
    case CE_PEFT_MODULES:
        return is_list(value, is_name) ? NULL : "a list of names is needed";
    case CE_PEFT_INIT:
        return json_is_true(value) || (is_name(value) && strcmp(json_string_value(value), "gaussian") == 0)
                   ? NULL
                   : "not supported: other values than true and \"gaussian\"; PiSSA, OLoRA, CorDA and LoftQ change the "
                     "frozen weights, and EVA, LoRA-GA and orthogonal begin with a decomposition that is not computed here";
    case CE_PEFT_TIES:
        return json_is_boolean(value) ? NULL : "true or false is needed";
    default:
        return is_name(value) || is_list(value, is_name) ? NULL : "a name is needed, or a list of names";
    }
}

/* ---- the section ---- */

static void refuse_beside_folder(cs_config *config, const char *path)
{
    ce_json_fault(config->doc, path,
                  config->reads ? "the checkpoint has adapters of its own, so it takes no others"
                                : "cspeed.lora.adapter's adapter_config.json sets it: remove this key");
}

static void check_peft(cs_config *config, const ce_lora_settings *lora)
{
    for (int i = 0; i < CE_PEFT_KEYS; i++) {
        const char *fault = lora->peft[i] ? ce_config_peft_fault(i, lora->peft[i]) : NULL;
        CE_FREED char *path = ce_must_print("cspeed.lora.%s", ce_config_peft_keys[i]);
        if (fault)
            ce_json_fault(config->doc, path, "%s", fault);
        if (lora->peft[i] && lora->adapter)
            refuse_beside_folder(config, path);
    }
    if (lora->peft[CE_PEFT_LAYERS] && json_is_string(lora->targets))
        ce_json_fault(config->doc, "cspeed.lora.layers_to_transform",
                      "it needs a list of names in cspeed.lora.targets; a regular expression can name the layers");
    if (lora->peft[CE_PEFT_LAYERS_OF] && !lora->peft[CE_PEFT_LAYERS])
        ce_json_fault(config->doc, "cspeed.lora.layers_pattern", "it needs cspeed.lora.layers_to_transform");
}

void ce_lora_resolve(cs_config *config)
{
    static const char *const of_folder[] = { "cspeed.lora.r",    "cspeed.lora.alpha", "cspeed.lora.rslora",
                                             "cspeed.lora.dora", "cspeed.lora.bias",  "cspeed.lora.targets" };
    const ce_lora_settings *lora = &config->settings.lora;
    bool other = lora->alpha < 8 || lora->alpha > 8 || lora->dropout > 0 || lora->rslora || lora->targets ||
                 lora->dora || lora->bias;
    for (int i = 0; i < CE_PEFT_KEYS; i++)
        other = other || lora->peft[i];
    other = other || lora->plus > 0;
    check_peft(config, lora);
    if (lora->targets && !is_name(lora->targets) && !is_list(lora->targets, is_name))
        ce_json_fault(config->doc, "cspeed.lora.targets",
                      "a list of names such as [\"q_proj\", \"v_proj\"] is needed, or \"all-linear\", or a regular "
                      "expression for the whole names of layers");
    if (lora->dora && lora->dropout > 0 && !config->reads)
        ce_json_fault(config->doc, "cspeed.lora.dropout",
                      "not supported: %g with DoRA, which would have to compute each product of the weights twice: "
                      "set it to 0, or cspeed.lora.dora to false",
                      lora->dropout);
    if (lora->r == 0 && !lora->adapter && other)
        ce_json_fault(config->doc, "cspeed.lora", "it has no effect without a rank: set cspeed.lora.r");
    for (size_t i = 0; lora->adapter && i < sizeof of_folder / sizeof *of_folder; i++)
        if (ce_resolve_is_given(config, of_folder[i]))
            refuse_beside_folder(config, of_folder[i]);
}

/* The group comes first, so that a group of the user's for all parameters does not have those of LoRA+. */
void ce_lora_groups(cs_config *config)
{
    ce_settings *s = &config->settings;
    if (s->lora.plus <= 0 || (s->param_groups && !json_is_array(s->param_groups)))
        return;
    json_t *params = json_pack("[s]", "*.lora_B.weight");
    if (s->lora.dora)
        json_array_append_new(params, json_string("*.lora_magnitude_vector"));
    if (s->lora.bias)
        json_array_append_new(params, json_string("*.bias"));
    json_t *groups = json_pack("[{s:o, s:f}]", "params", params, "lr", s->optim.rate * s->lora.plus);
    json_array_extend(groups, s->param_groups);
    json_object_set_new(ce_json_find(config->doc, "cspeed"), "param_groups", groups);
    json_object_set_new(ce_json_find(config->doc, "cspeed.lora"), "loraplus_lr_ratio",
                        json_integer(0)); /* the group has it */
    s->param_groups = groups;
}
