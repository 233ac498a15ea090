/* foreign.c - checkpoints of other programs: recognised, and refused with the way through. */
#include "checkpoint/foreign.h"
#include "checkpoint/catalog.h"
#include "checkpoint/files.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum { NOTHING, DEEPSPEED, UNIVERSAL, DISTRIBUTED, PICKLE } kind;

/* The first row whose pattern meets a file of the folder says what it is. */
static const struct {
    const char *pattern;
    kind        is;
} signs[] = {
    { "*mp_rank_*_model_states.pt", DEEPSPEED },
    { "*zero_pp_rank_*_optim_states.pt", DEEPSPEED },
    { "layer_*-model_states.pt", DEEPSPEED },
    { "expp_rank_*_optim_states.pt", DEEPSPEED },
    { "*_expert_*_model_states.pt", DEEPSPEED },
    { "zero_to_fp32.py", DEEPSPEED },
    { "optimizer_state.pt", UNIVERSAL },
    { "*.distcp", DISTRIBUTED },
    { "pytorch_model*.bin", PICKLE },
    { "*.pt", PICKLE },
    { "*.pth", PICKLE },
    { "*.ckpt", PICKLE },
};

static const char *const ways[] = {
    [DEEPSPEED] =
        "a checkpoint of DeepSpeed, pickled state of its own ranks, which is not read here. Bring its weights: "
        "`python zero_to_fp32.py FOLDER OUT --safe_serialization` (the script lies in FOLDER) writes "
        "safetensors; with config.json beside them OUT is a model to start from",
    [UNIVERSAL] =
        "a universal checkpoint of DeepSpeed, one pickle a tensor, which is not read here. Take the checkpoint it "
        "was made from: `python zero_to_fp32.py FOLDER OUT --safe_serialization` writes safetensors; with "
        "config.json beside them OUT is a model to start from",
    [DISTRIBUTED] =
        "a checkpoint of torch.distributed.checkpoint with pickled metadata, which is not read here. Bring its "
        "weights: `python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER OUT.pt`, then save "
        "that dictionary with safetensors.torch.save_file",
    [PICKLE] = "weights pickled by PyTorch, which can run code when read and are not read here. Convert them once: "
               "`python -c \"import sys, torch, safetensors.torch as s; s.save_file({k: v.contiguous().clone() for "
               "k, v in torch.load(sys.argv[1], weights_only=True).items()}, 'model.safetensors', {'format': 'pt'})\" "
               "FILE`",
};

static kind look(const char *path)
{
    kind found   = NOTHING;
    DIR *listing = opendir(path);
    if (!listing)
        return found;
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;)
        for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
            if (fnmatch(signs[i].pattern, entry->d_name, 0) == 0 && (found == NOTHING || signs[i].is < found))
                found = signs[i].is;
    closedir(listing);
    return found;
}

bool cs_foreign_recognise(char sentence[CS_FOREIGN_BYTES], const char *path)
{
    char name[CS_TAG_BYTES];
    kind is = look(path);
    if ((is == NOTHING || is == PICKLE) && cs_catalog_latest(name, path) == CS_OK) {
        char *tagged = cs_files_join(path, name);
        kind  inside = look(tagged);
        is           = inside != NOTHING ? inside : is;
        free(tagged);
    }
    if (is != NOTHING)
        snprintf(sentence, CS_FOREIGN_BYTES, "%.512s is %s", path, ways[is]);
    return is != NOTHING;
}
