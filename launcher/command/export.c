/* export.c - `cspeed export`: writes the weights of a checkpoint as a Hugging Face folder. */
#include "checkpoint/audit.h"
#include "base/files.h"
#include "hub/hub.h"
#include "interchange/huggingface.h"
#include "checkpoint/line.h"
#include "ground/command.h"
#include "saved/weights.h"

#include "base/processors.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>

static void count_only(void *to, const char *sentence)
{
    (void)to, (void)sentence;
}

static bool is_whole(const char *dir, const char *name)
{
    ce_audit audit = { .threads = ce_processors_allowed(), .fault = count_only };
    char *folder = ce_files_join(dir, name);
    ce_audit_directory(&audit, folder);
    free(folder);
    return audit.faults == 0;
}

/* Finds the tag of the newest checkpoint whose checksums all match. The checkpoint that the file `latest` names is
 * tried first, then the earlier checkpoints of the same training. Returns false if no checkpoint is whole. */
static bool find_whole(char tag[CE_TAG_BYTES], const char *dir)
{
    char latest[CE_TAG_BYTES];
    ce_catalog catalog;
    bool found = false;
    if (ce_catalog_open(&catalog, dir) != CS_OK)
        return false;
    if (ce_catalog_latest(latest, dir) == CS_OK)
        ce_line_follow(&catalog, dir, latest);
    for (int64_t i = 0; i < catalog.count && !found; i++) {
        found = is_whole(dir, catalog.items[i].name);
        if (found)
            snprintf(tag, CE_TAG_BYTES, "%s", catalog.items[i].tag);
    }
    ce_catalog_close(&catalog);
    return found;
}

/* Handles a damaged checkpoint. An older checkpoint is not exported in its place, because the exported folder would not
 * show which checkpoint it contains. Instead, the message in cs_error() also names the command that exports the older
 * checkpoint. */
static cs_status name_another(const cl_weights_request *request)
{
    char why[4096], tag[CE_TAG_BYTES];
    snprintf(why, sizeof why, "%s", cs_error());
    if (request->tag || ce_files_holds(request->from, CE_MANIFEST_FILE) || !find_whole(tag, request->from))
        return ce_fail(CS_BAD_FILE, "%s", why);
    return ce_fail(CS_BAD_FILE, "%s. The newest complete checkpoint is %s: `cspeed export %s %s --tag %s`", why, tag,
                   request->from, request->to, tag);
}

static cs_status export(const cl_weights_request *request)
{
    ce_source source;
    CE_TRY(ce_huggingface_export(&source,
                                 &(ce_huggingface_output){
                                     .folder = request->to, .dtype = request->dtype, .max_shard = request->max_shard },
                                 (ce_huggingface_choice){ .typed = request->typed,
                                                          .gguf = request->gguf,
                                                          .merge = request->merge,
                                                          .averages = request->ema },
                                 request->from, request->tag));
    cl_weights_report(request, &source);
    ce_source_close(&source);
    return CS_OK;
}

static int run(const cl_options *options, char **arguments)
{
    cl_weights_request request = { .takes_tag = true };
    int code = cl_weights_read(&request, arguments);
    char cached[CE_HUB_PATH];
    bool found = false;
    (void)options;
    if (code)
        return code;
    cs_status status = request.gguf ? ce_hub_find(&found, cached, request.from) : CS_OK;
    request.from = found ? cached : request.from;
    if (status == CS_OK)
        status = export(&request);
    return cs_exit_code(status == CS_BAD_FILE ? name_another(&request) : status);
}

const cl_command cl_command_export = {
    .name = "export",
    .group = "Files",
    .summary = "convert a checkpoint to a Hugging Face folder or a GGUF file",
    .usage = "cspeed export DIR OUT [--tag TAG] [--dtype fp32|bf16|fp16]\n"
             "                     [--max_shard 5GB] [--merge] [--ema] [--gguf TYPE]\n"
             "                     [--lenient]",
    .text = "Writes a Hugging Face folder: config.json, model.safetensors (or several files and their index) and,\n"
            "if the training started from a Hugging Face folder that still exists, the tokenizer files of that\n"
            "folder. DIR is a checkpoint or a folder of checkpoints. OUT is the folder to create; it must not\n"
            "exist.\n"
            "\n"
            "Of a folder of checkpoints, the one that --tag names is converted; without --tag the one that the\n"
            "file latest names or, if that one cannot be used, after a warning, the newest complete one. The\n"
            "checksum of every block is verified before it is written. If a block is damaged, nothing is written,\n"
            "and the newest complete checkpoint is named. The memory that is needed does not depend on the size\n"
            "of the model.\n"
            "\n"
            "  --dtype        data type of the weights; default: that in which the training\n"
            "                 computed\n"
            "  --max_shard    maximum size of one file of weights\n"
            "  --merge        after a training with LoRA: write the complete model, with the\n"
            "                 adapters added to its weights. Without --merge, the adapters\n"
            "                 are written in fp32, as a PEFT folder\n"
            "  --ema          write the averages of cspeed.ema_decay instead of the weights\n"
            "  --gguf TYPE    write a GGUF file for llama.cpp, with its tokenizer and chat\n"
            "                 template; the matrices have the type f32, f16, bf16, q8_0 or\n"
            "                 q4_0. DIR may also be a Hugging Face folder, a\n"
            "                 GGUF file, or a model of the Hub\n"
            "  --lenient      accepted, without effect: export refuses no key of config.json\n",
    .example = "cspeed export runs/mine out --dtype bf16 --max_shard 5GB",
    .run = run,
};
