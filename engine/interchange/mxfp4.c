/* mxfp4.c - reads the 4-bit experts of gpt-oss as numbers (joined_experts.h).
 *
 * A number is a sign, two bits of exponent and one of mantissa (E2M1); the even number of a pair is in the low half of
 * its byte. The scale is a power of two (E8M0), so the numbers are exact in fp32 and bf16. */
#include "interchange/joined_experts.h"
#include "base/ends_with.h"
#include "base/must.h"
#include "checkpoint/convert.h"
#include "cspeed/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 32, BYTES = GROUP / 2, BIAS = 127 };
static const char blocks_end[] = "_blocks";

/* Where a tensor of the new source is in the inner one. `scales` is -1 if both are the same tensor. */
typedef struct {
    int64_t whole, scales, expert;
} layout;

typedef struct {
    ce_source inner;
    layout *tensors;
    int64_t held; /* the tensor whose numbers are in `numbers`, or -1 */
    float *numbers;
    uint8_t *bytes;
} packed_source;

/* Returns a copy of the name of a tensor of blocks with another end. The caller frees it. */
static char *name_with(const char *blocks, const char *end)
{
    return ce_must_print("%.*s%s", (int)(strlen(blocks) - strlen(blocks_end)), blocks, end);
}

static bool is_blocks(const ce_source *source, int64_t tensor)
{
    return source->tensors[tensor].dtype == CS_U8 && ce_ends_with(source->tensors[tensor].name, blocks_end);
}

static cs_status find_scales(int64_t *scales, const ce_source *source, int64_t tensor)
{
    const ce_source_tensor *from = &source->tensors[tensor];
    CE_FREED char *name = name_with(from->name, "_scales");
    *scales = ce_source_find(source, name);
    const ce_source_tensor *found = *scales >= 0 ? &source->tensors[*scales] : NULL;
    if (from->dims != 4 || from->shape[3] != BYTES || from->shape[0] > CS_MAX_EXPERTS || !strrchr(from->name, '.'))
        return ce_fail(CS_BAD_FILE, "%s: blocks of MXFP4 have the shape [experts, outputs, groups, %d]", from->name,
                       BYTES);
    if (!found || found->dtype != CS_U8 || found->dims != 3 || memcmp(found->shape, from->shape, 3 * sizeof(int64_t)))
        return ce_fail(CS_BAD_FILE, "%s: %s, bytes of the same experts, outputs and groups, is %s", from->name, name,
                       found ? "of another shape or type" : "missing");
    return CS_OK;
}

/* Reads all numbers of the tensor's expert into `numbers`. The file has a row for each output; the model has the inputs as
 * rows. */
static cs_status hold(packed_source *packed, int64_t tensor)
{
    static const float values[8] = { 0, 0.5f, 1, 1.5f, 2, 3, 4, 6 };
    const layout *l = &packed->tensors[tensor];
    ce_source *inner = &packed->inner;
    const int64_t *shape = inner->tensors[l->whole].shape, outputs = shape[1], groups = shape[2];
    int64_t all = outputs * groups, first = l->expert * all;
    if (packed->held == tensor)
        return CS_OK;
    packed->held = -1;
    packed->bytes = ce_must_resize(packed->bytes, (size_t)(all * (BYTES + 1)));
    packed->numbers = ce_must_resize(packed->numbers, (size_t)(all * GROUP) * sizeof *packed->numbers);
    uint8_t *scales = packed->bytes + all * BYTES;
    CE_TRY(inner->read(inner, l->whole, (ce_range){ first * BYTES, (first + all) * BYTES }, packed->bytes, CS_U8));
    CE_TRY(inner->read(inner, l->scales, (ce_range){ first, first + all }, scales, CS_U8));
    for (int64_t i = 0; i < all * GROUP; i++) {
        int code = packed->bytes[i / 2] >> (i % 2 * 4) & 15, scale = scales[i / GROUP];
        float value = scale == 255 ? NAN : ldexpf(values[code & 7], scale - BIAS);
        packed->numbers[i % (groups * GROUP) * outputs + i / (groups * GROUP)] = code & 8 ? -value : value;
    }
    packed->held = tensor;
    return CS_OK;
}

