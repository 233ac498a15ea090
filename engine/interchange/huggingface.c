/* huggingface.c - reads the weights of a Hugging Face folder as a source of tensors. */
#include "interchange/huggingface_folder.h"
#include "interchange/four_bit.h"
#include "interchange/gguf_source.h"
#include "interchange/joined_experts.h"
#include "interchange/huggingface.h"
#include "base/ends_with.h"
#include "base/input.h"
#include "base/log.h"
#include "base/must.h"
#include "checkpoint/convert.h"
#include "base/files.h"
#include "checkpoint/safetensors.h"
#include "gguf/describe.h"
#include "hub/hub.h"
#include "interchange/weight_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { INDEX_LIMIT = 1 << 28 };

typedef struct {
    char *path;
    int descriptor;
} weight_file;

typedef struct {
    char *name;
    int64_t file, offset; /* index of the tensor's file, and offset of the tensor's first byte in that file */
    ce_gguf_form form;
} weight_place;

typedef struct {
    weight_file *files;
    int64_t file_count;
    weight_place *places; /* one element for each tensor */
    char *buffer;         /* a buffer for elements that are to be converted */
} folder_source;

/* ---- reading names and shapes ---- */

cs_status ce_huggingface_detect(bool *found, const char *folder)
{
    ce_weight_files files;
    cs_status status = ce_weight_files_find(&files, folder);
    *found = files.count > 0;
    ce_weight_files_close(&files);
    return status;
}

/* Returns true for the names of masks and tables that older versions of transformers saved with the weights. */
static bool is_buffer(const char *name)
{
    return ce_ends_with(name, ".attn.bias") || ce_ends_with(name, ".attn.masked_bias") ||
           ce_ends_with(name, ".attention.bias") || ce_ends_with(name, ".attention.masked_bias") ||
           ce_ends_with(name, "rotary_emb.inv_freq");
}

/* ---- opening ---- */

static void *grown(void *list, int64_t count, size_t item)
{
    void *longer = realloc(list, (size_t)count * item);
    if (!longer)
        ce_fatal(CS_NO_MEMORY, "out of memory for the list of a model's tensors");
    return longer;
}

static void append(ce_source *source, weight_place place, cs_dtype dtype, int dims, const int64_t *shape)
{
    folder_source *weights = source->private_data;
    int64_t at = source->count;
    source->tensors = grown(source->tensors, at + 1, sizeof *source->tensors);
    weights->places = grown(weights->places, at + 1, sizeof *weights->places);
    weights->places[at] = place;
    source->tensors[at] = (ce_source_tensor){ .name = place.name, .dtype = dtype, .dims = dims };
    memcpy(source->tensors[at].shape, shape, (size_t)dims * sizeof *shape);
    source->count++;
}

static cs_status add_tensor(ce_source *source, int64_t file, const ce_safetensors_entry *entry, int64_t data)
{
    const folder_source *weights = source->private_data;
    cs_dtype dtype;
    if (is_buffer(entry->key))
        return CS_OK;
    if (!ce_safetensors_dtype(&dtype, entry->dtype) || (dtype > CS_F16 && dtype != CS_U8))
        return ce_fail(
            CS_UNSUPPORTED,
            "not supported: %s: tensor %s is %s; weights are read as F32, BF16 or F16, or as the U8 of 4-bit weights",
            weights->files[file].path, entry->key, entry->dtype);
    if (entry->dims > CS_MAX_DIMS)
        return ce_fail(CS_UNSUPPORTED, "not supported: %s: tensor %s has %d dimensions; %d are the most",
                       weights->files[file].path, entry->key, entry->dims, CS_MAX_DIMS);
    append(source, (weight_place){ .name = ce_must_copy(entry->key), .file = file, .offset = data + entry->begin },
           dtype, entry->dims, entry->shape);
    return CS_OK;
}

/* Adds a tensor of a GGUF file, which is the only file of the source. */
static cs_status add_gguf_tensor(void *source, const ce_gguf_found *found)
{
    append(source, (weight_place){ .name = ce_must_copy(found->name), .offset = found->offset, .form = found->form },
           found->dtype, found->dims, found->shape);
    return CS_OK;
}

static cs_status add_header(ce_source *source, int64_t file, const char *block, size_t block_bytes, int64_t file_bytes)
{
    folder_source *weights = source->private_data;
    ce_safetensors header = { 0 };
    cs_status status = ce_safetensors_parse(&header, block + 8, block_bytes - 8, file_bytes - (int64_t)block_bytes,
                                            weights->files[file].path);
    if (status == CS_OK && json_object_get(header.metadata, "DCP_SHARDING_INFO"))
        status = ce_fail(CS_UNSUPPORTED,
                         "not supported: %s, because it contains pieces of tensors (PyTorch's sharded checkpoint), "
                         "not complete tensors; load a checkpoint of cspeed with cspeed.load, or merge the pieces "
                         "first",
                         weights->files[file].path);
    for (int64_t i = 0; i < header.count && status == CS_OK; i++)
        status = add_tensor(source, file, &header.entries[i], (int64_t)block_bytes);
    ce_safetensors_close(&header);
    return status;
}

