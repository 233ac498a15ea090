/* lora_rules.c - how keys about adapters and 4-bit weights become keys of the configuration, and what is set after all keys
 * were converted. */
#include "base/must.h"
#include "recipe/values.h"

#include <string.h>

/* The method names adapters. The rank, and what the trainer sets if the recipe does not say it, are set at the end
 * (cl_rules_finish). */
bool cl_rule_adapter(cl_conversion *c, const char *path, const json_t *value)
{
    (void)path;
    if (cl_value_is_off(value) || cl_value_is(value, "full"))
        return true;
    if (json_is_string(value) && !cl_value_is(value, "lora") && !cl_value_is(value, "qlora"))
        return cl_rules_no(c, "the adapters are LoRA and DoRA");
    if (cl_value_is(value, "qlora"))
        cl_rules_set(c, "cspeed.quantization_config.load_in_4bit", json_true());
    return true;
}

static bool has(const cl_conversion *c, const char *key)
{
    return !cl_value_is_off(json_object_get(c->from, key));
}

/* Sets a number of the section lora if the recipe has none. */
static void lora_default(cl_conversion *c, const char *key, json_t *value)
{
    const json_t *lora = json_object_get(json_object_get(c->to->config, "cspeed"), "lora");
    CE_FREED char *path = ce_must_print("cspeed.lora.%s", key);
    if (json_object_get(lora, key))
        json_decref(value);
    else
        cl_rules_set(c, path, value);
}

/* Adapters: the defaults of the trainer, or no section if the recipe trains the whole model. */
static void finish_lora(cl_conversion *c)
{
    static const char *const methods[] = { "adapter", "finetuning_type", "use_peft" };
    bool named = false, wanted = false;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        const json_t *value = json_object_get(c->from, methods[i]);
        named = named || value;
        wanted = wanted || (has(c, methods[i]) && !cl_value_is(value, "full") && !cl_value_is(value, "freeze"));
    }
    if (named && !wanted) {
        json_object_del(json_object_get(c->to->config, "cspeed"), "lora");
    } else if (wanted && has(c, "use_peft")) { /* TRL's ModelConfig */
        lora_default(c, "r", json_integer(16));
        lora_default(c, "alpha", json_integer(32));
        lora_default(c, "dropout", json_real(0.05));
    } else if (wanted) {
        lora_default(c, "r", json_integer(8));
        const json_t *lora = json_object_get(json_object_get(c->to->config, "cspeed"), "lora");
        if (has(c, "finetuning_type")) /* LLaMA-Factory takes twice the rank */
            lora_default(c, "alpha", json_integer(2 * json_integer_value(json_object_get(lora, "r"))));
    }
}

static bool is_preference(const cl_conversion *c)
{
    return has(c, "rl") || cl_value_is(json_object_get(c->from, "stage"), "dpo") || has(c, "beta");
}

/* Without packing a sample of other trainers never reaches into another one. */
static void finish_packing(cl_conversion *c)
{
    const json_t *data = json_object_get(json_object_get(c->to->config, "cspeed"), "data");
    bool windows = cl_value_is(json_object_get(c->from, "stage"), "pt") || is_preference(c);
    if (!windows && !json_object_get(data, "packing"))
        cl_rules_set(c, "cspeed.data.packing", json_string("documents"));
}

void cl_rules_finish(cl_conversion *c)
{
    finish_lora(c);
    finish_packing(c);
}

bool cl_rule_bits(cl_conversion *c, const char *path, const json_t *value)
{
    if (cl_value_is_off(value))
        return true;
    if (json_integer_value(value) != 4)
        return cl_rules_no(c, "weights are quantised to 4 bits only");
    cl_rules_set(c, path, json_true());
    return true;
}

bool cl_rule_targets(cl_conversion *c, const char *path, const json_t *value)
{
    bool all = cl_value_is(value, "all") || cl_value_is(value, "all-linear");
    bool expression = strpbrk(cl_value_text(value), "\\.*+?()[]|^$") != NULL;
    cl_rules_set(c, path, all ? json_string("all-linear") : expression ? json_deep_copy(value) : cl_value_list(value));
    return true;
}
