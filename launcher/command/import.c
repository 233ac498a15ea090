/* import.c - `cspeed import`: writes a Hugging Face folder of weights again, checked and in another form, or the state of
 * a training of DeepSpeed as a checkpoint. */
#include "hub/hub.h"
#include "interchange/huggingface.h"
#include "ground/codes.h"
#include "ground/command.h"
#include "command/import_state.h"
#include "saved/weights.h"

#include <stdio.h>
#include <sys/stat.h>

/* Returns the data type that all tensors have. Returns CS_F32 if their types differ, so that no precision is lost. */
static cs_dtype widest(const ce_source *source)
{
    cs_dtype dtype = source->count > 0 ? source->tensors[0].dtype : CS_F32;
    for (int64_t i = 0; i < source->count; i++)
        if (source->tensors[i].dtype != dtype)
            dtype = CS_F32;
    return dtype;
}

static cs_status write_all(const cl_weights_request *request, ce_source *source, json_t *config)
{
    ce_huggingface_output output = { .folder = request->to,
                                     .dtype = request->typed ? request->dtype : widest(source),
                                     .max_shard = request->max_shard,
                                     .config = config,
                                     .beside = request->from };
    CE_TRY(ce_huggingface_write(&output, source));
    cl_weights_report(request, source);
    return CS_OK;
}

/* All tensors are checked against the model that config.json describes before anything is written. */
static cs_status import_checked(const cl_weights_request *request, ce_source *source, ce_json *doc)
{
    cs_model *model;
    ce_model_facts facts = { 0 };
    if (request->lenient)
        ce_json_lenient(doc);
    cs_status status = ce_huggingface_open_model(&model, &facts, doc, request->from);
    ce_json_print_warnings(doc);
    if (status == CS_OK)
        status = ce_huggingface_check(source, model, &facts, request->from);
    cs_model_free(model);
    if (status == CS_OK && facts.wrapped)
        status = ce_huggingface_wrap(source, facts.wrapped, request->from);
    return status == CS_OK ? write_all(request, source, ce_json_root(doc)) : status;
}

static cs_status import_folder(const cl_weights_request *request)
{
    ce_source source;
    ce_json *doc = NULL;
    char path[4096];
    snprintf(path, sizeof path, "%s/config.json", request->from);
    CE_TRY(ce_huggingface_open(&source, request->from));
    ce_huggingface_name_others(&source, request->from);
    cs_status status = ce_json_open(&doc, path);
    if (status == CS_OK)
        status = import_checked(request, &source, doc);
    ce_source_close(&source);
    ce_json_close(doc);
    return status;
}

static int run(const cl_options *options, char **arguments)
{
    cl_weights_request request = { .takes_tag = false };
    struct stat what;
    char cached[CE_HUB_PATH], hint[CE_HUB_HINT];
    bool found;
    int code = cl_weights_read(&request, arguments);
    (void)options;
    if (code)
        return code;
    cs_status status = ce_hub_find(&found, cached, request.from);
    if (status != CS_OK)
        return cs_exit_code(status);
    request.from = found ? cached : request.from;
    ce_hub_hint(hint, request.from);
    if (stat(request.from, &what) != 0)
        return cl_codes_fail(CL_CODE_NO_FILE, "%s: no such file or folder; name a Hugging Face folder%s", request.from,
                             hint);
    if (cl_import_state_is(&request) != (request.config != NULL))
        return cl_codes_fail(CL_CODE_USAGE,
                             request.config ? "--config is for the state of a training, and %s holds no state.json"
                                            : "%s is the state of a training: --config FILE names the configuration "
                                              "with which it continues",
                             request.from);
    if (request.config && request.formed)
        return cl_codes_fail(
            CL_CODE_USAGE,
            "--dtype and --max_shard have no effect on a training state, which becomes a checkpoint; leave them "
            "out");
    if (request.config)
        return cs_exit_code(cl_import_state(&request));
    return cs_exit_code(import_folder(&request));
}

const cl_command cl_command_import = {
    .name = "import",
    .group = "Files",
    .summary = "convert weights of another program to a folder for cspeed.model",
    .usage = "cspeed import FROM OUT [--dtype fp32|bf16|fp16] [--max_shard 5GB]\n"
             "                     [--config FILE] [--lenient]",
    .text = "Creates the folder OUT, which must not exist, from FROM. Such a folder can be the value of\n"
            "cspeed.model. FROM is one of:\n"
            "\n"
            "  - a Hugging Face folder, a GGUF file, or ORG/NAME[@REVISION] of a model on the\n"
            "    Hub, whose weights get another data type or another division into files. Its\n"
            "    config.json must describe a model that cspeed can train, and names and\n"
            "    shapes of all tensors are compared with it before anything is written\n"
            "  - the training state that tools/from_deepspeed.py wrote. OUT then becomes an\n"
            "    output folder with one checkpoint, which contains weights, optimizer state\n"
            "    and counters\n"
            "\n"
            "Files of other programs (DeepSpeed, PyTorch, TensorFlow, Flax, llm.c) are refused with a message that\n"
            "names the command that converts them.\n"
            "\n"
            "  --dtype        data type of the weights; default: the one that they have\n"
            "  --max_shard    maximum size of one file of weights\n"
            "  --config FILE  for a training state: the configuration with which the training\n"
            "                 continues\n"
            "  --lenient      only warn about keys of config.json that are not supported\n",
    .example = "cspeed import models/gpt2 models/gpt2_bf16 --dtype bf16",
    .run = run,
};
