/* weight_files.c - finds the files with weights in a model's folder by their names. */
#include "interchange/weight_files.h"
#include "base/ends_with.h"
#include "base/must.h"
#include "base/files.h"
#include "checkpoint/other_formats.h"
#include "gguf/describe.h"

#include <dirent.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names of files that programs give to weights, complete or not. */
static const char *const weights[] = { "*.safetensors*", "*.bin",        "*.bin.*",       "*.pt",        "*.pt.*",
                                       "*.pth",          "*.pth.*",      "*.ckpt*",       "*.h5",        "*.hdf5",
                                       "*.npy",          "*.npz",        "*.msgpack",     "*.gguf*",     "*.ggml*",
                                       "*.llamafile",    "*.ot",         "*.onnx*",       "*.tflite",    "*.distcp",
                                       "*.pkl",          "*.pickle",     "*.pb",          "*.params",    "*.pdparams",
                                       "*.nemo",         "*.mlmodel",    "*.data-*-of-*", "weights",     "model",
                                       "pytorch_model",  "*.safetensor", "*.download",    "*.incomplete" };
/* Names of archives, which may have weights. */
static const char *const archives[] = { "*.zip", "*.tar", "*.tar.*", "*.tgz", "*.7z", "*.rar" };
/* Names of downloads and copies that have not ended; rsync writes the last form. */
static const char *const partial[] = { "*.incomplete", "*.part",  "*.partial",    "*.tmp",
                                       "*.crdownload", "*.aria2", ".[!.]*.??????" };

#define COUNT(list) (int)(sizeof(list) / sizeof *(list))

static bool matches(const char *name, const char *const *patterns, int count)
{
    bool found = false;
    for (int i = 0; i < count && !found; i++)
        found = fnmatch(patterns[i], name, FNM_CASEFOLD) == 0;
    return found;
}

static bool is_state(const struct dirent *entry)
{
    return ce_other_formats_is_state(entry->d_name);
}

static bool is_weights(const struct dirent *entry)
{
    const char *name = entry->d_name;
    return entry->d_type != DT_DIR && !is_state(entry) &&
           (matches(name, weights, COUNT(weights)) || matches(name, archives, COUNT(archives)));
}

/* ---- lists of names ---- */

