/* gguf_write.c - writes a GGUF file: a header with keys and a list of tensors, then their data, each from an offset that
 * is a multiple of 32 bytes. The headers depend only on the shapes; the data go through one buffer. */
#include "base/files.h"
#include "base/log.h"
#include "base/must.h"
#include "base/names.h"
#include "base/progress.h"
#include "interchange/gguf_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGNMENT = 32, VERSION = 3 };

/* One tensor of the file. */
typedef struct {
    char name[128];
    int64_t from; /* number of the tensor in the source; -1: `factors` are its elements */
    int64_t rows, columns, heads, offset;
    int dims;
    ce_gguf_type type;
    bool plus_one;
} place;

typedef struct {
    const ce_gguf_output *given;
    ce_source *source;
    const ce_gguf_family *family;
    ce_gguf_sizes sizes;
    place *places;
    int64_t count, bytes; /* of all data */
    float *factors;       /* divisors of the rotary frequencies; NULL: none */
    char *header;
    size_t header_bytes;
    float *buffer;
    ce_names coarse; /* matrices whose rows are not divided into blocks */
    ce_progress progress;
} writing;

static int64_t aligned(int64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int64_t bytes_of(const place *p)
{
    return p->rows * ce_gguf_row_bytes(p->type, p->columns);
}

/* Chooses the type of a tensor. */
static ce_gguf_type type_of(writing *w, const place *p)
{
    bool blocks = ce_gguf_block_elements(w->given->type) > 1;
    bool ends = strncmp(p->name, "token_embd.", 11) == 0 || strncmp(p->name, "output.", 7) == 0;
    if (p->dims < 2)
        return CE_GGUF_F32;
    if (blocks && p->columns % CE_GGUF_BLOCK != 0) {
        ce_names_add(&w->coarse, "%s", p->name);
        return CE_GGUF_F16;
    }
    return ends && blocks ? CE_GGUF_Q8_0 : w->given->type;
}

static void append(writing *w, place p)
{
    p.offset = w->bytes;
    p.type = type_of(w, &p);
    w->places[w->count++] = p;
    w->bytes = aligned(p.offset + bytes_of(&p));
}

/* Places all tensors of the source in the file. */
static cs_status arrange(writing *w)
{
    int64_t count;
    w->places = ce_must_alloc((size_t)(w->source->count + 1) * sizeof *w->places);
    for (int64_t i = 0; i < w->source->count; i++) {
        const ce_source_tensor *t = &w->source->tensors[i];
        place p = { .from = i,
                    .dims = t->dims,
                    .heads = ce_gguf_family_heads(w->family, t->name, w->sizes.heads, w->sizes.key_heads) };
        if (!ce_gguf_family_name(p.name, w->family, t->name))
            return ce_fail(CS_UNSUPPORTED, "not supported: the tensor %s in a GGUF file of model_type %s", t->name,
                           w->family->type);
        p.rows = t->dims > 1 ? t->shape[0] : 1;
        p.columns = t->shape[t->dims - 1];
        p.plus_one = ce_gguf_family_plus_one(w->family, p.name);
        append(w, p);
    }
    w->factors = ce_gguf_family_factors(&count, w->given->config, w->sizes.width);
    if (w->factors)
        append(w, (place){ .name = "rope_freqs.weight", .from = -1, .rows = 1, .columns = count, .dims = 1 });
    return CS_OK;
}

/* ---- the header ---- */

static void write_tensors(const writing *w, FILE *out)
{
    for (int64_t i = 0; i < w->count; i++) {
        const place *p = &w->places[i];
        ce_gguf_text(out, p->name, strlen(p->name));
        ce_gguf_number(out, (uint64_t)p->dims, 4);
        ce_gguf_number(out, (uint64_t)p->columns, 8); /* the inner dimension comes first */
        if (p->dims > 1)
            ce_gguf_number(out, (uint64_t)p->rows, 8);
        ce_gguf_number(out, p->type, 4);
        ce_gguf_number(out, (uint64_t)p->offset, 8);
    }
}

/* Makes the header, whose end is aligned as the data are. */
static cs_status make_header(writing *w)
{
    char *text = NULL;
    size_t length = 0;
    ce_gguf_keys keys = { .out = ce_must_stream(&text, &length) };
    cs_status status = ce_gguf_family_keys(&keys, w->family, w->given->config, &w->sizes);
    if (status == CS_OK)
        status = ce_gguf_tokenizer_keys(&keys, w->given, w->sizes.vocabulary);
    ce_gguf_key_count(&keys, "general.file_type", ce_gguf_file_type(w->given->type));
    ce_gguf_key_count(&keys, "general.quantization_version", 2);
    ce_must_finish(keys.out);
    FILE *out = ce_must_stream(&w->header, &w->header_bytes);
    fwrite("GGUF", 1, 4, out);
    ce_gguf_number(out, VERSION, 4);
    ce_gguf_number(out, (uint64_t)w->count, 8);
    ce_gguf_number(out, (uint64_t)keys.count, 8);
    fwrite(text, 1, length, out);
    write_tensors(w, out);
    for (long at = ftell(out); at % ALIGNMENT; at++)
        putc(0, out);
    ce_must_finish(out);
    free(text);
    return status;
}

/* ---- the data ---- */

/* Puts the rows of one head into the order of pairs: row i of the first half comes before row i of the second half. */
static void pair_rows(float *rows, int64_t count, int64_t columns)
{
    size_t row = (size_t)columns * sizeof *rows, bytes = (size_t)count * row;
    CE_FREED float *old = ce_must_alloc(bytes);
    memcpy(old, rows, bytes);
    for (int64_t i = 0; i < count; i++)
        memcpy(rows + i * columns, old + (i % 2 * (count / 2) + i / 2) * columns, row);
}

static cs_status read_rows(writing *w, const place *p, ce_range rows)
{
    ce_range range = { rows.from * p->columns, rows.to * p->columns };
    int64_t count = range.to - range.from;
    if (p->from < 0)
        memcpy(w->buffer, w->factors, (size_t)count * sizeof *w->buffer);
    else
        CE_TRY(w->source->read(w->source, p->from, range, w->buffer, CS_F32));
    for (int64_t i = 0; i < count && p->plus_one; i++)
        w->buffer[i] += 1;
    return CS_OK;
}

static cs_status write_tensor(writing *w, const place *p, int descriptor)
{
    /* A vector of a permuted layer has one element for each row of the matrix. */
    place t = *p;
    if (p->heads && p->dims < 2)
        t.rows = p->columns, t.columns = 1;
    int64_t head = p->heads ? t.rows / p->heads : 0, row = ce_gguf_row_bytes(CE_GGUF_F32, t.columns);
    int64_t most = head ? head : CE_SOURCE_BUFFER / row > 0 ? CE_SOURCE_BUFFER / row : 1;
    int64_t offset = (int64_t)w->header_bytes + p->offset;
    for (int64_t at = 0, next; at < t.rows; at = next) {
        next = at + most < t.rows ? at + most : t.rows;
        CE_TRY(read_rows(w, &t, (ce_range){ at, next }));
        if (head)
            pair_rows(w->buffer, head, t.columns);
        size_t bytes = (size_t)((next - at) * t.columns * ce_gguf_row_bytes(p->type, CE_GGUF_BLOCK) / CE_GGUF_BLOCK);
        ce_gguf_encode(p->type, w->buffer, w->buffer, (next - at) * t.columns);
        CE_TRY(ce_files_write_at(descriptor, w->buffer, bytes, offset, w->given->file));
        offset += (int64_t)bytes;
        ce_progress_add(&w->progress, (int64_t)bytes);
    }
    return CS_OK;
}

/* Returns the size of the buffer: a chunk of rows, or the largest head or row. */
static size_t buffer_bytes(const writing *w)
{
    int64_t most = CE_SOURCE_BUFFER;
    for (int64_t i = 0; i < w->count; i++) {
        const place *p = &w->places[i];
        int64_t rows = p->heads ? p->rows / p->heads + 1 : 1, bytes = rows * p->columns * (int64_t)sizeof(float);
        most = bytes > most ? bytes : most;
    }
    return (size_t)most;
}

static cs_status write_file(writing *w, int descriptor)
{
    w->buffer = ce_must_alloc(buffer_bytes(w));
    CE_TRY(ce_files_write_at(descriptor, w->header, w->header_bytes, 0, w->given->file));
    ce_progress_begin(&w->progress, "writing", NULL, w->bytes);
    cs_status status = CS_OK;
    for (int64_t i = 0; i < w->count && status == CS_OK; i++)
        status = write_tensor(w, &w->places[i], descriptor);
    ce_progress_end(&w->progress);
    CE_TRY(status);
    if (ftruncate(descriptor, (off_t)w->header_bytes + w->bytes) != 0 || fsync(descriptor) != 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s", w->given->file);
    return CS_OK;
}

/* Writes the file under a temporary name, and renames it at the end. */
static cs_status write_whole(writing *w)
{
    CE_FREED char *path = ce_must_print("%s.%d.cspeed-tmp", w->given->file, (int)getpid());
    CE_TRY(arrange(w));
    CE_TRY(make_header(w));
    int descriptor = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (descriptor < 0)
        return ce_fail_errno(CS_IO_ERROR, errno, "%s: cannot be made", path);
    cs_status status = write_file(w, descriptor);
    close(descriptor);
    if (status == CS_OK)
        status = ce_files_rename(path, w->given->file);
    if (status != CS_OK)
        unlink(path);
    else if (w->coarse.count > 0)
        ce_log(CE_LOG_INFO, "fp16, because their rows are no multiple of %d elements: %s", CE_GGUF_BLOCK,
               ce_names_text(&w->coarse));
    return status;
}

cs_status ce_gguf_write(const ce_gguf_output *output, ce_source *source)
{
    writing w = { .given = output, .source = source };
    if (ce_files_exists(output->file))
        return ce_fail(CS_BAD_CONFIG, "%s exists already: name a new file", output->file);
    CE_TRY(ce_gguf_family_of_type(&w.family, json_string_value(json_object_get(output->config, "model_type"))));
    CE_TRY(ce_gguf_sizes_read(&w.sizes, source, output->config));
    cs_status status = write_whole(&w);
    free(w.places);
    free(w.factors);
    free(w.header);
    free(w.buffer);
    return status;
}
