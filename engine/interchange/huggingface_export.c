/* huggingface_export.c - exports a checkpoint as a Hugging Face folder. */
#include "interchange/huggingface.h"

#include <string.h>

/* The data type in which the training computed. */
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

cs_status ce_huggingface_export(ce_source *source, const ce_huggingface_output *output, bool typed, const char *dir,
                                const char *tag)
{
    json_t *provenance;
    ce_huggingface_output all = *output;
    CS_TRY(ce_source_checkpoint_open(source, &provenance, dir, tag));
    all.config = json_object_get(provenance, "model");
    if (!typed)
        all.dtype = trained_dtype(provenance);
    if (!all.beside)
        all.beside = json_string_value(json_object_get(provenance, "model_folder"));
    all.chat = json_string_value(json_object_get(provenance, "chat_template"));
    cs_status status = all.config ? ce_huggingface_write(&all, source)
                                  : ce_fail(CS_UNSUPPORTED,
                                            "not supported: exporting %s, because its model is a "
                                            "program's own: only models that cspeed.model names have a config.json",
                                            dir);
    if (status != CS_OK)
        ce_source_close(source);
    return status;
}
