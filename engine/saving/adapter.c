/* adapter.c - cspeed.lora.adapter: loads the initial values of LoRA adapters from a folder in PEFT's format. */
#include "saving/saving.h"
#include "base/log.h"
#include "comm/collective_status.h"
#include "interchange/huggingface.h"
#include "interchange/peft.h"

#include <stdlib.h>
#include <string.h>

bool ce_adapter_has(const ce_unit_entry *entry)
{
    return entry->lora || !entry->param.frozen;
}

cs_status ce_adapter_describe(ce_lora_settings *settings, json_t **targets, bool dropout)
{
    ce_peft_facts facts;
    CE_TRY(ce_peft_read(&facts, settings->adapter));
    settings->bias = CE_BIASES_NONE;
    while (ce_config_biases[settings->bias] && strcmp(ce_config_biases[settings->bias], facts.bias) != 0)
        settings->bias++;
    if (!ce_config_biases[settings->bias]) {
        json_decref(facts.targets);
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: %s/adapter_config.json: \"bias\" is \"%s\": possible are \"none\", \"all\" "
                       "and \"lora_only\"",
                       settings->adapter, facts.bias);
    }
    settings->dora = facts.dora;
    settings->r = facts.r;
    settings->alpha = facts.alpha;
    settings->rslora = facts.rslora;
    if (dropout)
        settings->dropout = facts.dropout;
    settings->targets = *targets = facts.targets;
    return CS_OK;
}

static cs_status check_shapes(const cs_engine *engine, const ce_source *source)
{
    for (int64_t i = 0; i < source->count; i++) {
        const ce_source_tensor *tensor = &source->tensors[i];
        const ce_unit_entry *entry = ce_model_find(engine->model, tensor->name);
        if (!entry || !ce_adapter_has(entry))
            return ce_fail(CS_BAD_FILE,
                           "%s: tensor %s does not belong to a layer of this model that \"target_modules\" names",
                           engine->settings->lora.adapter, tensor->name);
        const int64_t *whole = entry->cut.whole;
        if (tensor->dims != entry->param.value.dims ||
            memcmp(tensor->shape, whole, (size_t)tensor->dims * sizeof *whole) != 0)
            return ce_fail(CS_BAD_FILE,
                           "%s: the shape of tensor %s is not (%lld, %lld): the adapter belongs to another model",
                           engine->settings->lora.adapter, tensor->name, (long long)whole[0], (long long)whole[1]);
    }
    return CS_OK;
}

static cs_status read_all(cs_engine *engine)
{
    ce_source source;
    CE_TRY(ce_huggingface_open_adapter(&source, engine->settings->lora.adapter));
    cs_status status = check_shapes(engine, &source);
    for (int i = 0; i < engine->model->count && status == CS_OK; i++)
        status = ce_pretrained_read(engine, &source, i, true);
    if (status == CS_OK)
        ce_log(CE_LOG_NOTICE, "first values of the adapters: %lld tensors of %s", (long long)source.count,
               engine->settings->lora.adapter);
    ce_source_close(&source);
    return status;
}

cs_status ce_adapter_load(cs_engine *engine)
{
    if (!engine->settings->lora.adapter)
        return CS_OK;
    CE_TRY(ce_collective_status(engine->comm, read_all(engine)));
    for (int i = 0; i < engine->model->count; i++)
        ce_shard_spread(engine->shards[i]);
    return CS_OK;
}

json_t *ce_lora_record(const cs_engine *engine)
{
    const ce_lora_settings *settings = &engine->settings->lora;
    if (!engine->lora.first)
        return NULL;
    return json_pack("{s:I, s:f, s:f, s:b, s:b, s:s, s:O, s:b, s:s*}", "r", (json_int_t)settings->r, "alpha",
                     settings->alpha, "dropout", settings->dropout, "rslora", settings->rslora, "dora", settings->dora,
                     "bias", ce_config_biases[settings->bias], "targets", engine->lora.targets, "fan_in_fan_out",
                     engine->lora.fan_in_fan_out, "base_sha256", engine->base_digest[0] ? engine->base_digest : NULL);
}
