/* adapter.c - cspeed.lora.adapter: loads the initial values of LoRA adapters from a folder in PEFT's format. */
#include "saving/saving.h"
#include "base/log.h"
#include "base/must.h"
#include "comm/collective_status.h"
#include "interchange/huggingface.h"
#include "interchange/huggingface_folder.h"
#include "interchange/peft.h"

#include <stdlib.h>
#include <string.h>

bool ce_adapter_has(const ce_unit_entry *entry)
{
    return entry->lora || !entry->param.frozen;
}

/* Takes the keys that have PEFT's names here. */
static cs_status take_peft_keys(ce_lora_settings *settings, const json_t *config)
{
    for (int i = 0; i < CE_PEFT_KEYS; i++) {
        json_t *value = settings->peft[i] = json_object_get(config, ce_config_peft_keys[i]);
        const char *fault = value ? ce_config_peft_fault(i, value) : NULL;
        if (fault)
            return ce_fail(CS_BAD_FILE, "%s/adapter_config.json: \"%s\": %s", settings->adapter, ce_config_peft_keys[i],
                           fault);
    }
    return CS_OK;
}

cs_status ce_adapter_describe(ce_lora_settings *settings, json_t **config, bool dropout)
{
    ce_peft_facts facts = { 0 };
    cs_status status = ce_peft_read(&facts, settings->adapter);
    *config = facts.config;
    CE_TRY(status);
    settings->bias = CE_BIASES_NONE;
    while (ce_config_biases[settings->bias] && strcmp(ce_config_biases[settings->bias], facts.bias) != 0)
        settings->bias++;
    if (!ce_config_biases[settings->bias])
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: %s/adapter_config.json: \"bias\" is \"%s\": possible are \"none\", \"all\" "
                       "and \"lora_only\"",
                       settings->adapter, facts.bias);
    settings->dora = facts.dora;
    settings->r = facts.r;
    settings->alpha = facts.alpha;
    settings->rslora = facts.rslora;
    if (dropout)
        settings->dropout = facts.dropout;
    settings->targets = json_object_get(facts.config, "target_modules");
    return take_peft_keys(settings, facts.config);
}

static cs_status check_shapes(const cs_engine *engine, const ce_source *source)
{
    for (int64_t i = 0; i < source->count; i++) {
        const ce_source_tensor *tensor = &source->tensors[i];
        const ce_unit_entry *entry = ce_model_find(engine->model, tensor->name);
        if (!entry || !ce_adapter_has(entry))
            return ce_fail(
                CS_BAD_FILE,
                "%s: tensor %s does not belong to a layer of this model that \"target_modules\" names, nor to modules_to_save",
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

/* Gives a tensor of modules_to_save that has two names, such as a table with a tied head, the model's name of it. */
static void rename_second(ce_source *source, const ce_model_facts *facts)
{
    int64_t second = facts->alias ? ce_source_find(source, facts->alias) : -1;
    if (second < 0)
        return;
    if (ce_source_find(source, facts->alias_of) >= 0)
        ce_huggingface_remove_tensor(source, second);
    else
        ce_huggingface_rename_tensor(source, second, ce_must_copy(facts->alias_of));
}

static cs_status read_all(cs_engine *engine)
{
    ce_source source;
    CE_TRY(ce_huggingface_open_adapter(&source, engine->settings->lora.adapter));
    rename_second(&source, &engine->facts);
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

json_t *ce_lora_describe(const ce_lora_settings *settings)
{
    json_t *peft = json_object();
    for (int i = 0; i < CE_PEFT_KEYS; i++)
        if (settings->peft[i])
            json_object_set(peft, ce_config_peft_keys[i], settings->peft[i]);
    return json_pack("{s:I, s:f, s:f, s:b, s:b, s:s, s:O, s:o}", "r", (json_int_t)settings->r, "alpha", settings->alpha,
                     "dropout", settings->dropout, "rslora", settings->rslora, "dora", settings->dora, "bias",
                     ce_config_biases[settings->bias], "targets", settings->targets, "peft", peft);
}

json_t *ce_lora_record(const cs_engine *engine)
{
    if (!engine->lora.first)
        return NULL;
    json_t *record = ce_lora_describe(&engine->settings->lora);
    json_object_set_new(record, "fan_in_fan_out", json_boolean(engine->lora.fan_in_fan_out));
    if (engine->settings->lora.peft[CE_PEFT_MODULES] && engine->facts.alias)
        json_object_set_new(record, "second",
                            json_pack("{s:s, s:s, s:b}", "name", engine->facts.alias, "of", engine->facts.alias_of,
                                      "tied", engine->model->units[engine->model->count - 1]->shared_count > 0));
    if (engine->base_digest[0])
        json_object_set_new(record, "base_sha256", json_string(engine->base_digest));
    return record;
}