static cs_status read_range(ce_source *source, int64_t tensor, ce_range range, void *to, cs_dtype dtype)
{
    packed_source *packed = source->private_data;
    const layout *l = &packed->tensors[tensor];
    if (l->scales < 0)
        return packed->inner.read(&packed->inner, l->whole, range, to, dtype);
    CE_TRY(hold(packed, tensor));
    ce_convert_elements(to, dtype, packed->numbers + range.from, CS_F32, ce_range_length(range));
    return CS_OK;
}

static void close_packed(ce_source *source)
{
    packed_source *packed = source->private_data;
    for (int64_t i = 0; i < source->count; i++)
        if (packed->tensors[i].scales >= 0)
            free((char *)(uintptr_t)source->tensors[i].name);
    ce_source_close(&packed->inner);
    free(packed->tensors);
    free(packed->numbers);
    free(packed->bytes);
    free(packed);
}

const ce_source *ce_mxfp4_inner(const ce_source *source)
{
    return source->read == read_range ? &((const packed_source *)source->private_data)->inner : source;
}

static void add(ce_source *over, packed_source *packed, layout where, ce_source_tensor tensor)
{
    size_t count = (size_t)over->count + 1;
    over->tensors = ce_must_resize(over->tensors, count * sizeof *over->tensors);
    packed->tensors = ce_must_resize(packed->tensors, count * sizeof *packed->tensors);
    over->tensors[over->count] = tensor;
    packed->tensors[over->count++] = where;
}

/* Adds the matrices of all experts of a tensor of blocks. */
static cs_status add_experts(ce_source *over, packed_source *packed, int64_t tensor)
{
    const ce_source_tensor *from = &packed->inner.tensors[tensor];
    int64_t scales;
    CE_TRY(find_scales(&scales, &packed->inner, tensor));
    CE_FREED char *base = name_with(from->name, "");
    const char *word = strrchr(base, '.') + 1;
    if (ce_source_find(&packed->inner, base) >= 0)
        return ce_fail(CS_BAD_FILE, "%s is in the folder twice: as numbers, and as blocks of 4 bits", base);
    for (int64_t e = 0; e < from->shape[0]; e++)
        add(over, packed, (layout){ tensor, scales, e },
            (ce_source_tensor){ .name =
                                    ce_must_print("%.*s%lld.%s.weight", (int)(word - base), base, (long long)e, word),
                                .dtype = CS_BF16,
                                .dims = 2,
                                .shape = { from->shape[2] * GROUP, from->shape[1] } });
    return CS_OK;
}

/* True if the tensor has the scales of a tensor of blocks. */
static bool is_scales(const ce_source *source, const char *name)
{
    if (!ce_ends_with(name, "_scales"))
        return false;
    CE_FREED char *blocks = name_with(name, blocks_end);
    return ce_source_find(source, blocks) >= 0;
}

cs_status ce_mxfp4_open(ce_source *source)
{
    bool any = false;
    for (int64_t i = 0; i < source->count && !any; i++)
        any = is_blocks(source, i);
    if (!any)
        return CS_OK;
    packed_source *packed = ce_must_alloc(sizeof *packed);
    *packed = (packed_source){ .inner = *source, .held = -1 };
    *source = (ce_source){ .read = read_range, .close = close_packed, .private_data = packed };
    for (int64_t i = 0; i < packed->inner.count; i++) {
        const ce_source_tensor *from = &packed->inner.tensors[i];
        if (is_blocks(&packed->inner, i))
            CE_TRY(add_experts(source, packed, i));
        else if (!is_scales(&packed->inner, from->name))
            add(source, packed, (layout){ i, -1, -1 }, *from);
    }
    return CS_OK;
}
