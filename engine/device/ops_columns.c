/* ops_columns.c - the operations of cspeed/ops.h on some columns of a matrix. As in ops.c, shapes and types are checked
 * here. */
#include "device/run.h"
#include "base/four_bit.h"

/* Checks that x has `columns` columns from `first` on. */
static void check_range(const char *name, cs_tensor x, int64_t first, int64_t columns)
{
    NEED(first >= 0 && columns > 0 && first + columns <= cs_columns(x),
         "%s has %lld columns, and %lld columns from column %lld on are needed", name, (long long)cs_columns(x),
         (long long)columns, (long long)first);
}

static void run_columns(cs_stream *stream, const ce_columns *job)
{
    ce_need_numbers("x", job->narrow);
    ce_need_numbers("y", job->wide);
    ce_need_rows("x", job->narrow, cs_rows(job->wide));
    check_range("y", job->wide, job->first, cs_columns(job->narrow));
    if (stream->device->table->columns)
        stream->device->table->columns(stream->device, job);
}

void cs_op_add_columns(cs_stream *stream, cs_tensor y, int64_t first, cs_tensor x, float scale)
{
    NEED_STREAM(stream);
    run_columns(stream, &(ce_columns){ .wide = y, .narrow = x, .first = first, .scale = scale });
}

void cs_op_take_columns(cs_stream *stream, cs_tensor x, cs_tensor y, int64_t first, float scale)
{
    NEED_STREAM(stream);
    run_columns(stream, &(ce_columns){ .wide = y, .narrow = x, .first = first, .scale = scale, .takes = true });
}

void cs_op_dequantize(cs_stream *stream, cs_tensor y, const cs_four_bit *matrix, int64_t row, int64_t column)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(y);
    NEED(matrix && matrix->codes && matrix->absmax, "matrix has no codes or no absmax");
    NEED(matrix->columns % 2 == 0, "matrix has %lld columns, and an even number is needed", (long long)matrix->columns);
    NEED(row >= 0 && column >= 0 && row + cs_rows(y) <= matrix->rows && column + cs_columns(y) <= matrix->columns,
         "matrix is (%lld, %lld), and (%lld, %lld) from row %lld and column %lld on are needed",
         (long long)matrix->rows, (long long)matrix->columns, (long long)cs_rows(y), (long long)cs_columns(y),
         (long long)row, (long long)column);
    ce_dequantize job = {
        y, *matrix, row, column, ce_four_bit_values(matrix->fp4 ? CE_FP4 : CE_NF4), ce_four_bit_scales()
    };
    RUN(stream, dequantize, &job);
}

static void check_dora(cs_tensor norms, const cs_dora *dora)
{
    NEED(dora, "dora is NULL");
    NEED_TYPE(norms, CS_F32);
    NEED_NUMBERS(dora->a);
    int64_t outputs = cs_count(norms), inputs = cs_columns(dora->a);
    NEED_NUMBERS(dora->weight);
    NEED_LAYOUT(dora->weight, dora->layout, inputs, outputs);
    NEED_NUMBERS(dora->b);
    NEED_MATRIX(dora->b, outputs, cs_rows(dora->a));
    NEED_NUMBERS(dora->magnitude);
    NEED_COUNT(dora->magnitude, outputs);
    if (dora->bias.data)
        NEED_COUNT(dora->bias, outputs);
}

static void check_columns(cs_tensor y, cs_tensor z, cs_tensor norms, const cs_dora *dora)
{
    NEED_NUMBERS(y);
    NEED_NUMBERS(z);
    NEED_MATRIX(z, cs_rows(y), cs_count(norms));
    check_range("y", y, dora->first, cs_columns(z));
}

void cs_op_dora_norms(cs_stream *stream, cs_tensor norms, const cs_dora *dora)
{
    NEED_STREAM(stream);
    check_dora(norms, dora);
    RUN(stream, dora_norms, norms, dora);
}

