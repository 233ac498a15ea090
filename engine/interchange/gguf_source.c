/* gguf_source.c - the tensors of a GGUF file as those of a Hugging Face folder. */
#include "interchange/gguf_source.h"
#include "base/files.h"
#include "base/names.h"
#include "checkpoint/convert.h"
#include "gguf/family.h"
#include "gguf/gguf.h"

#include <string.h>

/* ---- reading ---- */

/* Reads elements that are adjacent in the file. The buffer has the numbers first, then the bytes of the file. */
static cs_status read_run(const ce_gguf_form *form, int descriptor, int64_t offset, const char *path, ce_range range,
                          char *to, cs_dtype dtype, void *buffer)
{
    const int64_t block = ce_gguf_block_elements(form->type), most = CE_SOURCE_BUFFER / 2 / (int64_t)sizeof(float);
    float *numbers = buffer;
    uint8_t *bytes = (uint8_t *)buffer + CE_SOURCE_BUFFER / 2;
    for (int64_t at = range.from, next; at < range.to; at = next) {
        int64_t first = at / block * block;
        next = range.to - first < most ? range.to : first + most;
        int64_t count = (next - first + block - 1) / block * block;
        CE_TRY(ce_files_read_at(descriptor, bytes, (size_t)ce_gguf_row_bytes(form->type, count),
                                offset + ce_gguf_row_bytes(form->type, first), path));
        ce_gguf_decode(form->type, numbers, bytes, count);
        for (int64_t i = 0; i < count && form->plus_one; i++)
            numbers[i] -= 1;
        ce_convert_elements(to, dtype, numbers + (at - first), CS_F32, next - at);
        to += (size_t)(next - at) * cs_dtype_bytes(dtype);
    }
    return CS_OK;
}

cs_status ce_gguf_form_read(const ce_gguf_form *form, int descriptor, int64_t offset, const char *path, ce_range range,
                            void *to, cs_dtype dtype, void *buffer)
{
    char *goal = to;
    if (form->head == 0)
        return read_run(form, descriptor, offset, path, range, goal, dtype, buffer);
    for (int64_t at = range.from, next; at < range.to; at = next) {
        int64_t row = at / form->columns, in_head = row % form->head, half = form->head / 2;
        int64_t pair = in_head < half ? 2 * in_head : 2 * (in_head - half) + 1;
        int64_t moved = (pair - in_head) * form->columns; /* from the row's place to that in the file */
        next = (row + 1) * form->columns < range.to ? (row + 1) * form->columns : range.to;
        CE_TRY(read_run(form, descriptor, offset, path, (ce_range){ at + moved, next + moved }, goal, dtype, buffer));
        goal += (size_t)(next - at) * cs_dtype_bytes(dtype);
    }
    return CS_OK;
}

/* ---- the list of tensors ---- */

static int64_t count_at(const ce_gguf_file *file, const ce_gguf_family *family, const char *key)
{
    char name[CE_GGUF_NAME];
    snprintf(name, sizeof name, "%s%s", family->arch, key);
    return json_integer_value(json_object_get(file->keys, name));
}

/* Sets form->head for the rows of q and k. The caller has checked that the number of heads is positive. */
static cs_status divide_heads(ce_gguf_found *found, const ce_gguf_file *file, const ce_gguf_family *family)
{
    int64_t heads = count_at(file, family, ".attention.head_count");
    int64_t keys = count_at(file, family, ".attention.head_count_kv");
    int64_t count = ce_gguf_family_heads(family, found->name, heads, keys > 0 ? keys : heads);
    if (count == 0)
        return CS_OK;
    found->form.converted = true;
    found->form.head = found->shape[0] / count;
    found->form.columns = found->dims > 1 ? found->shape[1] : 1;
    return found->shape[0] % count == 0 && found->form.head % 2 == 0 && found->dims < 3 && found->form.head > 0
               ? CS_OK
               : ce_fail(CS_BAD_FILE, "%s: tensor %s has %lld rows, which are not those of %lld heads", found->path,
                         found->name, (long long)found->shape[0], (long long)count);
}

static cs_status list_one(const ce_gguf_file *file, const ce_gguf_tensor *tensor, const ce_gguf_family *family,
                          ce_gguf_found *found)
{
    found->dims = tensor->dims;
    found->shape = tensor->shape;
    found->offset = tensor->offset;
    found->dtype = tensor->type == CE_GGUF_F16 ? CS_F16 : tensor->type == CE_GGUF_BF16 ? CS_BF16 : CS_F32;
    found->form = (ce_gguf_form){ .type = (ce_gguf_type)tensor->type };
    found->form.plus_one = ce_gguf_family_plus_one(family, tensor->name);
    found->form.converted = found->form.plus_one || ce_gguf_block_elements(tensor->type) > 1;
    return divide_heads(found, file, family);
}

static cs_status list(const ce_gguf_file *file, const char *path,
                      cs_status (*add)(void *to, const ce_gguf_found *found), void *to)
{
    const ce_gguf_family *family;
    ce_names unknown = { 0 };
    CE_TRY(ce_gguf_family_of_arch(&family, json_string_value(json_object_get(file->keys, "general.architecture"))));
    CE_TRY(ce_gguf_check_types(file, path));
    if (count_at(file, family, ".attention.head_count") < 1)
        return ce_fail(CS_BAD_FILE, "%s: %s.attention.head_count is no positive number", path, family->arch);
    for (int64_t i = 0; i < file->count; i++) {
        const ce_gguf_tensor *tensor = &file->tensors[i];
        char name[CE_GGUF_FAMILY_NAME];
        ce_gguf_found found = { .name = name, .path = path };
        if (strcmp(tensor->name, "rope_freqs.weight") == 0) /* config.json has the scaling that it expresses */
            continue;
        if (!ce_gguf_family_tensor(name, family, tensor->name)) {
            ce_names_add(&unknown, "%s", tensor->name);
            continue;
        }
        CE_TRY(list_one(file, tensor, family, &found));
        CE_TRY(add(to, &found));
    }
    return unknown.count ? ce_fail(CS_UNSUPPORTED, "not supported: %s: the architecture %s has no such tensors: %s",
                                   path, family->arch, ce_names_text(&unknown))
                         : CS_OK;
}

cs_status ce_gguf_source_list(const char *path, cs_status (*add)(void *to, const ce_gguf_found *found), void *to)
{
    ce_gguf_file file;
    CE_TRY(ce_gguf_open(&file, path));
    cs_status status = list(&file, path, add, to);
    ce_gguf_close(&file);
    return status;
}
