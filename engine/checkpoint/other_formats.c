/* other_formats.c - recognises checkpoints of other programs, and refuses them with a command that converts them. */
#include "checkpoint/other_formats.h"
#include "base/input.h"
#include "base/must.h"
#include "checkpoint/catalog.h"
#include "base/files.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The kinds of foreign checkpoints. A checkpoint may match the patterns of several kinds: a ZeRO checkpoint, for
 * example, contains pickles too. The kind that comes first in this enum is then reported. */
typedef enum {
    NOTHING,
    ZERO,
    DEEPSPEED,
    ZERO_SCRIPT,
    UNIVERSAL,
    DISTRIBUTED,
    PICKLED_MODEL,
    PICKLE,
    KERAS,
    FLAX,
    GGUF,
    LLMC,
    SAFETENSORS
} kind;

/* Names of files in which Trainer and accelerate save the state of a training. */
static const char *const states[] = { "training_args.bin", "optimizer*.pt",      "optimizer*.bin",
                                      "scheduler*.pt",     "scheduler*.bin",     "scaler*.pt",
                                      "rng_state*.pth",    "trainer_state.json", "random_states*.pkl" };

static const struct {
    const char *pattern; /* glob pattern of a file name */
    kind is;
} name_patterns[] = {
    { "*zero_pp_rank_*_states.pt", ZERO },
    { "expp_rank_*_optim_states.pt", ZERO },
    { "mp_rank_*_model_states.pt", DEEPSPEED },
    { "layer_*-model_states.pt", ZERO },
    { "*_expert_*_model_states.pt", ZERO },
    { "zero_to_fp32.py", ZERO_SCRIPT },
    { "optimizer_state.pt", UNIVERSAL },
    { "*.distcp", DISTRIBUTED },
    { "pytorch_model*.bin", PICKLED_MODEL },
    { "pytorch_model.bin.index.json", PICKLED_MODEL },
    { "*.pt", PICKLE },
    { "*.pth", PICKLE },
    { "*.ckpt", PICKLE },
    { "tf_model*.h5", KERAS },
    { "flax_model*.msgpack", FLAX },
    { "*.gguf", GGUF },
};

static const struct {
    const char *bytes; /* first bytes of a file */
    kind is;
} magic_numbers[] = {
    { "PK\3\4", PICKLE }, { "\x80\2", PICKLE }, { "\x80\4", PICKLE },
    { "\x89HDF", KERAS }, { "GGUF", GGUF },     { "\xC6\xD7\x34\1", LLMC },
};

#define BESIDE "; with config.json beside them OUT is a model to start from"
#define SAVE_DICTIONARY                                                                                                \
    "s.save_file({k: v.contiguous().clone() for k, v in w.items() if torch.is_tensor(v)}, 'OUT/model.safetensors', "   \
    "{'format': 'pt'})\" "
/* The command for ZeRO checkpoints uses a function of zero_to_fp32.py, because that script's option
 * --safe_serialization fails for parameters that share memory. */
#define FROM_ZERO                                                                                                      \
    "`mkdir -p OUT && python -c \"import sys, torch, safetensors.torch as s; sys.path.insert(0, sys.argv[1]); "        \
    "from zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint as read; w = read(*sys.argv[1:]); " SAVE_DICTIONARY
#define CONTINUE                                                                                                       \
    ". To go on with the run, with optimizer state and counters: `python3 tools/from_deepspeed.py {top} --tag {tag} "  \
    "--config ds_config.json --output RUN`"
#define CONVERT                                                                                                        \
    "`mkdir -p OUT && python -c \"import sys, torch, safetensors.torch as s; w = torch.load(sys.argv[1], "             \
    "map_location='cpu', weights_only=True); w = w.get('state_dict', w.get('model', w)); " SAVE_DICTIONARY
#define TRANSFORMERS                                                                                                   \
    "python -c \"import sys; from transformers import AutoModelForCausalLM as M; M.from_pretrained(sys.argv[1], "

/* Description of each kind, and the command that converts it. These placeholders are replaced by paths and names,
 * quoted for a shell: {folder} is the folder with the files, {top} the folder with `latest`, {tag} the name of {folder}
 * within {top}, {file} the path of the file that was recognised, {name} that file's name. */
