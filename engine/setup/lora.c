/* lora.c - the section cspeed.lora of the configuration: which layers get adapters. */
#include "base/must.h"
#include "setup/setup.h"
#include "saving/saving.h"
#include "base/log.h"
#include "config/resolve.h"

#include <string.h>

/* The layers to which PEFT adds adapters by default, for the families that cspeed knows. */
static const struct {
    const char *type, *targets[4];
} families[] = {
    { "gpt2", { "c_attn" } },
    { "gpt_neox", { "query_key_value" } },
    { "falcon", { "query_key_value" } },
    { "llama", { "q_proj", "v_proj" } },
    { "mistral", { "q_proj", "v_proj" } },
    { "mixtral", { "q_proj", "v_proj" } },
    { "qwen2", { "q_proj", "v_proj" } },
    { "qwen3", { "q_proj", "v_proj" } },
    { "gemma", { "q_proj", "v_proj" } },
    { "gemma2", { "q_proj", "v_proj" } },
    { "gemma3_text", { "q_proj", "v_proj" } },
};

/* Returns a new list of the layers to which PEFT adds adapters by default; NULL if PEFT has no default for this
 * family. */
static json_t *usual_targets(const cs_engine *engine)
{
    const char *type = json_string_value(json_object_get(engine->model_json, "model_type"));
    for (size_t i = 0; type && i < sizeof families / sizeof *families; i++) {
        if (strcmp(families[i].type, type) != 0)
            continue;
        json_t *list = json_array();
        for (int at = 0; at < 4 && families[i].targets[at]; at++)
            json_array_append_new(list, json_string(families[i].targets[at]));
        return list;
    }
    return NULL;
}

static cs_status attach(cs_engine *engine, ce_lora_settings *settings)
{
    int64_t before = engine->model->parameters;
    ce_lora_sizes sizes = { .r = settings->r,
                            .alpha = settings->alpha,
                            .dropout = settings->dropout,
                            .rslora = settings->rslora,
                            .dora = settings->dora,
                            .all_biases = settings->bias == CE_BIASES_ALL,
                            .own_biases = settings->bias == CE_BIASES_ADAPTED,
                            .targets = settings->targets };
    CE_TRY(ce_lora_attach(&engine->lora, engine->model, &sizes));
    settings->targets = engine->lora.targets;
    ce_config_set_lora(engine->config, settings);
    CE_FREED char *names = json_dumps(settings->targets, JSON_COMPACT);
    ce_log(CE_LOG_INFO, "%s: adapters of rank %lld, scale %g, on %s: %lld elements", settings->dora ? "DoRA" : "LoRA",
           (long long)settings->r, ce_lora_scale(settings->r, settings->alpha, settings->rslora), names ? names : "",
           (long long)(engine->model->parameters - before));
    return CS_OK;
}

/* Refuses DoRA with dropout: PEFT would then multiply the layer's weight by two matrices, the input and the input after
 * dropout, and cspeed computes only one product. Also refuses DoRA for a model with random initial weights, because
 * DoRA starts from the norms of pretrained weights. */
static cs_status check_dora(cs_engine *engine, ce_lora_settings *settings)
{
    if (engine->config->reads)
        settings->dropout = 0;
    if (!engine->config->reads && !settings->adapter && !engine->settings->model_path)
        return ce_fail(CS_BAD_CONFIG,
                       "cspeed.lora.dora: DoRA starts from the norms of the model's weights, but this model starts "
                       "from random values: name a folder with weights in cspeed.model, or set cspeed.lora.dora to "
                       "false");
    return settings->dropout <= 0 ? CS_OK
                                  : ce_fail(CS_UNSUPPORTED,
                                            "not supported: a dropout of %g with the DoRA adapters of %s: set "
                                            "cspeed.lora.dropout to 0",
                                            settings->dropout, settings->adapter);
}

cs_status ce_lora_open(cs_engine *engine)
{
    ce_lora_settings settings = engine->settings->lora;
    json_auto_t *made = NULL;
    if (settings.adapter)
        CE_TRY(ce_adapter_describe(&settings, &made, !ce_resolve_is_given(engine->config, "cspeed.lora.dropout")));
    if (settings.r == 0)
        return CS_OK;
    if (settings.dora)
        CE_TRY(check_dora(engine, &settings));
    if (!settings.targets)
        settings.targets = made = usual_targets(engine);
    return settings.targets ? attach(engine, &settings)
                            : ce_fail(CS_BAD_CONFIG, "cspeed.lora.targets is needed, because PEFT has no default for "
                                                     "this model: name linear layers, or \"all-linear\"");
}
