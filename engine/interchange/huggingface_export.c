/* huggingface_export.c - exports a checkpoint as a Hugging Face folder. */
#include "interchange/four_bit.h"
#include "interchange/huggingface.h"
#include "base/files.h"
#include "base/must.h"
#include "gguf/describe.h"
#include "interchange/gguf.h"
#include "interchange/peft.h"
#include "base/log.h"

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
        ce_peft_merge(source, lora);
    if (choice.merge || !lora)
        return CS_OK;
    *config = all->config = ce_peft_config(lora, json_string_value(json_object_get(provenance, "model_folder")));
    all->adapter = true;
    const char *base = json_string_value(json_object_get(provenance, "model_folder"));
    if (base && ce_files_holds(base, CE_GGUF_LINK))
        ce_log(
            CE_LOG_INFO,
            "the base model of these adapters is a GGUF file: PEFT needs the folder that `cspeed import` makes of it");
    if (!choice.typed)
        all->dtype = CS_F32;
    ce_peft_adapters(source, lora);
    return CS_OK;
}

static cs_status write_gguf(const ce_huggingface_output *all, const char *type, ce_source *source)
{
    ce_gguf_output output = { .file = all->folder,
                              .config = all->config,
                              .tokenizer = all->tokenizer ? all->tokenizer : all->beside,
                              .chat = all->chat };
    if (all->adapter)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: adapters alone in a GGUF file: --merge writes the complete model");
    if (!ce_gguf_type_find(&output.type, type))
        return ce_fail(CS_BAD_CONFIG, "--gguf %s: f32, f16, bf16, q8_0 or q4_0 is needed", type);
    return ce_gguf_write(&output, source);
}

static cs_status write_chosen(const ce_huggingface_output *all, ce_huggingface_choice choice, ce_source *source)
{
    return choice.gguf ? write_gguf(all, choice.gguf, source) : ce_huggingface_write(all, source);
}

/* Exports a Hugging Face folder, which only a GGUF file makes sense for. */
static cs_status export_folder(ce_source *source, const ce_huggingface_output *output, ce_huggingface_choice choice,
                               const char *folder)
{
    ce_json *doc = NULL;
    cs_model *model = NULL;
    ce_model_facts facts = { 0 };
    ce_huggingface_output all = *output;
    CE_FREED char *path = ce_files_join(folder, "config.json");
    CE_TRY(ce_huggingface_open(source, folder));
    cs_status status = ce_json_open(&doc, path);
    if (status == CS_OK)
        status = ce_huggingface_open_model(&model, &facts, doc, folder);
    if (status == CS_OK)
        status = ce_huggingface_check(source, model, &facts, folder);
    all.config = doc ? ce_json_root(doc) : NULL;
    all.beside = folder;
    if (status == CS_OK)
        status = write_gguf(&all, choice.gguf, source);
    cs_model_free(model);
    ce_json_close(doc);
    if (status != CS_OK)
        ce_source_close(source);
    return status;
}

static void report_merge(const ce_source *merged, bool packed, const char *folder)
{
    double rounding = ce_peft_rounding(merged);
    if (rounding > 0)
        ce_log(CE_LOG_INFO, "%s: rounding moves the merged weights by %.2g %% of what the adapters change", folder,
               100 * rounding);
    if (packed)
        ce_log(CE_LOG_INFO,
               "%s: the merged weights are those of 4 bits that were trained with, as numbers, and not the model's "
               "original weights",
               folder);
}

cs_status ce_huggingface_export(ce_source *source, const ce_huggingface_output *output, ce_huggingface_choice choice,
                                const char *dir, const char *tag)
{
    json_t *config = NULL;
    json_t *provenance;
    ce_huggingface_output all = *output;
    if (choice.gguf && !choice.merge && ce_files_holds(dir, "config.json") && !tag && !choice.averages)
        return export_folder(source, output, choice, dir);
    CE_TRY(ce_source_checkpoint_open(source, &provenance, dir, tag, choice.averages));
    cs_status status = ce_four_bit_open(source);
    bool packed = ce_four_bit_inner(source) != source;
    all.config = json_object_get(provenance, "model");
    CE_FREED char *training = NULL;
    size_t length = 0;
    if (status == CS_OK && !all.config)
        status = ce_source_checkpoint_config(&training, &length, ce_four_bit_inner(source));
    all.training = training;
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
    if (status == CS_OK)
        status = choose(source, &all, choice, provenance, &config);
    ce_source merged = *source; /* what ce_huggingface_wrap reads from */
    if (status == CS_OK && wrapped)
        status = ce_huggingface_wrap(source, wrapped, folder);
    if (status == CS_OK && choice.gguf && !all.config)
        status =
            ce_fail(CS_UNSUPPORTED, "not supported: --gguf of %s, because its model was defined by a program", dir);
    if (status == CS_OK)
        status = write_chosen(&all, choice, source);
    if (status == CS_OK && choice.merge)
        report_merge(&merged, packed, all.folder);
    json_decref(config);
    if (status != CS_OK)
        ce_source_close(source);
    return status;
}
