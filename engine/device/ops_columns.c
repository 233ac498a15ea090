/* ops_columns.c - the operations of cspeed/ops.h on some columns of a matrix. As in ops.c, shapes and types are checked
 * here. */
#include "device/run.h"
#include "base/four_bit.h"

static void run_columns(cs_stream *stream, const ce_columns *job)
{
    CE_ASSERT(job->narrow.data && job->narrow.dtype <= CS_F16 && job->wide.data && job->wide.dtype <= CS_F16);
    CE_ASSERT(cs_rows(job->narrow) == cs_rows(job->wide));
    CE_ASSERT(job->first >= 0 && job->first + cs_columns(job->narrow) <= cs_columns(job->wide));
    if (stream->device->table->columns)
        stream->device->table->columns(stream->device, job);
}

void cs_op_add_columns(cs_stream *stream, cs_tensor y, int64_t first, cs_tensor x, float scale)
{
    run_columns(stream, &(ce_columns){ .wide = y, .narrow = x, .first = first, .scale = scale });
}

void cs_op_take_columns(cs_stream *stream, cs_tensor x, cs_tensor y, int64_t first, float scale)
{
    run_columns(stream, &(ce_columns){ .wide = y, .narrow = x, .first = first, .scale = scale, .takes = true });
}

void cs_op_dequantize(cs_stream *stream, cs_tensor y, const cs_four_bit *matrix, int64_t row, int64_t column)
{
    CE_ASSERT(is_compute(y) && matrix->codes && matrix->absmax && matrix->columns % 2 == 0);
    CE_ASSERT(row >= 0 && column >= 0 && row + cs_rows(y) <= matrix->rows && column + cs_columns(y) <= matrix->columns);
    ce_dequantize job = {
        y, *matrix, row, column, ce_four_bit_values(matrix->fp4 ? CE_FP4 : CE_NF4), ce_four_bit_scales()
    };
    RUN(stream, dequantize, &job);
}

static void check_dora(cs_tensor norms, const cs_dora *dora)
{
    int64_t outputs = cs_count(norms), inputs = cs_columns(dora->a);
    CE_ASSERT(norms.data && norms.dtype == CS_F32 && is_compute(dora->weight) && is_compute(dora->a));
    CE_ASSERT(dora->layout == CS_IN_OUT ? is_matrix(dora->weight, inputs, outputs)
                                        : is_matrix(dora->weight, outputs, inputs));
    CE_ASSERT(is_compute(dora->b) && is_matrix(dora->b, outputs, cs_rows(dora->a)));
    CE_ASSERT(is_compute(dora->magnitude) && cs_count(dora->magnitude) == outputs);
    CE_ASSERT(!dora->bias.data || cs_count(dora->bias) == outputs);
}

static void check_columns(cs_tensor y, cs_tensor z, cs_tensor norms, const cs_dora *dora)
{
    CE_ASSERT(is_compute(y) && is_compute(z) && is_matrix(z, cs_rows(y), cs_count(norms)));
    CE_ASSERT(dora->first >= 0 && dora->first + cs_columns(z) <= cs_columns(y));
}

void cs_op_dora_norms(cs_stream *stream, cs_tensor norms, const cs_dora *dora)
{
    check_dora(norms, dora);
    RUN(stream, dora_norms, norms, dora);
}

void cs_op_join_norms(cs_stream *stream, cs_tensor norms, cs_tensor x)
{
    CE_ASSERT(norms.data && norms.dtype == CS_F32 && x.dtype == CS_F32 && cs_columns(x) == cs_count(norms));
    RUN(stream, join_norms, norms, x);
}

void cs_op_dora(cs_stream *stream, cs_tensor y, cs_tensor z, cs_tensor norms, const cs_dora *dora)
{
    check_dora(norms, dora);
    check_columns(y, z, norms, dora);
    RUN(stream, dora, y, z, norms, dora);
}

void cs_op_dora_grad(cs_stream *stream, cs_tensor dy, cs_tensor dmagnitude, cs_tensor z, cs_tensor norms,
                     const cs_dora *dora)
{
    check_dora(norms, dora);
    check_columns(dy, z, norms, dora);
    CE_ASSERT(dmagnitude.data && dmagnitude.dtype == CS_F32 && cs_count(dmagnitude) == cs_count(norms));
    RUN(stream, dora_grad, dy, dmagnitude, z, norms, dora);
}

/* ---- RMSNorm of rows whose columns are divided over ranks ---- */

/* Checks that x has `columns` columns from `first` on, and that `sums` has a number for each row. */
static void check_rows(cs_tensor sums, cs_tensor x, int64_t first, int64_t columns)
{
    CE_ASSERT(is_compute(x) && is_f32(sums) && is_matrix(sums, cs_rows(x), 1));
    CE_ASSERT(first >= 0 && columns > 0 && first + columns <= cs_columns(x));
}

void cs_op_rms_sums(cs_stream *stream, cs_tensor sums, cs_tensor x, int64_t first, int64_t columns)
{
    check_rows(sums, x, first, columns);
    RUN(stream, rms_sums, sums, (cs_tensor){ 0 }, x, (cs_tensor){ 0 }, first, columns);
}

void cs_op_rms_apply(cs_stream *stream, cs_tensor y, cs_tensor stats, cs_tensor sums, cs_tensor x, cs_tensor weight,
                     int64_t first, int64_t whole, float epsilon)
{
    check_rows(sums, x, first, cs_count(weight));
    check_rows(stats, x, first, cs_count(weight));
    CE_ASSERT(is_shaped(x, y) && is_compute(weight) && whole >= cs_count(weight));
    RUN(stream, rms_apply, y, stats, sums, x, weight, first, whole, epsilon);
}

void cs_op_rms_dots(cs_stream *stream, cs_tensor dots, cs_tensor dy, cs_tensor x, cs_tensor weight, int64_t first)
{
    check_rows(dots, x, first, cs_count(weight));
    CE_ASSERT(is_shaped(x, dy) && is_compute(weight));
    RUN(stream, rms_sums, dots, dy, x, weight, first, cs_count(weight));
}

void cs_op_rms_grad_apply(cs_stream *stream, cs_tensor dx, cs_tensor dweight, cs_tensor dots, cs_tensor dy, cs_tensor x,
                          cs_tensor stats, cs_tensor weight, int64_t first, int64_t whole)
{
    check_rows(dots, x, first, cs_count(weight));
    check_rows(stats, x, first, cs_count(weight));
    CE_ASSERT(is_shaped(x, dx) && is_shaped(x, dy) && is_compute(weight) && whole >= cs_count(weight));
    CE_ASSERT(is_vector(dweight, CS_F32, cs_count(weight)));
    RUN(stream, rms_grad_apply, dx, dweight, dots, dy, x, stats, weight, first, whole);
}
