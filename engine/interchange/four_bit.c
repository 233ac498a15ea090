/* four_bit.c - reads 4-bit weights of bitsandbytes' folders and of checkpoints, as numbers or as the bytes that they are. */
#include "interchange/four_bit.h"
#include "base/ends_with.h"
#include "base/must.h"
#include "checkpoint/convert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATE_LIMIT = 1 << 16 };

typedef struct {
    int64_t whole;                     /* index of the tensor in the inner source: of the codes of a 4-bit weight */
    int64_t array[CE_FOUR_BIT_ARRAYS]; /* indices of its arrays; that of the codes is -1 if the tensor has numbers */
    bool own;                          /* the tensors are those of a checkpoint */
    ce_four_bit_facts facts;
} layout;

typedef struct {
    ce_source inner;
    layout *tensors;
    int64_t held;  /* the 4-bit weight of which `absmax` has the factors, or -1 */
    float *absmax; /* of each block */
    uint8_t *codes;
    float *numbers; /* CE_SOURCE_BUFFER bytes */
} packed_source;

/* ---- the state ---- */

static cs_status refuse(const char *name, const char *key, const char *what)
{
    return ce_fail(CS_UNSUPPORTED, "not supported: %s: \"%s\" is not %s", name, key, what);
}

static bool is_number(const json_t *root, const char *key, int64_t number)
{
    return json_integer_value(json_object_get(root, key)) == number;
}

static cs_status check_state(ce_four_bit_facts *facts, const json_t *root, const char *name)
{
    const char *type = json_string_value(json_object_get(root, "quant_type"));
    const json_t *shape = json_object_get(root, "shape"), *offset = json_object_get(root, "nested_offset");
    facts->type = type && strcmp(type, "nf4") == 0 ? CE_NF4 : type && strcmp(type, "fp4") == 0 ? CE_FP4 : 0;
    facts->rows = json_integer_value(json_array_get(shape, 0));
    facts->columns = json_integer_value(json_array_get(shape, 1));
    facts->twice = offset != NULL;
    facts->offset = (float)json_number_value(offset);
    if (!facts->type)
        return refuse(name, "quant_type", "\"nf4\" or \"fp4\"");
    if (!is_number(root, "blocksize", CE_FOUR_BIT_BLOCK))
        return refuse(name, "blocksize", "64");
    if (facts->twice && !is_number(root, "nested_blocksize", CE_FOUR_BIT_GROUP))
        return refuse(name, "nested_blocksize", "256");
    if (json_array_size(shape) != 2 || facts->rows < 1 || facts->columns < 1 || facts->rows > INT32_MAX ||
        facts->columns > INT32_MAX || facts->columns % 2 || facts->rows * facts->columns % CE_FOUR_BIT_BLOCK)
        return refuse(name, "shape", "that of a matrix with an even number of columns and a multiple of 64 elements");
    return CS_OK;
}

bool ce_four_bit_is_described(const json_t *config)
{
    const json_t *given = json_object_get(config, "quantization_config");
    const char *method = json_string_value(json_object_get(given, "quant_method"));
    return method && strcmp(method, "bitsandbytes") == 0 && json_is_true(json_object_get(given, "load_in_4bit"));
}

cs_status ce_four_bit_parse(ce_four_bit_facts *facts, const char *text, size_t length, const char *name)
{
    json_auto_t *root = ce_json_strict(text, length);
    *facts = (ce_four_bit_facts){ 0 };
    return json_is_object(root) ? check_state(facts, root, name)
                                : ce_fail(CS_BAD_FILE, "%s: its bytes are no JSON object", name);
}

/* ---- the tensors of a weight ---- */

static int64_t bytes_of(const ce_source *source, int64_t tensor)
{
    return ce_source_elements(&source->tensors[tensor]) * (int64_t)cs_dtype_bytes(source->tensors[tensor].dtype);
}

static int64_t find(const ce_source *source, const char *name, const char *end)
{
    CE_FREED char *full = ce_must_print("%s%s", name, end);
    return ce_source_find(source, full);
}

