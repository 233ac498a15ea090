/* export.c - cs_export: writes the weights of a checkpoint as a Hugging Face folder, or its adapters as a folder of
 * PEFT. */
#include "core/engine.h"
#include "base/misuse.h"
#include "comm/collective_status.h"
#include "interchange/huggingface.h"

enum { LARGEST_SHARD = 5 }; /* maximum size in GB of one file of weights, which is the default of transformers */

static cs_status write_folder(const ce_settings *settings, const char *dir, const char *tag, const char *folder)
{
    static const cs_dtype types[] = {
        [CE_EXPORT_FP32] = CS_F32, [CE_EXPORT_BF16] = CS_BF16, [CE_EXPORT_FP16] = CS_F16
    };
    ce_source source;
    ce_huggingface_output output = { .folder = folder,
                                     .dtype = types[settings->export_dtype],
                                     .max_shard = LARGEST_SHARD * INT64_C(1000000000),
                                     .beside = settings->model_path,
                                     .tokenizer = settings->tokenizer };
    ce_huggingface_choice choice = { .typed = settings->export_dtype != CE_EXPORT_AUTO, .merge = settings->lora.merge };
    CE_TRY(ce_huggingface_export(&source, &output, choice, dir, tag));
    ce_source_close(&source);
    return CS_OK;
}

cs_status cs_export(cs_engine *engine, const char *dir, const char *tag, const char *folder)
{
    CE_GIVEN(engine, dir, folder);
    cs_status status = cs_finish_checkpoint(engine);
    if (status == CS_OK && engine->world.rank == 0)
        status = write_folder(engine->settings, dir, tag, folder);
    return ce_collective_status(engine->comm, status);
}
