/* exporting.c - cs_export: a checkpoint's weights as a Hugging Face folder. */
#include "engine.h"
#include "checkpoint/agree.h"
#include "checkpoint/huggingface.h"

enum { LARGEST_SHARD = 5 }; /* GB of a file of weights, as transformers has it */

static cs_dtype dtype_of(const cs_settings *settings)
{
    static const cs_dtype asked[] = { [1] = CS_F32, [2] = CS_BF16, [3] = CS_F16 };
    return settings->export_dtype ? asked[settings->export_dtype] : settings->dtype;
}

static cs_status write_folder(const cs_engine *engine, const char *dir, const char *tag, const char *folder)
{
    cs_source             source;
    json_t               *provenance;
    cs_huggingface_output output = { .folder    = folder,
                                     .dtype     = dtype_of(engine->settings),
                                     .max_shard = LARGEST_SHARD * INT64_C(1000000000),
                                     .config    = engine->model_json,
                                     .beside    = engine->settings->model_path };
    if (!engine->model_json)
        return cs_fail(CS_UNSUPPORTED, "not supported: cs_export of a program's own model, because only models that "
                       "cspeed.model names have a config.json");
    CS_TRY(cs_stored_open(&source, &provenance, dir, tag));
    cs_status status = cs_huggingface_write(&output, &source);
    cs_source_close(&source);
    return status;
}

cs_status cs_export(cs_engine *engine, const char *dir, const char *tag, const char *folder)
{
    cs_status status = cs_finish_checkpoint(engine);
    if (status == CS_OK && engine->world.rank == 0)
        status = write_folder(engine, dir, tag, folder);
    return cs_agree_status(engine->comm, status);
}
