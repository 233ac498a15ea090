/* quantization.c - the key table of cspeed.quantization_config, by the names of Hugging Face's BitsAndBytesConfig. */
#include "config/resolve.h"
#include "config/rows.h"

#include <string.h>

#define OF_8BIT "weights of 8 bits are not implemented; load_in_4bit gives weights of 4 bits"

static const ce_key keys[] = {
    SUPPORTED("load_in_4bit", BOOL, quantization.on, "false", 0, 0, NULL,
              "true: QLoRA; the frozen weights of linear layers, except the head, take 4 bits; needs cspeed.lora"),
    SUPPORTED("bnb_4bit_quant_type", CHOICE, quantization.type, "\"nf4\"", 0, 0, "nf4|fp4",
              "the 16 values: nf4, quantiles of the normal distribution, or fp4, floating-point numbers"),
    SUPPORTED(
        "bnb_4bit_use_double_quant", BOOL, quantization.twice, "true", 0, 0, NULL,
        "true: the factors of the blocks of 64 weights take 8 bits instead of 32: 4.13 bits a weight instead of 4.5"),
    SUPPORTED(
        "bnb_4bit_compute_dtype", STRING, quantization.compute, "null", 0, 0, NULL,
        "the type of matrix products, float32, bfloat16 or float16: it has to be the type that bf16.enabled and fp16.enabled say; null: that type"),
    SUPPORTED(
        "llm_int8_skip_modules", JSON, quantization.skip, "null", 0, 0, NULL,
        "list of layers that keep their numbers: a layer whose name, such as model.layers.0.mlp.down_proj, begins or ends with an item"),
    INERT_LIKE("quant_method", "\"\"", "bitsandbytes is the only method here"),
    INERT("_load_in_4bit", "false", "transformers writes it beside load_in_4bit"),
    INERT("bnb_4bit_quant_storage", "\"uint8\"", "codes are bytes in memory, and ZeRO divides the bytes"),
    INERT("llm_int8_threshold", "6.0", "it is for weights of 8 bits"),
    INERT("llm_int8_has_fp16_weight", "false", "it is for weights of 8 bits"),
    INERT("llm_int8_enable_fp32_cpu_offload", "false", "it is for weights of 8 bits"),
    REFUSED("load_in_8bit", "false", OF_8BIT),
    REFUSED("_load_in_8bit", "false", OF_8BIT),
};

const ce_section ce_quantization_sections[] = { { "cspeed.quantization_config", CE_KEYS(keys) } };

static bool are_names(const json_t *value)
{
    size_t index;
    json_t *name;
    json_array_foreach (value, index, name) {
        if (!json_is_string(name) || !*json_string_value(name))
            return false;
    }
    return json_is_array(value);
}

void ce_quantization_resolve(cs_config *config)
{
    static const char *const types[] = { [CS_F32] = "float32", [CS_BF16] = "bfloat16", [CS_F16] = "float16" };
    const ce_quantization_settings *given = &config->settings.quantization;
    const char *type = types[config->settings.precision.products];
    if (given->skip && !are_names(given->skip))
        ce_json_fault(config->doc, "cspeed.quantization_config.llm_int8_skip_modules", "a list of names is needed");
    if (given->on && given->compute && strcmp(given->compute, type) != 0)
        ce_json_fault(config->doc, "cspeed.quantization_config.bnb_4bit_compute_dtype",
                      "%.40s is not the type of products that bf16.enabled and fp16.enabled say: %s", given->compute,
                      type);
    if (given->on && config->settings.lora.r == 0 && !config->settings.lora.adapter && !config->reads)
        ce_json_fault(config->doc, "cspeed.quantization_config.load_in_4bit",
                      "weights of 4 bits cannot be trained: set cspeed.lora.r or cspeed.lora.adapter, so that adapters "
                      "beside them are");
}
