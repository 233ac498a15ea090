/* export.c - `cspeed export`: a checkpoint's weights as a Hugging Face folder. */
#include "checkpoint/huggingface.h"
#include "codes.h"
#include "command.h"
#include "command/weights.h"

#include <string.h>

/* The type the training computed in. */
static cs_dtype trained_dtype(json_t *provenance)
{
    const char *name  = json_string_value(json_object_get(provenance, "train_dtype"));
    cs_dtype    dtype = CS_F32;
    if (name && strcmp(name, "BF16") == 0)
        dtype = CS_BF16;
    if (name && strcmp(name, "F16") == 0)
        dtype = CS_F16;
    return dtype;
}

static cs_status export(const cs_weights_request *request)
{
    cs_source source;
    json_t   *provenance;
    CS_TRY(cs_stored_open(&source, &provenance, request->from, request->tag));
    json_t                *config = json_object_get(provenance, "model");
    cs_huggingface_output  output = { request->to, request->typed ? request->dtype : trained_dtype(provenance),
                                      request->max_shard, config,
                                      json_string_value(json_object_get(provenance, "model_folder")) };
    cs_status status = config ? cs_huggingface_write(&output, &source)
                              : cs_fail(CS_UNSUPPORTED, "not supported: exporting %s, because its model is a program's "
                                        "own: only models that cspeed.model names have a config.json", request->from);
    if (status == CS_OK)
        cs_weights_report(request, &source);
    cs_source_close(&source);
    return status;
}

static int run(const cs_options *options, char **arguments)
{
    cs_weights_request request = { .command = "export", .takes_tag = true };
    int                code    = cs_weights_read(&request, arguments);
    (void)options;
    return code ? code : cs_exit_code(export(&request));
}

const cs_command cs_command_export = {
    .name    = "export",
    .group   = "Files",
    .summary = "a checkpoint as a Hugging Face folder",
    .usage   = "cspeed export DIR OUT [--tag TAG] [--dtype fp32|bf16|fp16] [--max_shard 5GB]",
    .text    = "DIR is one checkpoint, or a folder of them, of which it is the one that --tag names, else latest, else,\n"
               "with a warning, the newest whole one. OUT is made, and must not be there yet. It gets\n"
               "config.json, model.safetensors (or shards and their index) and, where training started from a Hugging\n"
               "Face folder that is still there, its tokenizer files. Without --dtype weights have the type the\n"
               "training computed in. Every block's checksum is verified; memory does not grow with the model.\n",
    .example = "cspeed export runs/mine out --dtype bf16 --max_shard 5GB",
    .run     = run,
};
