/* llmc.c - reads llm.c's GPT-2 checkpoint as a source of tensors.
 *
 * The file has 256 int32 (magic, version, positions, vocabulary, layers, heads, width, padded vocabulary), then the
 * parameters in GPT-2's order. The tensors of one kind of all layers are adjacent. Matrices are (out, in) in the file
 * and (in, out) in cspeed, so they are transposed while they are read. The token table has padding rows that no token
 * uses; these rows are left out. The data are fp32 in version 3 and bf16 in version 5. */
#include "interchange/source.h"
#include "checkpoint/convert.h"
#include "base/files.h"
#include "checkpoint/other_formats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORDS = 256, MAGIC = 20240326, PARAMETERS = 16, NAME = 64 };

/* One kind of parameter, which exists once or once for each layer. */
typedef struct {
    const char *name; /* name; it contains %lld for the number of the layer if each layer has one such parameter */
    /* cspeed's shape in multiples of the width; if `columns` is 0, the parameter is a vector of `rows` */
    int64_t rows, columns;
    bool layered, transposed;
} parameter;

static const parameter parameters[PARAMETERS] = {
    { "transformer.wte.weight", 0, 1, false, false },
    { "transformer.wpe.weight", 0, 1, false, false },
    { "transformer.h.%lld.ln_1.weight", 1, 0, true, false },
    { "transformer.h.%lld.ln_1.bias", 1, 0, true, false },
    { "transformer.h.%lld.attn.c_attn.weight", 1, 3, true, true },
    { "transformer.h.%lld.attn.c_attn.bias", 3, 0, true, false },
    { "transformer.h.%lld.attn.c_proj.weight", 1, 1, true, true },
    { "transformer.h.%lld.attn.c_proj.bias", 1, 0, true, false },
    { "transformer.h.%lld.ln_2.weight", 1, 0, true, false },
    { "transformer.h.%lld.ln_2.bias", 1, 0, true, false },
    { "transformer.h.%lld.mlp.c_fc.weight", 1, 4, true, true },
    { "transformer.h.%lld.mlp.c_fc.bias", 4, 0, true, false },
    { "transformer.h.%lld.mlp.c_proj.weight", 4, 1, true, true },
    { "transformer.h.%lld.mlp.c_proj.bias", 1, 0, true, false },
    { "transformer.ln_f.weight", 1, 0, false, false },
    { "transformer.ln_f.bias", 1, 0, false, false },
};

typedef struct {
    char *path;
    int descriptor;
    int64_t positions, vocabulary, layers, heads, width, padded;
    int64_t *offsets; /* offset in bytes of each tensor in the file */
    bool *transposed;
    char (*names)[NAME];
    char *buffer;
} llmc_file;

/* Checks the magic number. If the file is of another known program, the message names that program. */
static cs_status check_magic(cs_status reading, int32_t first, const char *path)
{
    char foreign[CE_OTHER_FORMATS_BYTES];
    if (reading == CS_OK && first == MAGIC)
        return CS_OK;
    if (ce_other_formats_recognise(foreign, path))
        return ce_fail(CS_UNSUPPORTED, "not supported: %s", foreign);
    CE_TRY(reading);
    return ce_fail(CS_BAD_FILE,
                   "%s is no checkpoint of llm.c: it begins with %d, not with %d; of safetensors name the folder", path,
                   first, MAGIC);
}

static cs_status read_head(llmc_file *file, cs_dtype *dtype)
{
    int32_t head[WORDS] = { 0 };
    CE_TRY(ce_files_open(&file->descriptor, file->path));
    cs_status reading = ce_files_read_at(file->descriptor, head, sizeof head, 0, file->path);
    CE_TRY(check_magic(reading, head[0], file->path));
    if (head[1] != 3 && head[1] != 5)
        return ce_fail(CS_UNSUPPORTED,
                       "not supported: %s, because it is version %d of llm.c's format; 3 (fp32) and 5 "
                       "(bf16) are known",
                       file->path, head[1]);
    *dtype = head[1] == 3 ? CS_F32 : CS_BF16;
    file->positions = head[2];
    file->vocabulary = head[3];
    file->layers = head[4];
    file->heads = head[5];
    file->width = head[6];
    file->padded = head[7];
    for (int i = 2; i < 8; i++)
        if (head[i] < 1 || head[i] > 1 << 24)
            return ce_fail(CS_BAD_FILE, "%s: number %d of its head is %d", file->path, i, head[i]);
    if (file->padded < file->vocabulary || file->width % file->heads != 0 || file->layers > 1 << 14 ||
        file->width > 1 << 17)
        return ce_fail(CS_BAD_FILE, "%s: the sizes in its head fit no GPT-2", file->path);
    return CS_OK;
}

/* Lists the tensors of one kind, which begin at `offset` in the file. Returns the offset behind these tensors. */
static int64_t list_parameter(ce_source *source, const parameter *s, cs_dtype dtype, int64_t offset)
{
    llmc_file *file = source->private_data;
    int64_t rows = s->rows * file->width, columns = s->columns * file->width, stored;
    bool tokens = s == &parameters[0], positions = s == &parameters[1];
    if (tokens || positions)
        rows = tokens ? file->vocabulary : file->positions;
    stored = (tokens ? file->padded : rows) * (columns ? columns : 1) * (int64_t)cs_dtype_bytes(dtype);
    for (int64_t layer = 0; layer < (s->layered ? file->layers : 1); layer++) {
        int64_t at = source->count++;
        char number[24];
        snprintf(number, sizeof number, "%lld", (long long)layer);
        const char *hole = strstr(s->name, "%lld");
        snprintf(file->names[at], NAME, "%.*s%s%s", hole ? (int)(hole - s->name) : NAME, s->name, hole ? number : "",
                 hole ? hole + 4 : "");
        file->offsets[at] = offset;
        file->transposed[at] = s->transposed;
        source->tensors[at] = (ce_source_tensor){ file->names[at], dtype, columns ? 2 : 1, { rows, columns } };
        offset += stored;
    }
    return offset;
}