static void add(ce_weight_files *files, const char *name)
{
    files->names = realloc(files->names, (size_t)(files->count + 1) * sizeof *files->names);
    CE_ASSERT(files->names);
    files->names[files->count] = strdup(name);
    CE_ASSERT(files->names[files->count++]);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static ce_weight_files list(const char *folder, bool (*takes)(const struct dirent *entry))
{
    ce_weight_files found = { 0 };
    DIR *listing = opendir(folder);
    for (const struct dirent *entry; listing && (entry = readdir(listing)) != NULL;)
        if (takes(entry))
            add(&found, entry->d_name);
    if (listing)
        closedir(listing);
    if (found.count)
        qsort(found.names, (size_t)found.count, sizeof *found.names, by_name);
    return found;
}

void ce_weight_files_close(ce_weight_files *files)
{
    for (int i = 0; i < files->count; i++)
        free(files->names[i]);
    free(files->names);
    *files = (ce_weight_files){ 0 };
}

/* ---- shards ---- */

/* A name such as "model-00002-of-00003.safetensors" has the stem "model" and is number 2 of 3. Another name of a
 * safetensors file is number 1 of 1. A hidden file is none of them: macOS writes attributes to
 * "._model.safetensors". */
typedef struct {
    int stem, number, count;
} shard;

static bool read_shard(shard *read, const char *name)
{
    int end = 0;
    const char *dash = strstr(name, "-of-");
    if (!ce_ends_with(name, ".safetensors") || name[0] == '.' || strcmp(name, CE_WEIGHTS_ADAPTER) == 0)
        return false;
    *read = (shard){ (int)(strlen(name) - strlen(".safetensors")), 1, 1 };
    if (!dash || dash - name < 6 ||
        sscanf(dash - 6, "-%5d-of-%5d.safetensors%n", &read->number, &read->count, &end) != 2 || dash[end - 6] != 0)
        return true;
    read->stem = (int)(dash - 6 - name);
    return true;
}

static bool same_set(const char *a, const char *b)
{
    shard one, other;
    return read_shard(&one, a) && read_shard(&other, b) && one.stem == other.stem && one.count == other.count &&
           strncmp(a, b, (size_t)one.stem) == 0;
}

/* Fails unless the files, which are all of one set, are the whole set. */
static cs_status check_complete(const ce_weight_files *files, const char *folder)
{
    shard read = { 0 };
    int missing = 1;
    for (int i = 0; i < files->count; i++)
        missing += read_shard(&read, files->names[i]) && read.number == missing;
    if (missing > read.count)
        return CS_OK;
    return ce_fail(CS_BAD_FILE,
                   "%s contains only %d of %d shards, and %.*s-%05d-of-%05d.safetensors is missing: the download or "
                   "the copy is incomplete; repeat it, with `hf download` for example",
                   folder, files->count, read.count, read.stem, files->names[0], missing, read.count);
}

/* ---- refusals ---- */

static cs_status refuse_sets(const ce_weight_files *files, const char *folder)
{
    ce_names sets = { 0 };
    for (int i = 0; i < files->count; i++)
        ce_names_add(&sets, "%s", files->names[i]);
    return ce_fail(CS_UNSUPPORTED,
                   "not supported: %s contains several sets of weights and no " CE_WEIGHTS_SINGLE " (%s): put one of "
                   "them into a folder with the config.json and the tokenizer",
                   folder, ce_names_text(&sets));
}

/* The weights of Mistral's own programs have other names, and another order of the rows of q and k. */
static cs_status refuse_consolidated(const char *folder, const char *name)
{
    return ce_fail(CS_UNSUPPORTED,
                   "not supported: %s/%s has the tensor names of Mistral's own programs: take the files "
                   "model-….safetensors of the same model instead",
                   folder, name);
}

static cs_status refuse_adapter(const char *folder, const char *name)
{
    return ce_fail(CS_UNSUPPORTED,
                   "not supported: %s/%s as a model, because it holds only adapters: name their base model "
                   "(base_model_name_or_path of %s/adapter_config.json), and give --adapter %s",
                   folder, name, folder, folder);
}

static cs_status refuse_partial(const char *folder, const char *name)
{
    return ce_fail(
        CS_BAD_FILE,
        "%s/%s is an incomplete download or copy, so %s has no weights that can be read: repeat it; `hf download "
        "MODEL --local-dir %s` continues the download of MODEL",
        folder, name, folder, folder);
}

/* Looks for the downloads that `hf download --local-dir` has not finished. */
static cs_status check_downloads(const char *folder)
{
    static const char below[] = ".cache/huggingface/download";
    char name[512], *place = ce_files_join(folder, below);
    ce_weight_files files = list(place, is_weights);
    cs_status status = CS_OK;
    for (int i = 0; i < files.count && status == CS_OK; i++)
        if (matches(files.names[i], partial, COUNT(partial))) {
            snprintf(name, sizeof name, "%s/%s", below, files.names[i]);
            status = refuse_partial(folder, name);
        }
    ce_weight_files_close(&files);
    free(place);
    if (status == CS_OK && ce_files_holds(folder, "../../refs"))
        return ce_fail(
            CS_NOT_FOUND,
            "%s, a folder of the Hugging Face cache, has no weights yet: `hf download` with the model's name "
            "completes it",
            folder);
    return status;
}

static bool is_folder(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && entry->d_type != DT_REG;
}

/* Some file systems do not say in a listing of what type an entry is. */
static bool is_other(const struct dirent *entry)
{
    return entry->d_type == DT_REG || (entry->d_type != DT_DIR && entry->d_name[0] != '.');
}

/* Looks for weights in the folders of a folder that has none itself, such as the checkpoint-500 of Trainer. */
static cs_status check_below(const char *folder)
{
    ce_weight_files below = list(folder, is_folder);
    cs_status status = CS_OK;
    for (int i = 0; i < below.count && status == CS_OK; i++) {
        char *place = ce_files_join(folder, below.names[i]);
        ce_weight_files files = list(place, is_weights);
        if (files.count)
            status = ce_fail(CS_NOT_FOUND,
                             "%s has no weights, and %s/%s is in a folder in it: name the folder that has the weights, "
                             "or move it elsewhere",
                             folder, place, files.names[0]);
        ce_weight_files_close(&files);
        free(place);
    }
    ce_weight_files_close(&below);
    return status;
}

/* Looks for weights in files whose names do not say so, by their first bytes, and for the state of a training. */
static cs_status check_content(const char *folder)
{
    char sentence[CE_OTHER_FORMATS_BYTES];
    ce_weight_files files = list(folder, is_other), saved = list(folder, is_state);
    cs_status status = CS_OK;
    for (int i = 0; i < files.count && status == CS_OK; i++) {
        char *path = ce_files_join(folder, files.names[i]);
        if (ce_other_formats_recognise(sentence, path))
            status = ce_fail(CS_UNSUPPORTED, "not supported: %s", sentence);
        free(path);
    }
    if (status == CS_OK && saved.count)
        status = ce_fail(CS_NOT_FOUND,
                         "%s has no weights, and %s in it is the state of a training: name the folder that has the "
                         "weights of the model",
                         folder, saved.names[0]);
    ce_weight_files_close(&files);
    ce_weight_files_close(&saved);
    return status;
}

/* Fails if the folder has files with weights, of which none is a whole safetensors file. */
static cs_status refuse_others(const ce_weight_files *files, const char *folder)
{
    char sentence[CE_OTHER_FORMATS_BYTES];
    for (int i = 0; i < files->count; i++)
        if (matches(files->names[i], partial, COUNT(partial)))
            return refuse_partial(folder, files->names[i]);
    for (int i = 0; i < files->count; i++)
        if (strncmp(files->names[i], "adapter_model.", strlen("adapter_model.")) == 0)
            return refuse_adapter(folder, files->names[i]);
    if (ce_other_formats_recognise(sentence, folder))
        return ce_fail(CS_UNSUPPORTED, "not supported: %s", sentence);
    if (files->count == 0) {
        CE_TRY(check_downloads(folder));
        CE_TRY(check_below(folder));
        return check_content(folder);
    }
    if (matches(files->names[0], archives, COUNT(archives)))
        return ce_fail(CS_UNSUPPORTED, "not supported: %s/%s: archives are not read: unpack it, and move it elsewhere",
                       folder, files->names[0]);
    return ce_fail(CS_UNSUPPORTED,
                   "not supported: %s/%s: weights are read from " CE_WEIGHTS_SINGLE
                   ", or from the shards that " CE_WEIGHTS_INDEX " lists; if the file is not used, move it elsewhere",
                   folder, files->names[0]);
}

/* ---- the choice ---- */

/* Sets `chosen` to the safetensors files of the only set in `all`. */
static cs_status choose_set(ce_weight_files *chosen, const ce_weight_files *all, const char *folder)
{
    ce_weight_files sets = { 0 };
    shard read;
    for (int i = 0; i < all->count; i++) {
        const char *name = all->names[i];
        if (!read_shard(&read, name) || strncmp(name, "consolidated", strlen("consolidated")) == 0)
            continue;
        if (!sets.count || !same_set(sets.names[sets.count - 1], name))
            add(&sets, name);
        add(chosen, name);
    }
    cs_status status = sets.count > 1 ? refuse_sets(&sets, folder) : CS_OK;
    ce_weight_files_close(&sets);
    if (status != CS_OK)
        return status;
    if (chosen->count)
        return check_complete(chosen, folder);
    if (ce_files_holds(folder, CE_GGUF_LINK)) {
        add(chosen, CE_GGUF_LINK);
        return CS_OK;
    }
    for (int i = 0; i < all->count; i++)
        if (read_shard(&read, all->names[i]))
            return refuse_consolidated(folder, all->names[i]);
    return refuse_others(all, folder);
}

cs_status ce_weight_files_find(ce_weight_files *files, const char *folder)
{
    static const char *const usual[] = { CE_WEIGHTS_SINGLE, CE_WEIGHTS_INDEX };
    *files = (ce_weight_files){ 0 };
    for (int i = 0; i < 2 && files->count == 0; i++)
        if (ce_files_holds(folder, usual[i]))
            add(files, usual[i]);
    if (files->count)
        return CS_OK;
    ce_weight_files all = list(folder, is_weights);
    cs_status status = choose_set(files, &all, folder);
    ce_weight_files_close(&all);
    if (status != CS_OK)
        ce_weight_files_close(files);
    return status;
}

static bool is_any(const struct dirent *entry)
{
    return is_weights(entry) || is_state(entry);
}

void ce_weight_files_others(ce_names *others, const char *folder, bool (*is_read)(const void *reader, const char *name),
                            const void *reader)
{
    ce_weight_files all = list(folder, is_any);
    for (int i = 0; i < all.count; i++) {
        bool index = strcmp(all.names[i], CE_WEIGHTS_INDEX) == 0 && !ce_files_holds(folder, CE_WEIGHTS_SINGLE);
        if (!index && !is_read(reader, all.names[i]))
            ce_names_add(others, "%s", all.names[i]);
    }
    ce_weight_files_close(&all);
}