static cs_status read_state(ce_four_bit_facts *facts, ce_source *source, int64_t tensor)
{
    int64_t bytes = bytes_of(source, tensor);
    const ce_source_tensor *from = &source->tensors[tensor];
    CE_FREED char *text = bytes <= STATE_LIMIT ? ce_must_alloc((size_t)bytes + 1) : NULL;
    if (!text || from->dtype != CS_U8)
        return ce_fail(CS_BAD_FILE, "%s: it is not a short text of bytes", from->name);
    CE_TRY(source->read(source, tensor, (ce_range){ 0, bytes }, text, CS_U8));
    return ce_four_bit_parse(facts, text, (size_t)bytes, from->name);
}

/* Fails unless the table that the folder has is the table that cspeed computes. */
static cs_status check_table(ce_source *source, const char *weight, const char *end, const float *table, int64_t count)
{
    int64_t tensor = find(source, weight, end);
    float values[256];
    bool same =
        tensor >= 0 && ce_source_elements(&source->tensors[tensor]) == count && source->tensors[tensor].dtype == CS_F32;
    if (same)
        CE_TRY(source->read(source, tensor, (ce_range){ 0, count }, values, CS_F32));
    for (int64_t i = 0; i < count && same; i++)
        same = fabsf(values[i] - table[i]) <= 1e-6f;
    return same ? CS_OK
                : ce_fail(CS_UNSUPPORTED, "not supported: %s%s is missing or has other values than bitsandbytes'",
                          weight, end);
}

/* Returns the bytes that an array of the weight has here, and in *there the bytes that it has in a folder of
 * bitsandbytes. */
static int64_t array_bytes(const ce_four_bit_facts *facts, ce_four_bit_array array, int64_t *there)
{
    int64_t count = facts->rows * facts->columns, blocks = count / CE_FOUR_BIT_BLOCK;
    int64_t groups = ce_divide_up(blocks, CE_FOUR_BIT_GROUP), size = (int64_t)sizeof(float);
    if (array == CE_FOUR_BIT_CODES)
        return *there = count / 2;
    if (array == CE_FOUR_BIT_NESTED) {
        *there = groups * size;
        return *there + size;
    }
    *there = facts->twice ? blocks : blocks * size;
    return ce_round_up(*there, size);
}

static cs_status check_arrays(ce_source *source, const layout *l, const char *name)
{
    for (int i = 0; i < (l->facts.twice ? CE_FOUR_BIT_ARRAYS : CE_FOUR_BIT_NESTED); i++) {
        int64_t there, here = array_bytes(&l->facts, (ce_four_bit_array)i, &there);
        if (l->array[i] < 0 || bytes_of(source, l->array[i]) != (l->own ? here : there))
            return ce_fail(CS_BAD_FILE,
                           "%s: %s of its 4-bit numbers is missing or has another length than its shape says", name,
                           i == 0   ? "the array of codes"
                           : i == 1 ? "absmax"
                                    : "nested_absmax");
    }
    return CS_OK;
}

static cs_status open_folder_weight(layout *l, ce_source *source, const char *name, int64_t state)
{
    CE_TRY(read_state(&l->facts, source, state));
    l->array[CE_FOUR_BIT_ABSMAX] = find(source, name, ".absmax");
    l->array[CE_FOUR_BIT_NESTED] = find(source, name, ".nested_absmax");
    CE_TRY(check_table(source, name, ".quant_map", ce_four_bit_values(l->facts.type), 16));
    return l->facts.twice ? check_table(source, name, ".nested_quant_map", ce_four_bit_scales(), 256) : CS_OK;
}

/* Finds the other tensors of a 4-bit weight. Sets l->array[CE_FOUR_BIT_CODES] to -1 if the tensor is no such weight. */
static cs_status describe(layout *l, ce_source *source, int64_t tensor)
{
    const ce_source_tensor *from = &source->tensors[tensor];
    *l = (layout){ .whole = tensor, .array = { -1, -1, -1 } };
    for (int type = CE_NF4; type < CE_FOUR_BIT_TYPES && l->array[CE_FOUR_BIT_CODES] < 0; type++) {
        char state[64], absmax[32], nested[32];
        snprintf(state, sizeof state, ".quant_state.bitsandbytes__%s", ce_four_bit_names[type]);
        snprintf(absmax, sizeof absmax, ".%s.absmax", ce_four_bit_names[type]);
        snprintf(nested, sizeof nested, ".%s.nested_absmax", ce_four_bit_names[type]);
        int64_t text = find(source, from->name, state), own = find(source, from->name, absmax);
        if (text < 0 && own < 0)
            continue;
        l->array[CE_FOUR_BIT_CODES] = tensor;
        l->own = text < 0;
        if (text >= 0) {
            CE_TRY(open_folder_weight(l, source, from->name, text));
        } else {
            l->array[CE_FOUR_BIT_ABSMAX] = own;
            l->array[CE_FOUR_BIT_NESTED] = find(source, from->name, nested);
            l->facts = (ce_four_bit_facts){ .type = (ce_four_bit_type)type,
                                            .rows = from->shape[0],
                                            .columns = 2 * from->shape[1],
                                            .twice = l->array[CE_FOUR_BIT_NESTED] >= 0 };
        }
        CE_TRY(check_arrays(source, l, from->name));
    }
    return CS_OK;
}