static const char *const descriptions[] = {
    [ZERO] = "a checkpoint of DeepSpeed, pickled state of its own ranks, which is not read here. Bring its weights, "
             "where DeepSpeed is installed: " FROM_ZERO "{top} {tag}` writes safetensors" BESIDE CONTINUE,
    [DEEPSPEED] = "a checkpoint of DeepSpeed without ZeRO, where zero_to_fp32.py finds nothing: a pickle that can run "
                  "code when read and is not read here. "
                  "If you trust it: `mkdir -p OUT && python -c \"import sys, torch, safetensors.torch as s; w = "
                  "torch.load(sys.argv[1], map_location='cpu', weights_only=False)['module']; " SAVE_DICTIONARY
                  "{file}` writes safetensors" BESIDE CONTINUE,
    [UNIVERSAL] = "a universal checkpoint of DeepSpeed, one pickle a tensor, which is not read here. Bring the weights "
                  "from the checkpoint it was made from, here FOLDER, where DeepSpeed is installed: " FROM_ZERO
                  "FOLDER` writes safetensors" BESIDE CONTINUE,
    [DISTRIBUTED] = "a checkpoint of torch.distributed.checkpoint with pickled metadata, which is not read here. Bring "
                    "its weights: `python -m torch.distributed.checkpoint.format_utils dcp_to_torch {folder} OUT.pt`, "
                    "then " CONVERT "OUT.pt` writes safetensors" BESIDE,
    [PICKLED_MODEL] = "a model pickled by PyTorch, which can run code when read and is not read here. Convert it "
                      "once: `" TRANSFORMERS "dtype='auto').save_pretrained('OUT')\" {folder}`",
    [PICKLE] = "weights pickled by PyTorch, which can run code when read and are not read here. Convert them "
               "once: " CONVERT "{file}`" BESIDE,
    [KERAS] = "a model saved by TensorFlow, which is not read here. Convert it once: `pip install 'transformers<5' "
              "tensorflow tf-keras && " TRANSFORMERS "from_tf=True).save_pretrained('OUT')\" {folder}`",
    [FLAX] = "a model saved by Flax, which is not read here. Convert it once: `pip install 'transformers<5' flax "
             "&& " TRANSFORMERS "from_flax=True).save_pretrained('OUT')\" {folder}`",
    [LLMC] = "a checkpoint of llm.c, which is not read here. Convert it once, in the folder of llm.c: `python "
             "dev/eval/export_hf.py --input {file} --output OUT --spin ''`",
    [SAFETENSORS] =
        "a file of safetensors whose name does not say so. Weights are read from a folder with config.json: "
        "name the file model.safetensors there",
    [GGUF] =
        "a model of llama.cpp, which is read where a model's folder is named (cspeed.model, --model, eval, "
        "generate) if the file itself is named; its name ends in .gguf. `cspeed import {file} OUT` makes a Hugging "
        "Face folder of it",
};

typedef struct {
    kind is;
    char name[256];
} finding;

bool ce_other_formats_is_state(const char *name)
{
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (fnmatch(states[i], name, FNM_CASEFOLD) == 0)
            return true;
    return false;
}

static void match_name(finding *found, const char *name)
{
    for (size_t i = 0; i < sizeof name_patterns / sizeof *name_patterns; i++)
        if (fnmatch(name_patterns[i].pattern, name, 0) == 0 &&
            (name_patterns[i].is != PICKLE || !ce_other_formats_is_state(name)) &&
            (found->is == NOTHING || name_patterns[i].is < found->is)) {
            found->is = name_patterns[i].is;
            snprintf(found->name, sizeof found->name, "%s", name);
        }
}

/* Recognises a file by its first bytes. A file of safetensors begins with 8 bytes, the length of an object of JSON. */
static void match_magic(finding *found, const char *path)
{
    char start[9] = { 0 };
    FILE *file;
    if (ce_input_stream(&file, path) != CS_OK || !file)
        return;
    size_t count = fread(start, 1, sizeof start, file);
    for (size_t i = 0; i < sizeof magic_numbers / sizeof *magic_numbers && count >= 8; i++)
        if (memcmp(start, magic_numbers[i].bytes, strlen(magic_numbers[i].bytes)) == 0)
            found->is = magic_numbers[i].is;
    if (count == sizeof start && start[7] == 0 && start[8] == '{' && found->is == NOTHING)
        found->is = SAFETENSORS;
    fclose(file);
}