static cs_status add_file(ce_source *source, const char *folder, const char *name)
{
    folder_source *weights = source->private_data;
    int64_t at = weights->file_count, bytes;
    char *block = NULL;
    size_t block_bytes;
    weights->files = grown(weights->files, at + 1, sizeof *weights->files);
    weights->files[at] = (weight_file){ ce_files_join(folder, name), -1 };
    weights->file_count++;
    CE_TRY(ce_files_open(&weights->files[at].descriptor, weights->files[at].path));
    if (ce_ends_with(name, ".gguf"))
        return ce_gguf_source_list(weights->files[at].path, add_gguf_tensor, source);
    cs_status status = ce_safetensors_load(&block, &block_bytes, &bytes, weights->files[at].path);
    if (status == CS_OK)
        status = add_header(source, at, block, block_bytes, bytes);
    free(block);
    return status;
}

static bool is_listed(const folder_source *weights, const char *folder, const char *name)
{
    char *path = ce_files_join(folder, name);
    bool found = false;
    for (int64_t i = 0; i < weights->file_count && !found; i++)
        found = strcmp(weights->files[i].path, path) == 0;
    free(path);
    return found;
}

/* Adds the tensors of the shards that the index lists. A shard must be in the model's folder itself. */
static cs_status add_indexed(ce_source *source, const char *folder, json_t *map, const char *path)
{
    const char *key;
    json_t *value;
    if (!json_is_object(map))
        return ce_fail(CS_BAD_FILE, "%s: \"weight_map\" is missing or no object", path);
    json_object_foreach (map, key, value) {
        const char *name = json_string_value(value);
        if (!name || strchr(name, '/') || !ce_ends_with(name, ".safetensors"))
            return ce_fail(CS_BAD_FILE, "%s: weight_map must name a .safetensors file in the same folder for %s", path,
                           key);
        if (!is_listed(source->private_data, folder, name))
            CE_TRY(add_file(source, folder, name));
    }
    json_object_foreach (map, key, value) {
        if (!is_buffer(key) && ce_source_find(source, key) < 0)
            return ce_fail(CS_BAD_FILE, "%s: tensor %s is not in %s", path, key, json_string_value(value));
    }
    return CS_OK;
}

static cs_status add_index(ce_source *source, const char *folder)
{
    char *path = ce_files_join(folder, CE_WEIGHTS_INDEX), *text = NULL;
    size_t length;
    cs_status status = ce_files_read(&text, &length, path, INDEX_LIMIT);
    json_t *root = status == CS_OK ? ce_json_strict(text, length) : NULL;
    if (status == CS_OK && !root)
        status = ce_fail(CS_BAD_FILE, "%s: %s", path, cs_error());
    if (status == CS_OK)
        status = add_indexed(source, folder, json_object_get(root, "weight_map"), path);
    json_decref(root);
    free(path);
    free(text);
    return status;
}

/* ---- changing the list of tensors ---- */

void ce_huggingface_rename_tensor(ce_source *source, int64_t tensor, char *name)
{
    folder_source *weights = source->private_data;
    free(weights->places[tensor].name);
    source->tensors[tensor].name = weights->places[tensor].name = name;
}

void ce_huggingface_remove_tensor(ce_source *source, int64_t tensor)
{
    folder_source *weights = source->private_data;
    free(weights->places[tensor].name);
    size_t behind = (size_t)(--source->count - tensor);
    memmove(&weights->places[tensor], &weights->places[tensor + 1], behind * sizeof *weights->places);
    memmove(&source->tensors[tensor], &source->tensors[tensor + 1], behind * sizeof *source->tensors);
}

int64_t ce_huggingface_copy_tensor(ce_source *source, int64_t tensor, char *name)
{
    folder_source *weights = source->private_data;
    int64_t at = source->count++;
    source->tensors = grown(source->tensors, at + 1, sizeof *source->tensors);
    weights->places = grown(weights->places, at + 1, sizeof *weights->places);
    weights->places[at] = weights->places[tensor];
    source->tensors[at] = source->tensors[tensor];
    source->tensors[at].name = weights->places[at].name = name;
    return at;
}

void ce_huggingface_add_rows(ce_source *source, int64_t whole, char *name, int64_t first, int64_t rows)
{
    folder_source *weights = source->private_data;
    int64_t at = ce_huggingface_copy_tensor(source, whole, name);
    ce_source_tensor from = source->tensors[whole];
    weights->places[at].offset += first * from.shape[2] * (int64_t)cs_dtype_bytes(from.dtype);
    source->tensors[at] =
        (ce_source_tensor){ .name = name, .dtype = from.dtype, .dims = 2, .shape = { rows, from.shape[2] } };
}