void cs_op_join_norms(cs_stream *stream, cs_tensor norms, cs_tensor x)
{
    NEED_STREAM(stream);
    NEED_TYPE(norms, CS_F32);
    NEED_TYPE(x, CS_F32);
    NEED_COLUMNS(x, cs_count(norms));
    RUN(stream, join_norms, norms, x);
}

void cs_op_dora(cs_stream *stream, cs_tensor y, cs_tensor z, cs_tensor norms, const cs_dora *dora)
{
    NEED_STREAM(stream);
    check_dora(norms, dora);
    check_columns(y, z, norms, dora);
    RUN(stream, dora, y, z, norms, dora);
}

void cs_op_dora_grad(cs_stream *stream, cs_tensor dy, cs_tensor dmagnitude, cs_tensor z, cs_tensor norms,
                     const cs_dora *dora)
{
    NEED_STREAM(stream);
    check_dora(norms, dora);
    check_columns(dy, z, norms, dora);
    NEED_VECTOR(dmagnitude, CS_F32, cs_count(norms));
    RUN(stream, dora_grad, dy, dmagnitude, z, norms, dora);
}

/* ---- RMSNorm of rows whose columns are divided over ranks ---- */

/* Checks that x has `columns` columns from `first` on, and that `sums` has a number for each row. */
static void check_rows(cs_tensor sums, cs_tensor x, int64_t first, int64_t columns)
{
    NEED_NUMBERS(x);
    NEED_TYPE(sums, CS_F32);
    NEED_MATRIX(sums, cs_rows(x), 1);
    check_range("x", x, first, columns);
}

static void check_whole(cs_tensor weight, int64_t whole)
{
    NEED_NUMBERS(weight);
    NEED(whole >= cs_count(weight), "whole is %lld columns, and weight has %lld elements", (long long)whole,
         (long long)cs_count(weight));
}

void cs_op_rms_sums(cs_stream *stream, cs_tensor sums, cs_tensor x, int64_t first, int64_t columns)
{
    NEED_STREAM(stream);
    check_rows(sums, x, first, columns);
    RUN(stream, rms_sums, sums, (cs_tensor){ 0 }, x, (cs_tensor){ 0 }, first, columns);
}

void cs_op_rms_apply(cs_stream *stream, cs_tensor y, cs_tensor stats, cs_tensor sums, cs_tensor x, cs_tensor weight,
                     int64_t first, int64_t whole, float epsilon)
{
    NEED_STREAM(stream);
    check_rows(sums, x, first, cs_count(weight));
    check_rows(stats, x, first, cs_count(weight));
    NEED_SHAPE_OF(y, x);
    check_whole(weight, whole);
    RUN(stream, rms_apply, y, stats, sums, x, weight, first, whole, epsilon);
}

void cs_op_rms_dots(cs_stream *stream, cs_tensor dots, cs_tensor dy, cs_tensor x, cs_tensor weight, int64_t first)
{
    NEED_STREAM(stream);
    check_rows(dots, x, first, cs_count(weight));
    NEED_SHAPE_OF(dy, x);
    NEED_NUMBERS(weight);
    RUN(stream, rms_sums, dots, dy, x, weight, first, cs_count(weight));
}

void cs_op_rms_grad_apply(cs_stream *stream, cs_tensor dx, cs_tensor dweight, cs_tensor dots, cs_tensor dy, cs_tensor x,
                          cs_tensor stats, cs_tensor weight, int64_t first, int64_t whole)
{
    NEED_STREAM(stream);
    check_rows(dots, x, first, cs_count(weight));
    check_rows(stats, x, first, cs_count(weight));
    NEED_SHAPE_OF(dx, x);
    NEED_SHAPE_OF(dy, x);
    check_whole(weight, whole);
    NEED_VECTOR(dweight, CS_F32, cs_count(weight));
    RUN(stream, rms_grad_apply, dx, dweight, dots, dy, x, stats, weight, first, whole);
}
