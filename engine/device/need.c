/* need.c - checks of the arguments of operations. */
#include "device/need.h"
#include "base/must.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local const char *current; /* the public operation whose arguments are checked */

void ce_need_stream(const cs_stream *stream, const char *operation)
{
    current = operation;
    if (!stream)
        ce_misuse(current, "the stream is NULL: cs_pass_stream(pass) is the stream of a unit");
}

void ce_need_failed(const char *format, ...)
{
    char sentence[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    ce_misuse(current, "%s", sentence);
}

static const char *type_name(cs_dtype dtype)
{
    static const char *const names[] = { "CS_F32", "CS_BF16", "CS_F16", "CS_I32", "CS_I64", "CS_U8" };
    return (unsigned)dtype <= CS_U8 ? names[dtype] : "none of cs_dtype";
}

typedef struct {
    char text[96];
} shape_text;

static shape_text shape_of(cs_tensor x)
{
    shape_text shape = { "(" };
    for (int i = 0; i < x.dims && i < CS_MAX_DIMS; i++) {
        size_t used = strlen(shape.text);
        snprintf(shape.text + used, sizeof shape.text - used, "%s%lld", i ? ", " : "", (long long)x.shape[i]);
    }
    strcat(shape.text, ")");
    return shape;
}

void ce_need_present(const char *name, cs_tensor x)
{
    NEED(x.dims >= 0 && x.dims <= CS_MAX_DIMS, "%s has %d dimensions: 0 to %d are possible", name, (int)x.dims,
         CS_MAX_DIMS);
    NEED(x.data, "%s is absent: it has no data", name);
}

void ce_need_numbers(const char *name, cs_tensor x)
{
    ce_need_present(name, x);
    NEED((unsigned)x.dtype <= CS_F16, "%s is %s, and CS_F32, CS_BF16 or CS_F16 is needed", name, type_name(x.dtype));
}

void ce_need_type(const char *name, cs_tensor x, cs_dtype dtype)
{
    ce_need_present(name, x);
    NEED(x.dtype == dtype, "%s is %s, and %s is needed", name, type_name(x.dtype), type_name(dtype));
}

void ce_need_matrix(const char *name, cs_tensor x, int64_t rows, int64_t columns)
{
    ce_need_present(name, x);
    NEED(cs_rows(x) == rows && cs_columns(x) == columns, "%s is %s, and (%lld, %lld) is needed", name, shape_of(x).text,
         (long long)rows, (long long)columns);
}

void ce_need_rows(const char *name, cs_tensor x, int64_t rows)
{
    ce_need_present(name, x);
    NEED(cs_rows(x) == rows, "%s is %s, and %lld rows are needed", name, shape_of(x).text, (long long)rows);
}

void ce_need_columns(const char *name, cs_tensor x, int64_t columns)
{
    ce_need_present(name, x);
    NEED(cs_columns(x) == columns, "%s is %s, and %lld columns are needed", name, shape_of(x).text, (long long)columns);
}

void ce_need_count(const char *name, cs_tensor x, int64_t count)
{
    ce_need_present(name, x);
    NEED(cs_count(x) == count, "%s is %s, and %lld elements are needed", name, shape_of(x).text, (long long)count);
}

void ce_need_vector(const char *name, cs_tensor x, cs_dtype dtype, int64_t count)
{
    ce_need_type(name, x, dtype);
    ce_need_count(name, x, count);
}

void ce_need_shape_of(const char *name, cs_tensor x, cs_tensor like)
{
    ce_need_numbers(name, x);
    ce_need_matrix(name, x, cs_rows(like), cs_columns(like));
}

void ce_need_like(const char *name, cs_tensor x, cs_tensor like)
{
    ce_need_type(name, x, like.dtype);
    ce_need_matrix(name, x, cs_rows(like), cs_columns(like));
}

void ce_need_layout(const char *name, cs_tensor w, cs_layout layout, int64_t inputs, int64_t outputs)
{
    if (layout == CS_IN_OUT)
        ce_need_matrix(name, w, inputs, outputs);
    else
        ce_need_matrix(name, w, outputs, inputs);
}

void ce_need_dropout(cs_dropout dropout, int64_t batch, int64_t count)
{
    NEED(dropout.rate >= 0 && dropout.rate <= 1, "dropout.rate is %g, and a number from 0 to 1 is needed",
         (double)dropout.rate);
    if (dropout.rate == 0)
        return;
    NEED(dropout.keys, "dropout.keys is NULL: cs_residual_dropout fills cs_dropout");
    NEED(dropout.batch == batch && batch > 0 && count % batch == 0,
         "dropout.batch is %lld samples, and the tensor has %lld samples with %lld elements in all",
         (long long)dropout.batch, (long long)batch, (long long)count);
    NEED(dropout.width == 0, "dropout.width is %lld, and 0 is needed", (long long)dropout.width);
}

void ce_need_below(const char *what, cs_tensor numbers, bool masks, int64_t limit)
{
    const int32_t *number = numbers.data;
    int64_t count = cs_count(numbers), wrong = 0, row = 0;
    for (int64_t i = 0; i < count; i++)
        wrong += (number[i] >= limit) | (!masks & (number[i] < 0));
    while (wrong > 0 && number[row] < limit && (masks || number[row] >= 0))
        row++;
    NEED(wrong == 0, "the %s of row %lld is %d, and 0 to %lld are possible%s (%lld of %lld rows are wrong)", what,
         (long long)row, number[row], (long long)limit - 1, masks ? ", or less for no target" : "", (long long)wrong,
         (long long)count);
}