const char *ce_huggingface_first_file(const ce_source *source)
{
    const folder_source *weights = source->private_data;
    return weights->files[0].path;
}

/* ---- reading ---- */

static cs_status read_range(ce_source *source, int64_t tensor, ce_range range, void *to, cs_dtype dtype)
{
    folder_source *weights = source->private_data;
    const ce_source_tensor *from = &source->tensors[tensor];
    const weight_file *file = &weights->files[weights->places[tensor].file];
    const weight_place *place = &weights->places[tensor];
    size_t size = cs_dtype_bytes(from->dtype);
    int64_t start = place->offset + range.from * (int64_t)size, count;
    if (place->form.converted)
        return ce_gguf_form_read(&place->form, file->descriptor, place->offset, file->path, range, to, dtype,
                                 weights->buffer);
    for (int64_t done = 0; done < ce_range_length(range); done += count) {
        int64_t rest = ce_range_length(range) - done, max = CE_SOURCE_BUFFER / (int64_t)size;
        char *goal = (char *)to + (size_t)done * cs_dtype_bytes(dtype);
        count = rest < max ? rest : max;
        bool same = from->dtype == dtype;
        CE_TRY(ce_files_read_at(file->descriptor, same ? goal : weights->buffer, (size_t)count * size,
                                start + done * (int64_t)size, file->path));
        if (!same)
            ce_convert_elements(goal, dtype, weights->buffer, from->dtype, count);
    }
    return CS_OK;
}

static void close_folder(ce_source *source)
{
    folder_source *weights = source->private_data;
    for (int64_t i = 0; i < weights->file_count; i++) {
        if (weights->files[i].descriptor >= 0)
            close(weights->files[i].descriptor);
        free(weights->files[i].path);
    }
    for (int64_t i = 0; i < source->count; i++)
        free(weights->places[i].name);
    free(weights->files);
    free(weights->places);
    free(weights->buffer);
    free(weights);
}

static cs_status refuse_folder(const char *folder)
{
    if (ce_files_holds(folder, "latest") || ce_files_holds(folder, "manifest.json"))
        return ce_fail(CS_NOT_FOUND,
                       "%s contains checkpoints and is not a Hugging Face folder: `cspeed export %s OUT` converts one",
                       folder, folder);
    return ce_fail(CS_NOT_FOUND, "%s holds no weights: neither " CE_WEIGHTS_SINGLE " nor " CE_WEIGHTS_INDEX, folder);
}

/* Returns a copy of a name without ".base_layer", which PEFT adds to the names of an adapted layer's own biases. */
static char *name_in_model(const char *name)
{
    static const char word[] = ".base_layer.bias";
    size_t length = strlen(name) - (ce_ends_with(name, word) ? sizeof word - 1 : 0);
    char *made;
    return asprintf(&made, "%.*s%s", (int)length, name, name[length] ? ".bias" : "") < 0 ? NULL : made;
}

static cs_status build_adapter(ce_source *source, const char *folder)
{
    folder_source *weights = source->private_data;
    static const char prefix[] = "base_model.model.";
    weights->buffer = malloc(CE_SOURCE_BUFFER);
    if (!weights->buffer)
        return ce_fail(CS_NO_MEMORY, "out of memory for reading weights");
    if (!ce_files_holds(folder, CE_WEIGHTS_ADAPTER))
        return ce_fail(CS_NOT_FOUND, "%s: there is no " CE_WEIGHTS_ADAPTER " in it%s", folder,
                       ce_files_holds(folder, "adapter_model.bin")
                           ? ", but an adapter_model.bin, which is not read: save it with safe_serialization=True"
                           : "; a folder that PEFT's save_pretrained wrote is needed");
    CE_TRY(add_file(source, folder, CE_WEIGHTS_ADAPTER));
    for (int64_t i = 0; i < source->count; i++)
        if (strncmp(source->tensors[i].name, prefix, sizeof prefix - 1) == 0)
            ce_huggingface_rename_tensor(source, i, name_in_model(source->tensors[i].name + sizeof prefix - 1));
    return CS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(weight_place *const *)a)->name, (*(weight_place *const *)b)->name);
}

