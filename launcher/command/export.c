/* export.c - `cspeed export`: a checkpoint's weights as a Hugging Face folder. */
#include "interchange/huggingface.h"
#include "codes.h"
#include "command.h"
#include "saved/weights.h"

static cs_status export(const cl_weights_request *request)
{
    cs_source source;
    CS_TRY(cs_huggingface_export(&source,
                                 &(cs_huggingface_output){
                                     .folder = request->to, .dtype = request->dtype, .max_shard = request->max_shard },
                                 request->typed, request->from, request->tag));
    cl_weights_report(request, &source);
    cs_source_close(&source);
    return CS_OK;
}

static int run(const cl_options *options, char **arguments)
{
    cl_weights_request request = { .command = "export", .takes_tag = true };
    int code = cl_weights_read(&request, arguments);
    (void)options;
    return code ? code : cs_exit_code(export(&request));
}

const cl_command cl_command_export = {
    .name = "export",
    .group = "Files",
    .summary = "a checkpoint as a Hugging Face folder",
    .usage = "cspeed export DIR OUT [--tag TAG] [--dtype fp32|bf16|fp16] [--max_shard 5GB]",
    .text = "DIR is one checkpoint, or a folder of them, of which it is the one that --tag names, else latest, else,\n"
            "with a warning, the newest whole one. OUT is made, and must not be there yet. It gets\n"
            "config.json, model.safetensors (or shards and their index) and, where training started from a Hugging\n"
            "Face folder that is still there, its tokenizer files. Without --dtype weights have the type the\n"
            "training computed in. Every block's checksum is verified; memory does not grow with the model.\n",
    .example = "cspeed export runs/mine out --dtype bf16 --max_shard 5GB",
    .run = run,
};
