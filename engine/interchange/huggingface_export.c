/* huggingface_export.c - exports a checkpoint as a Hugging Face folder. */
#include "interchange/huggingface.h"
#include "interchange/peft.h"

#include <string.h>

/* Returns the data type in which the training computed. */
static cs_dtype trained_dtype(const json_t *provenance)
{
    const char *name = json_string_value(json_object_get(provenance, "train_dtype"));
    cs_dtype dtype = CS_F32;
    if (name && strcmp(name, "BF16") == 0)
        dtype = CS_BF16;
    if (name && strcmp(name, "F16") == 0)
        dtype = CS_F16;
    return dtype;
}

/* Chooses what is written. With choice.merge, replaces *source by the weights with the adapters merged. Otherwise, if
 * the checkpoint has adapters, replaces *source by the adapters alone, and sets the members of *all for a folder of
 * PEFT; *config is then a new reference to the contents of adapter_config.json. In all other cases *config is not
 * changed. */
static cs_status choose(ce_source *source, ce_huggingface_output *all, ce_huggingface_choice choice,
                        const json_t *provenance, json_t **config)
{
    json_t *lora = json_object_get(provenance, "lora");
    const ce_wrapped *wrapped = ce_wrapped_find(json_string_value(json_object_get(all->config, "model_type")));
    if (lora && wrapped && !choice.merge)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: a folder of adapters for model_type \"%s\", because only its text model was "
                       "trained; --merge writes the whole model",
                       wrapped->type);
    if (!lora && choice.merge)
        return ce_fail(CS_BAD_CONFIG, "--merge: the checkpoint has no adapters to merge");
    if (choice.merge)
        return ce_peft_merge(source, lora);
    if (!lora)
        return CS_OK;
    *config = all->config = ce_peft_config(lora, json_string_value(json_object_get(provenance, "model_folder")));
    all->adapter = true;
    if (!choice.typed)
        all->dtype = CS_F32;
    return ce_peft_adapters(source, lora);
}

cs_status ce_huggingface_export(ce_source *source, const ce_huggingface_output *output, ce_huggingface_choice choice,
                                const char *dir, const char *tag)
{
    json_t *config = NULL;
    json_t *provenance;
    ce_huggingface_output all = *output;
    CE_TRY(ce_source_checkpoint_open(source, &provenance, dir, tag));
    all.config = json_object_get(provenance, "model");
    if (!choice.typed)
        all.dtype = trained_dtype(provenance);
    const json_t *chat = json_object_get(provenance, "chat");
    if (!all.beside && !all.tokenizer) {
        all.beside = json_string_value(json_object_get(provenance, "model_folder"));
        all.tokenizer = json_string_value(json_object_get(provenance, "tokenizer"));
    }
    all.chat = json_string_value(json_object_get(chat, "template"));
    all.ends = json_object_get(chat, "ends");
    const char *folder = json_string_value(json_object_get(provenance, "model_folder"));
    const ce_wrapped *wrapped = ce_wrapped_find(json_string_value(json_object_get(all.config, "model_type")));
    cs_status status = choose(source, &all, choice, provenance, &config);
    if (status == CS_OK && wrapped)
        status = ce_huggingface_wrap(source, wrapped, folder);
    if (status == CS_OK)
        status = all.config ? ce_huggingface_write(&all, source)
                            : ce_fail(CS_UNSUPPORTED,
                                      "not supported: exporting %s, because its model was defined by a program: only "
                                      "a model that cspeed.model names has a config.json",
                                      dir);
    json_decref(config);
    if (status != CS_OK)
        ce_source_close(source);
    return status;
}