/* ---- reading ---- */

cs_status ce_four_bit_read(ce_source *source, int64_t tensor, ce_four_bit_array array, ce_range range, void *to)
{
    packed_source *packed = source->private_data;
    const layout *l = &packed->tensors[tensor];
    const float offset = l->facts.offset;
    ce_source *inner = &packed->inner;
    cs_dtype dtype = inner->tensors[l->array[array]].dtype;
    int64_t size = (int64_t)cs_dtype_bytes(dtype), there = bytes_of(inner, l->array[array]);
    ce_range both = ce_range_overlap(range, (ce_range){ 0, there });
    CE_ASSERT(both.from % size == 0 && both.to % size == 0);
    if (ce_range_length(both) > 0)
        CE_TRY(inner->read(inner, l->array[array], (ce_range){ both.from / size, both.to / size }, to, dtype));
    if (range.to <= there)
        return CS_OK;
    char *rest = (char *)to + ce_range_length(both);
    memset(rest, 0, (size_t)(range.to - range.from - ce_range_length(both)));
    if (array == CE_FOUR_BIT_NESTED)
        memcpy(rest, &offset, sizeof offset);
    return CS_OK;
}

/* Computes the absmax of all blocks of a weight, unless they are in memory. */
static cs_status hold(ce_source *source, int64_t tensor)
{
    packed_source *packed = source->private_data;
    const ce_four_bit_facts *facts = &packed->tensors[tensor].facts;
    int64_t blocks = facts->rows * facts->columns / CE_FOUR_BIT_BLOCK, there;
    int64_t bytes = array_bytes(facts, CE_FOUR_BIT_ABSMAX, &there), more = 0;
    if (packed->held == tensor)
        return CS_OK;
    packed->held = -1;
    if (facts->twice)
        more = array_bytes(facts, CE_FOUR_BIT_NESTED, &there);
    CE_FREED uint8_t *absmax = ce_must_alloc((size_t)bytes);
    CE_FREED float *nested = ce_must_alloc((size_t)more + 1);
    packed->absmax = ce_must_resize(packed->absmax, (size_t)blocks * sizeof *packed->absmax);
    CE_TRY(ce_four_bit_read(source, tensor, CE_FOUR_BIT_ABSMAX, (ce_range){ 0, bytes }, absmax));
    if (facts->twice)
        CE_TRY(ce_four_bit_read(source, tensor, CE_FOUR_BIT_NESTED, (ce_range){ 0, more }, nested));
    for (int64_t i = 0; i < blocks && facts->twice; i++)
        packed->absmax[i] = ce_four_bit_absmax(absmax, nested, i, blocks);
    if (!facts->twice)
        memcpy(packed->absmax, absmax, (size_t)bytes);
    packed->held = tensor;
    return CS_OK;
}

static cs_status read_numbers(ce_source *source, int64_t tensor, ce_range range, void *to, cs_dtype dtype)
{
    packed_source *packed = source->private_data;
    const layout *l = &packed->tensors[tensor];
    if (l->array[CE_FOUR_BIT_CODES] < 0)
        return packed->inner.read(&packed->inner, l->whole, range, to, dtype);
    CE_TRY(hold(source, tensor));
    int64_t max = CE_SOURCE_BUFFER / (int64_t)sizeof(float);
    for (int64_t at = range.from, next; at < range.to; at = next) {
        int64_t first =
            at / CE_FOUR_BIT_BLOCK * CE_FOUR_BIT_BLOCK; /* the codes are read from the beginning of a block */
        next = first + max < range.to ? first + max : range.to;
        CE_TRY(ce_four_bit_read(source, tensor, CE_FOUR_BIT_CODES,
                                (ce_range){ first / 2, ce_round_up(next, CE_FOUR_BIT_BLOCK) / 2 }, packed->codes));
        for (int64_t i = at; i < next; i++)
            packed->numbers[i - at] =
                ce_four_bit_value(packed->codes, i - first, l->facts.type) * packed->absmax[i / CE_FOUR_BIT_BLOCK];
        ce_convert_elements((char *)to + (size_t)(at - range.from) * cs_dtype_bytes(dtype), dtype, packed->numbers,
                            CS_F32, next - at);
    }
    return CS_OK;
}