static cs_status list_all(ce_source *source, cs_dtype dtype)
{
    llmc_file *file = source->private_data;
    size_t max = (size_t)(PARAMETERS * file->layers);
    int64_t offset = WORDS * 4, bytes;
    source->tensors = calloc(max, sizeof *source->tensors);
    file->offsets = calloc(max, sizeof *file->offsets);
    file->transposed = calloc(max, sizeof *file->transposed);
    file->names = calloc(max, sizeof *file->names);
    file->buffer = malloc(CE_SOURCE_BUFFER);
    if (!source->tensors || !file->offsets || !file->transposed || !file->names || !file->buffer)
        return ce_fail(CS_NO_MEMORY, "out of memory for reading %s", file->path);
    for (int i = 0; i < PARAMETERS; i++)
        offset = list_parameter(source, &parameters[i], dtype, offset);
    CE_TRY(ce_files_size(&bytes, file->path));
    if (bytes != offset)
        return ce_fail(CS_BAD_FILE,
                       "%s has %lld bytes, and a model of the sizes in its head %lld: it was cut, or is of "
                       "another kind",
                       file->path, (long long)bytes, (long long)offset);
    return CS_OK;
}

/* Reads a part of a transposed matrix: row r of the result is column r of the file's matrix. Each turn of the loop
 * reads a few of the file's rows and copies those elements that are in `range`. */
static cs_status read_transposed(ce_source *source, int64_t tensor, ce_range range, char *to, cs_dtype dtype)
{
    llmc_file *file = source->private_data;
    const ce_source_tensor *t = &source->tensors[tensor];
    int64_t rows = t->shape[0], columns = t->shape[1]; /* The file's matrix has the shape (columns, rows). */
    size_t size = cs_dtype_bytes(t->dtype), wide = cs_dtype_bytes(dtype);
    int64_t max = CE_SOURCE_BUFFER / (int64_t)size / rows;
    for (int64_t first = 0; first < columns; first += max) {
        int64_t last = first + max < columns ? first + max : columns;
        CE_TRY(ce_files_read_at(file->descriptor, file->buffer, (size_t)((last - first) * rows) * size,
                                file->offsets[tensor] + first * rows * (int64_t)size, file->path));
        for (int64_t row = range.from / columns; row * columns < range.to; row++)
            for (int64_t column = first; column < last; column++) {
                int64_t place = row * columns + column;
                if (place >= range.from && place < range.to)
                    ce_convert_elements(to + (size_t)(place - range.from) * wide, dtype,
                                        file->buffer + (size_t)((column - first) * rows + row) * size, t->dtype, 1);
            }
    }
    return CS_OK;
}

static cs_status read_range(ce_source *source, int64_t tensor, ce_range range, void *to, cs_dtype dtype)
{
    llmc_file *file = source->private_data;
    const ce_source_tensor *t = &source->tensors[tensor];
    int64_t size = (int64_t)cs_dtype_bytes(t->dtype), max = CE_SOURCE_BUFFER / size;
    if (file->transposed[tensor])
        return read_transposed(source, tensor, range, to, dtype);
    for (int64_t at = range.from, next; at < range.to; at = next) {
        next = at + max < range.to ? at + max : range.to;
        CE_TRY(ce_files_read_at(file->descriptor, file->buffer, (size_t)((next - at) * size),
                                file->offsets[tensor] + at * size, file->path));
        ce_convert_elements((char *)to + (size_t)(at - range.from) * cs_dtype_bytes(dtype), dtype, file->buffer,
                            t->dtype, next - at);
    }
    return CS_OK;
}

static void close_file(ce_source *source)
{
    llmc_file *file = source->private_data;
    if (file->descriptor >= 0)
        close(file->descriptor);
    free(file->path);
    free(file->offsets);
    free(file->transposed);
    free(file->names);
    free(file->buffer);
    free(file);
}

static cs_status build(ce_source *source, json_t **config)
{
    llmc_file *file = source->private_data;
    cs_dtype dtype;
    CE_TRY(read_head(file, &dtype));
    CE_TRY(list_all(source, dtype));
    *config = json_pack("{ss s[s] sI sI sI sI sI sb}", "model_type", "gpt2", "architectures", "GPT2LMHeadModel",
                        "vocab_size", (json_int_t)file->vocabulary, "n_positions", (json_int_t)file->positions,
                        "n_embd", (json_int_t)file->width, "n_layer", (json_int_t)file->layers, "n_head",
                        (json_int_t)file->heads, "tie_word_embeddings", 1);
    return *config ? CS_OK : ce_fail(CS_NO_MEMORY, "out of memory for a model's description");
}

cs_status ce_llmc_open(ce_source *source, json_t **config, const char *path)
{
    llmc_file *file = calloc(1, sizeof *file);
    *config = NULL;
    if (!file)
        return ce_fail(CS_NO_MEMORY, "out of memory for reading %s", path);
    file->descriptor = -1;
    file->path = strdup(path);
    *source = (ce_source){ .read = read_range, .close = close_file, .private_data = file };
    cs_status status = build(source, config);
    if (status != CS_OK)
        ce_source_close(source);
    return status;
}