/* Fails if two files have tensors of the same name: it is then unknown which of them is meant. */
static cs_status check_names(const ce_source *source)
{
    const folder_source *weights = source->private_data;
    size_t count = (size_t)source->count;
    weight_place **sorted = calloc(count + 1, sizeof *sorted);
    cs_status status = sorted ? CS_OK : ce_fail(CS_NO_MEMORY, "out of memory for a list of tensors");
    for (size_t i = 0; i < count && status == CS_OK; i++)
        sorted[i] = &weights->places[i];
    if (status == CS_OK)
        qsort(sorted, count, sizeof *sorted, by_name);
    for (size_t i = 1; i < count && status == CS_OK; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            status = ce_fail(CS_BAD_FILE, "tensor %s is in %s and in %s", sorted[i]->name,
                             weights->files[sorted[i - 1]->file].path, weights->files[sorted[i]->file].path);
    free(sorted);
    return status;
}

static cs_status build(ce_source *source, const char *folder)
{
    folder_source *weights = source->private_data;
    ce_weight_files files;
    weights->buffer = malloc(CE_SOURCE_BUFFER);
    if (!weights->buffer)
        return ce_fail(CS_NO_MEMORY, "out of memory for reading weights");
    CE_TRY(ce_weight_files_find(&files, folder));
    cs_status status = files.count ? CS_OK : refuse_folder(folder);
    bool indexed = files.count && strcmp(files.names[0], CE_WEIGHTS_INDEX) == 0;
    if (indexed)
        status = add_index(source, folder);
    for (int i = 0; i < files.count && status == CS_OK && !indexed; i++)
        status = add_file(source, folder, files.names[i]);
    ce_weight_files_close(&files);
    return status == CS_OK ? check_names(source) : status;
}

static cs_status open_by(ce_source *source, const char *folder, cs_status (*how)(ce_source *, const char *))
{
    *source = (ce_source){ .read = read_range, .private_data = calloc(1, sizeof(folder_source)) };
    if (!source->private_data)
        return ce_fail(CS_NO_MEMORY, "out of memory for reading %s", folder);
    source->close = close_folder;
    cs_status status = how(source, folder);
    if (status != CS_OK)
        ce_source_close(source);
    return status;
}

cs_status ce_huggingface_open(ce_source *source, const char *folder)
{
    CE_TRY(ce_hub_need_weights(folder));
    return open_by(source, folder, build);
}

cs_status ce_huggingface_open_adapter(ce_source *source, const char *folder)
{
    CE_TRY(ce_hub_need_weights(folder));
    return open_by(source, folder, build_adapter);
}

/* ---- files that are not read ---- */

typedef struct {
    const folder_source *weights;
    const char *folder;
} folder_reader;

static bool is_read(const void *reader, const char *name)
{
    const folder_reader *r = reader;
    return is_listed(r->weights, r->folder, name);
}

void ce_huggingface_name_others(const ce_source *source, const char *folder)
{
    ce_names others = { 0 };
    source = ce_mxfp4_inner(ce_four_bit_inner(source));
    folder_reader reader = { source->private_data, folder };
    if (!ce_files_holds(folder, CE_WEIGHTS_SINGLE) && !ce_files_holds(folder, CE_WEIGHTS_INDEX) &&
        !ce_files_holds(folder, CE_GGUF_LINK))
        ce_log(CE_LOG_NOTICE, "%s has neither " CE_WEIGHTS_SINGLE " nor an index: %s is read%s", folder,
               ce_huggingface_first_file(source), reader.weights->file_count > 1 ? ", and the shards after it" : "");
    ce_weight_files_others(&others, folder, is_read, &reader);
    if (others.count)
        ce_log(CE_LOG_NOTICE, "%s: these files are not read: %s", folder, ce_names_text(&others));
}

/* ---- the digest ---- */

static cs_status digest_file(char text[CE_MAC_DIGEST], const char *path)
{
    struct stat facts;
    int file = ce_input_open(path);
    size_t bytes = file >= 0 && fstat(file, &facts) == 0 ? (size_t)facts.st_size : 0;
    void *mapped = bytes ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    if (file >= 0)
        close(file);
    if (mapped == MAP_FAILED)
        return ce_fail(CS_BAD_FILE, "%s: it cannot be mapped: %s", path, strerror(errno));
    ce_mac_digest(text, mapped, bytes);
    munmap(mapped, bytes);
    return CS_OK;
}

cs_status ce_huggingface_digest(char text[CE_MAC_DIGEST], const char *folder)
{
    ce_source source;
    CE_TRY(ce_huggingface_open(&source, folder));
    const folder_source *weights = source.private_data;
    char *digests = calloc((size_t)weights->file_count + 1, CE_MAC_DIGEST);
    cs_status status = digests ? CS_OK : ce_fail(CS_NO_MEMORY, "out of memory for the digest of %s", folder);
    for (int64_t i = 0; i < weights->file_count && status == CS_OK; i++)
        status = digest_file(digests + i * CE_MAC_DIGEST, weights->files[i].path);
    if (status == CS_OK)
        ce_mac_digest(text, digests, (size_t)weights->file_count * CE_MAC_DIGEST);
    free(digests);
    ce_source_close(&source);
    return status;
}
