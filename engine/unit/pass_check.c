/* pass_check.c - the check of what units write (cspeed.check): memory of the pass is filled with a certain NaN before a
 * unit's function gets it, and tensors that outlive the function must not contain this NaN any more. Processors pass a NaN
 * on with its bits, so numbers that were computed from memory that nothing has written are found too. Only this check
 * allocates memory in a step. */
#include "unit/pass_inside.h"
#include "base/misuse.h"
#include "base/must.h"

#include <stdlib.h>
#include <string.h>

enum { WORDS = 1 << 16 };

/* What is in memory that was not written: two times 16 bits or 32 bits. Of integers it is a negative number. */
static uint32_t unwritten_word(cs_dtype dtype)
{
    static const uint32_t words[] = { [CS_F32] = 0x7fc5a5a5, [CS_BF16] = 0x7fd57fd5, [CS_F16] = 0x7e5a7e5a };
    return dtype <= CS_F16 ? words[dtype] : 0xa5a5a5a5;
}

static size_t bytes_of(cs_tensor x)
{
    return (size_t)cs_count(x) * cs_dtype_bytes(x.dtype);
}

static cs_stream *stream_of(const cs_pass *pass)
{
    return ce_device_stream(pass->shape.device, CE_COMPUTE);
}

void ce_pass_check(cs_pass *pass, bool on)
{
    free(pass->check.words);
    free(pass->check.made);
    pass->check = (ce_pass_checks){ .on = on };
    if (on)
        pass->check.words = ce_must_alloc(WORDS * sizeof *pass->check.words);
}

void ce_pass_check_made(cs_pass *pass, cs_tensor tensor)
{
    ce_pass_checks *check = &pass->check;
    size_t bytes = bytes_of(tensor), part = WORDS * sizeof *check->words;
    if (!check->on)
        return;
    CE_MUST_HOLD(check->made, check->capacity, check->count + 1);
    check->made[check->count++] = tensor;
    for (int i = 0; i < WORDS; i++)
        check->words[i] = unwritten_word(tensor.dtype);
    for (size_t at = 0; at < bytes; at += part)
        ce_stream_copy(stream_of(pass), (char *)tensor.data + at, check->words, bytes - at < part ? bytes - at : part);
    ce_stream_sync(stream_of(pass)); /* the words may change now */
}

/* Ends the process if elements of the tensor were not written. */
static void check_written(const cs_pass *pass, cs_tensor x)
{
    size_t element = cs_dtype_bytes(x.dtype), bytes = bytes_of(x), part = WORDS * sizeof(uint32_t);
    uint32_t word = unwritten_word(x.dtype);
    int64_t missing = 0, first = 0;
    if (x.dtype == CS_U8) /* every byte is a value */
        return;
    for (size_t at = 0; at < bytes; at += part) {
        size_t size = bytes - at < part ? bytes - at : part;
        ce_stream_fetch(stream_of(pass), pass->check.words, (char *)x.data + at, size);
        for (size_t i = 0; i < size; i += element)
            if (memcmp((char *)pass->check.words + i, &word, element < 4 ? element : 4) == 0 && missing++ == 0)
                first = (int64_t)((at + i) / element);
    }
    bool output = x.data == pass->check.output.data;
    if (missing > 0)
        ce_misuse(NULL,
                  "%s (%lld, %lld) has %lld elements that were not written, or were computed from memory that was not "
                  "written; the first is in row %lld, column %lld",
                  !output                        ? "a tensor that it keeps"
                  : pass->way == CE_PASS_FORWARD ? "its output y"
                                                 : "the gradient dx",
                  (long long)cs_rows(x), (long long)cs_columns(x), (long long)missing,
                  (long long)(first / cs_columns(x)), (long long)(first % cs_columns(x)));
}

/* Ends the process if the unit's function has made other tensors than when memory was measured. */
static void check_measured(const cs_pass *pass)
{
    cs_unit *unit = pass->unit;
    int64_t rows = pass->info.batch * pass->info.length;
    if (!unit || pass->info.mode != CE_PASS_TRAINING)
        return;
    if (!pass->shape.block && (unit->measured.rows == 0 || unit->measured.rows == rows)) {
        unit->measured.rows = rows;
        unit->measured.bytes[pass->way] = pass->made;
    } else if (pass->check.on && unit->measured.rows == rows && unit->measured.bytes[pass->way] != pass->made) {
        ce_misuse(NULL,
                  "its tensors have %zu bytes, and had %zu bytes while cs_pass_measuring returned true: they must "
                  "be the same",
                  pass->made, unit->measured.bytes[pass->way]);
    }
}

void ce_pass_check_leave(cs_pass *pass)
{
    ce_pass_checks *check = &pass->check;
    check_measured(pass);
    for (int i = 0; i < check->count; i++)
        if (ce_pass_outlives(pass, check->made[i]))
            check_written(pass, check->made[i]);
    check->count = 0;
}