static finding recognise(const char *path)
{
    finding found = { NOTHING, "" };
    DIR *listing = opendir(path);
    if (!listing) {
        if (access(path, R_OK) == 0)
            match_name(&found, basename(path));
        if (found.is == NOTHING)
            match_magic(&found, path);
        snprintf(found.name, sizeof found.name, "%s", basename(path));
        return found;
    }
    for (const struct dirent *entry; (entry = readdir(listing)) != NULL;)
        match_name(&found, entry->d_name);
    closedir(listing);
    /* A universal checkpoint has model states beside the folder "zero", which other checkpoints have without it. */
    if ((found.is == DEEPSPEED || found.is == ZERO) && ce_files_holds(path, "zero"))
        found.is = UNIVERSAL;
    return found;
}

/* ---- the message ---- */

typedef struct {
    const char *word;
    char *value;
} word_value;

enum { WORDS = 5 };

/* Appends `value` in single quotes for a shell. */
static size_t append_quoted(char *text, size_t at, size_t capacity, const char *value)
{
    at += (size_t)snprintf(text + at, capacity - at, "'");
    for (; *value && at + 8 < capacity; value++)
        at += (size_t)snprintf(text + at, capacity - at, *value == '\'' ? "'\\''" : "%c", *value);
    return at + (size_t)snprintf(text + at, capacity - at, "'");
}

static void expand(char *text, size_t capacity, const char *template, const word_value values[WORDS])
{
    size_t at = strlen(text);
    while (*template && at + 8 < capacity) {
        int found = 0;
        while (found < WORDS && strncmp(template, values[found].word, strlen(values[found].word)) != 0)
            found++;
        if (found < WORDS) {
            at = append_quoted(text, at, capacity, values[found].value);
            template += strlen(values[found].word);
        } else {
            text[at++] = *template ++;
        }
    }
    text[at] = 0;
}

static char *joined(const char *one, const char *two, const char *three)
{
    return ce_must_print("%s%s%s", one, two, three);
}

static char *folder_of(const char *path, const char *base)
{
    char *folder = ce_must_copy(base == path ? "." : path);
    if (base != path)
        /* Cuts the path before its last slash; the root "/" keeps its slash. */
        folder[base - path - (base - path > 1)] = 0;
    return folder;
}

/* Writes the sentence about the checkpoint that was found. `inside` is the directory that `latest` names. If `inside`
 * is "", `path` is either the folder with the files or the recognised file itself. */
static void describe(char *sentence, const char *path, const char *inside, const finding *found)
{
    CE_FREED char *trimmed = ce_must_copy(path);
    size_t length = strlen(trimmed);
    const char *base;
    while (length > 1 && trimmed[length - 1] == '/')
        trimmed[--length] = 0;
    base = basename(trimmed);
    bool itself = strcmp(base, found->name) == 0;
    char *folder = itself ? folder_of(trimmed, base) : joined(trimmed, *inside ? "/" : "", inside);
    bool dots = strcmp(base, ".") == 0 || strcmp(base, "..") == 0;
    word_value values[WORDS] = {
        { "{folder}", folder },
        { "{top}", *inside || dots ? joined(trimmed, *inside ? "" : "/..", "") : folder_of(trimmed, base) },
        { "{tag}", ce_must_copy(*inside ? inside : base) },
        { "{file}", itself ? ce_must_copy(trimmed) : joined(folder, "/", found->name) },
        { "{name}", ce_must_copy(found->name) },
    };
    snprintf(sentence, CE_OTHER_FORMATS_BYTES, "%.2048s is ", path);
    expand(sentence, CE_OTHER_FORMATS_BYTES, descriptions[found->is], values);
    for (int i = 0; i < WORDS; i++)
        free(values[i].value);
}

/* Recognises the checkpoint that the file `pointer` of the folder names. If there is none, `name` becomes "". */
static void follow(char name[CE_TAG_BYTES], finding *found, const char *path, const char *pointer)
{
    if (ce_catalog_pointed(name, path, pointer) != CS_OK) {
        name[0] = 0;
        return;
    }
    CE_FREED char *tagged = ce_files_join(path, name);
    finding inside = recognise(tagged);
    if (inside.is != NOTHING)
        *found = inside;
    else
        name[0] = 0;
}

bool ce_other_formats_recognise(char sentence[CE_OTHER_FORMATS_BYTES], const char *path)
{
    char name[CE_TAG_BYTES] = "";
    finding found = recognise(path);
    static const char *const pointers[] = { "latest", "latest_universal" };
    for (int i = 0; i < 2 && !name[0]; i++)
        follow(name, &found, path, pointers[i]);
    if (found.is != NOTHING)
        describe(sentence, path, name, &found);
    return found.is != NOTHING;
}