static void close_packed(ce_source *source)
{
    packed_source *packed = source->private_data;
    ce_source_close(&packed->inner);
    free(packed->tensors);
    free(packed->absmax);
    free(packed->codes);
    free(packed->numbers);
    free(packed);
}

const ce_source *ce_four_bit_inner(const ce_source *source)
{
    return source->read == read_numbers ? &((const packed_source *)source->private_data)->inner : source;
}

const ce_four_bit_facts *ce_four_bit_of(const ce_source *source, int64_t tensor)
{
    const packed_source *packed = source->private_data;
    if (source->read != read_numbers || packed->tensors[tensor].array[CE_FOUR_BIT_CODES] < 0)
        return NULL;
    return &packed->tensors[tensor].facts;
}

/* ---- opening ---- */

/* Returns true if the tensor is an array of a 4-bit weight, which is no tensor of its own. */
static bool is_array(const ce_source *source, const char *name)
{
    static const char *const ends[] = { ".absmax",
                                        ".quant_map",
                                        ".nested_absmax",
                                        ".nested_quant_map",
                                        ".quant_state.bitsandbytes__nf4",
                                        ".quant_state.bitsandbytes__fp4" };
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (!ce_ends_with(name, ends[i]))
            continue;
        int length = (int)(strlen(name) - strlen(ends[i]));
        if (length > 4 && (strncmp(name + length - 4, ".nf4", 4) == 0 || strncmp(name + length - 4, ".fp4", 4) == 0))
            length -= 4;
        CE_FREED char *weight = ce_must_print("%.*s", length, name);
        return ce_source_find(source, weight) >= 0;
    }
    return false;
}

static cs_status list(ce_source *over, packed_source *packed)
{
    ce_source *inner = &packed->inner;
    for (int64_t i = 0; i < inner->count; i++) {
        layout *l = &packed->tensors[over->count];
        if (is_array(inner, inner->tensors[i].name))
            continue;
        CE_TRY(describe(l, inner, i));
        ce_source_tensor *made = &over->tensors[over->count++];
        *made = inner->tensors[i];
        if (l->array[CE_FOUR_BIT_CODES] < 0 && made->dtype > CS_F16)
            return ce_fail(
                CS_UNSUPPORTED,
                "not supported: tensor %s, which has neither fp32, bf16 nor fp16 numbers, nor codes of 4 bits "
                "with their absmax",
                made->name);
        if (l->array[CE_FOUR_BIT_CODES] >= 0) {
            made->dtype = CS_F32;
            made->dims = 2;
            made->shape[0] = l->facts.rows;
            made->shape[1] = l->facts.columns;
        }
    }
    return CS_OK;
}

cs_status ce_four_bit_open(ce_source *source)
{
    bool any = false;
    for (int64_t i = 0; i < source->count && !any; i++)
        any = source->tensors[i].dtype > CS_F16;
    if (!any)
        return CS_OK;
    packed_source *packed = ce_must_alloc(sizeof *packed);
    *packed = (packed_source){ .inner = *source, .held = -1 };
    packed->tensors = ce_must_alloc(((size_t)source->count + 1) * sizeof *packed->tensors);
    packed->numbers = ce_must_alloc(CE_SOURCE_BUFFER);
    packed->codes = ce_must_alloc(CE_SOURCE_BUFFER / 4); /* more than the codes of as many numbers and of a block */
    *source = (ce_source){ .read = read_numbers, .close = close_packed, .private_data = packed };
    source->tensors = ce_must_alloc(((size_t)packed->inner.count + 1) * sizeof *source->tensors);
    return list(source, packed);
}
