/* ops.c - the operations of cspeed/ops.h. Shapes and types are checked here, once for all devices; then the function of
 * the device's table is called. If the device does not have a fused operation, the operation is composed of other
 * operations. */
#include "device/run.h"

static void count_product(cs_stream *stream, const ce_product *product)
{
    int64_t inner = product->transpose_a ? cs_rows(product->a) : cs_columns(product->a);
    stream->device->flops += 2.0 * (double)cs_count(product->c) * (double)inner;
}

void ce_note_gradient(cs_stream *stream, double before)
{
    stream->device->gradient_flops += stream->device->flops - before;
}

void ce_run_product(cs_stream *stream, const ce_product *product)
{
    count_product(stream, product);
    RUN(stream, product, product);
}

static void run_gradient(cs_stream *stream, const ce_product *product)
{
    double before = stream->device->flops;
    ce_run_product(stream, product);
    ce_note_gradient(stream, before);
}

/* Returns the first row's columns [first, first + count) of y, as a tensor with the rows of y. */
static cs_tensor columns_of(cs_tensor y, int64_t first, int64_t count)
{
    NEED(first >= 0 && first + count <= cs_columns(y),
         "columns %lld to %lld are needed, and the matrix has %lld columns", (long long)first,
         (long long)(first + count), (long long)cs_columns(y));
    return cs_matrix((char *)y.data + (size_t)first * cs_dtype_bytes(y.dtype), y.dtype, cs_rows(y), count);
}

static ce_product forward_product(cs_tensor y, cs_tensor x, cs_tensor w, cs_tensor bias, cs_layout layout)
{
    NEED_NUMBERS(x);
    NEED_TYPE(w, x.dtype);
    NEED_PRESENT(y);
    if (y.dtype != CS_F32)
        NEED_TYPE(y, x.dtype);
    NEED_ROWS(y, cs_rows(x));
    NEED_LAYOUT(w, layout, cs_columns(x), cs_columns(y));
    if (bias.data)
        NEED_VECTOR(bias, x.dtype, cs_columns(y));
    return (ce_product){ .c = y, .a = x, .b = w, .bias = bias, .transpose_b = layout == CS_OUT_IN };
}

void cs_op_matmul(cs_stream *stream, cs_tensor y, cs_tensor x, cs_tensor w, cs_tensor bias, cs_layout layout)
{
    NEED_STREAM(stream);
    ce_product product = forward_product(y, x, w, bias, layout);
    ce_run_product(stream, &product);
}

void cs_op_matmul_columns(cs_stream *stream, cs_tensor y, int64_t first, cs_tensor x, cs_tensor w, cs_tensor bias,
                          cs_layout layout)
{
    NEED_STREAM(stream);
    ce_product product =
        forward_product(columns_of(y, first, layout == CS_IN_OUT ? cs_columns(w) : cs_rows(w)), x, w, bias, layout);
    product.pitch = cs_columns(y);
    ce_run_product(stream, &product);
}

void cs_op_matmul_gelu(cs_stream *stream, cs_tensor y, cs_tensor pre, cs_tensor x, cs_tensor w, cs_tensor bias,
                       cs_layout layout)
{
    NEED_STREAM(stream);
    ce_product product = forward_product(pre, x, w, bias, layout);
    NEED_LIKE(y, pre);
    if (stream->device->table->product_gelu) {
        count_product(stream, &product);
        RUN(stream, product_gelu, y, &product);
    } else {
        ce_run_product(stream, &product);
        RUN(stream, gelu, y, pre);
    }
}

static ce_product input_product(cs_tensor dx, cs_tensor dy, cs_tensor w, cs_layout layout)
{
    NEED_NUMBERS(dy);
    NEED_TYPE(dx, dy.dtype);
    NEED_TYPE(w, dy.dtype);
    NEED_ROWS(dx, cs_rows(dy));
    NEED_LAYOUT(w, layout, cs_columns(dx), cs_columns(dy));
    return (ce_product){ .c = dx, .a = dy, .b = w, .transpose_b = layout == CS_IN_OUT };
}

void cs_op_matmul_grad_input(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor w, cs_layout layout)
{
    NEED_STREAM(stream);
    ce_product product = input_product(dx, dy, w, layout);
    run_gradient(stream, &product);
}

void cs_op_matmul_grad_input_columns(cs_stream *stream, cs_tensor dx, int64_t first, cs_tensor dy, cs_tensor w,
                                     cs_layout layout)
{
    NEED_STREAM(stream);
    ce_product product =
        input_product(columns_of(dx, first, layout == CS_IN_OUT ? cs_rows(w) : cs_columns(w)), dy, w, layout);
    product.pitch = cs_columns(dx);
    run_gradient(stream, &product);
}

void cs_op_matmul_grad_input_gelu(cs_stream *stream, cs_tensor dpre, cs_tensor dy, cs_tensor w, cs_tensor pre,
                                  cs_layout layout)
{
    NEED_STREAM(stream);
    double before = stream->device->flops;
    ce_product product = input_product(dpre, dy, w, layout);
    NEED_LIKE(pre, dpre);
    if (stream->device->table->product_gelu_grad) {
        count_product(stream, &product);
        RUN(stream, product_gelu_grad, &product, pre);
    } else {
        ce_run_product(stream, &product);
        RUN(stream, gelu_grad, dpre, dpre, pre);
    }
    ce_note_gradient(stream, before);
}

void cs_op_matmul_grad_weight(cs_stream *stream, cs_tensor dw, cs_tensor dbias, cs_tensor x, cs_tensor dy,
                              cs_layout layout)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(dy);
    if (dbias.data)
        NEED_VECTOR(dbias, CS_F32, cs_columns(dy));
    if (!dw.data) {
        if (dbias.data)
            RUN(stream, column_sums, dbias, dy);
        return;
    }
    NEED_TYPE(dw, CS_F32);
    NEED_TYPE(x, dy.dtype);
    NEED_ROWS(x, cs_rows(dy));
    NEED_LAYOUT(dw, layout, cs_columns(x), cs_columns(dy));
    bool in_out = layout == CS_IN_OUT;
    double before = stream->device->flops;
    ce_product product = {
        .c = dw, .a = in_out ? x : dy, .b = in_out ? dy : x, .transpose_a = true, .add = !dw.overwrite
    };
    if (dbias.data && stream->device->table->product_sums) {
        count_product(stream, &product);
        ce_note_gradient(stream, before);
        RUN(stream, product_sums, &product, dbias, !in_out);
        return;
    }
    run_gradient(stream, &product);
    if (dbias.data)
        RUN(stream, column_sums, dbias, dy);
}

static void check_norm(cs_tensor stats, cs_tensor x, cs_tensor weight)
{
    NEED_NUMBERS(x);
    NEED_TYPE(stats, CS_F32);
    NEED_MATRIX(stats, cs_rows(x), 2);
    NEED_NUMBERS(weight);
    NEED_COUNT(weight, cs_columns(x));
}

void cs_op_norm(cs_stream *stream, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight, cs_tensor bias,
                float epsilon)
{
    NEED_STREAM(stream);
    check_norm(stats, x, weight);
    NEED_SHAPE_OF(y, x);
    NEED_VECTOR(bias, weight.dtype, cs_columns(x));
    RUN(stream, norm, y, stats, x, weight, bias, epsilon);
}

static void check_norm_grad(cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                            cs_tensor weight)
{
    check_norm(stats, x, weight);
    NEED_SHAPE_OF(dx, x);
    NEED_SHAPE_OF(dy, x);
    NEED_VECTOR(dweight, CS_F32, cs_columns(x));
}

void cs_op_norm_grad(cs_stream *stream, cs_tensor dx, cs_tensor dweight, cs_tensor dbias, cs_tensor dy, cs_tensor x,
                     cs_tensor stats, cs_tensor weight)
{
    NEED_STREAM(stream);
    check_norm_grad(dx, dweight, dy, x, stats, weight);
    NEED_VECTOR(dbias, CS_F32, cs_columns(x));
    RUN(stream, norm_grad, dx, dweight, dbias, dy, x, stats, weight);
}

static void check_rms(cs_tensor stats, cs_tensor x, cs_tensor weight, int64_t first)
{
    NEED_NUMBERS(x);
    NEED_NUMBERS(weight);
    NEED_TYPE(stats, CS_F32);
    NEED_ROWS(stats, cs_rows(x));
    NEED(first >= 0 && first + cs_columns(stats) * cs_count(weight) <= cs_columns(x),
         "x has %lld columns, and %lld groups of %lld columns from column %lld on are needed", (long long)cs_columns(x),
         (long long)cs_columns(stats), (long long)cs_count(weight), (long long)first);
}

void cs_op_rms(cs_stream *stream, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight, int64_t first,
               float epsilon)
{
    NEED_STREAM(stream);
    check_rms(stats, x, weight, first);
    NEED_SHAPE_OF(y, x);
    RUN(stream, rms, y, stats, x, weight, first, epsilon);
}

static void check_rms_grad(cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                           cs_tensor weight, int64_t first)
{
    check_rms(stats, x, weight, first);
    NEED_SHAPE_OF(dx, x);
    NEED_SHAPE_OF(dy, x);
    NEED_VECTOR(dweight, CS_F32, cs_count(weight));
}

void cs_op_rms_grad(cs_stream *stream, cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                    cs_tensor weight, int64_t first)
{
    NEED_STREAM(stream);
    check_rms_grad(dx, dweight, dy, x, stats, weight, first);
    RUN(stream, rms_grad, dx, dweight, dy, x, stats, weight, first);
}

void cs_op_gelu(cs_stream *stream, cs_tensor y, cs_tensor x)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(x);
    NEED_SHAPE_OF(y, x);
    RUN(stream, gelu, y, x);
}

void cs_op_gelu_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(x);
    NEED_SHAPE_OF(dx, x);
    NEED_SHAPE_OF(dy, x);
    RUN(stream, gelu_grad, dx, dy, x);
}

void cs_op_swiglu(cs_stream *stream, cs_tensor y, cs_tensor x)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(y);
    NEED_NUMBERS(x);
    NEED_MATRIX(x, cs_rows(y), 2 * cs_columns(y));
    RUN(stream, swiglu, y, x);
}

void cs_op_swiglu_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(x);
    NEED_SHAPE_OF(dx, x);
    NEED_NUMBERS(dy);
    NEED_MATRIX(x, cs_rows(dy), 2 * cs_columns(dy));
    RUN(stream, swiglu_grad, dx, dy, x);
}

/* Checks that the tensor x can be columns of rows of dropout.width columns. */
static void check_columns(cs_dropout dropout, cs_tensor x)
{
    /* whole rows may begin at any row of a sample */
    bool whole = cs_columns(x) == dropout.width && dropout.from % dropout.width == 0;
    NEED(dropout.from >= 0 && (whole || dropout.from + cs_columns(x) <= dropout.width),
         "columns %lld to %lld are needed, and dropout.width is %lld columns", (long long)dropout.from,
         (long long)(dropout.from + cs_columns(x)), (long long)dropout.width);
    NEED(dropout.rate == 0 || cs_rows(x) % dropout.batch == 0, "the %lld rows are not divisible by %lld samples",
         (long long)cs_rows(x), (long long)dropout.batch);
}

void cs_op_dropout(cs_stream *stream, cs_tensor y, cs_tensor x, cs_dropout dropout)
{
    NEED_STREAM(stream);
    cs_dropout whole = dropout;
    whole.width = 0;
    NEED_NUMBERS(x);
    NEED_SHAPE_OF(y, x);
    ce_need_dropout(whole, dropout.batch, cs_count(x));
    if (dropout.width)
        check_columns(dropout, x);
    if (dropout.rate > 0)
        RUN(stream, add_dropout, y, (cs_tensor){ 0 }, x, dropout);
    else if (y.data != x.data)
        RUN(stream, cast, y, x);
}

void cs_op_add_noise(cs_stream *stream, cs_tensor y, float size, cs_dropout dropout)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(y);
    NEED(size >= 0, "size is %g, and a number of at least 0 is needed", (double)size);
    dropout.rate = 1;
    cs_dropout whole = dropout;
    whole.width = 0;
    ce_need_dropout(whole, dropout.batch, cs_count(y));
    if (dropout.width)
        check_columns(dropout, y);
    RUN(stream, add_noise, y, size, dropout);
}

void cs_op_add_dropout(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b, cs_dropout dropout)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(y);
    NEED_SHAPE_OF(a, y);
    NEED_SHAPE_OF(b, y);
    ce_need_dropout(dropout, dropout.batch, cs_count(y));
    if (dropout.rate > 0)
        RUN(stream, add_dropout, y, a, b, dropout);
    else
        RUN_IN(stream, add, y, a, b);
}

static void check_addition(const cs_addition *x)
{
    NEED(x, "x is NULL");
    NEED_NUMBERS(x->sum);
    NEED_SHAPE_OF(x->a, x->sum);
    NEED_SHAPE_OF(x->b, x->sum);
    ce_need_dropout(x->dropout, x->dropout.batch, cs_count(x->sum));
}

void cs_op_add_norm(cs_stream *stream, cs_tensor y, cs_tensor stats, const cs_addition *x, cs_tensor weight,
                    cs_tensor bias, float epsilon)
{
    NEED_STREAM(stream);
    check_addition(x);
    check_norm(stats, x->sum, weight);
    NEED_SHAPE_OF(y, x->sum);
    NEED_VECTOR(bias, weight.dtype, cs_columns(x->sum));
    if (stream->device->table->add_norm) {
        RUN(stream, add_norm, y, stats, x, weight, bias, epsilon);
    } else {
        cs_op_add_dropout(stream, x->sum, x->a, x->b, x->dropout);
        RUN(stream, norm, y, stats, x->sum, weight, bias, epsilon);
    }
}

void cs_op_add_rms(cs_stream *stream, cs_tensor y, cs_tensor stats, const cs_addition *x, cs_tensor weight,
                   float epsilon)
{
    NEED_STREAM(stream);
    check_addition(x);
    check_rms(stats, x->sum, weight, 0);
    NEED_SHAPE_OF(y, x->sum);
    NEED_COUNT(weight, cs_columns(x->sum));
    if (stream->device->table->add_rms) {
        RUN(stream, add_rms, y, stats, x, weight, epsilon);
    } else {
        cs_op_add_dropout(stream, x->sum, x->a, x->b, x->dropout);
        RUN(stream, rms, y, stats, x->sum, weight, 0, epsilon);
    }
}

void cs_op_norm_grad_add(cs_stream *stream, cs_tensor dx, cs_tensor dweight, cs_tensor dbias, cs_tensor dy, cs_tensor x,
                         cs_tensor stats, cs_tensor weight, cs_tensor beside)
{
    NEED_STREAM(stream);
    NEED_SHAPE_OF(beside, dx);
    if (stream->device->table->norm_grad_add) {
        check_norm_grad(dx, dweight, dy, x, stats, weight);
        NEED_VECTOR(dbias, CS_F32, cs_columns(x));
        RUN(stream, norm_grad_add, dx, dweight, dbias, dy, x, stats, weight, beside);
    } else {
        cs_op_norm_grad(stream, dx, dweight, dbias, dy, x, stats, weight);
        RUN_IN(stream, add, dx, beside, dx);
    }
}

void cs_op_rms_grad_add(cs_stream *stream, cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                        cs_tensor weight, cs_tensor beside)
{
    NEED_STREAM(stream);
    NEED_SHAPE_OF(beside, dx);
    NEED_COUNT(weight, cs_columns(x));
    if (stream->device->table->rms_grad_add) {
        check_rms_grad(dx, dweight, dy, x, stats, weight, 0);
        RUN(stream, rms_grad_add, dx, dweight, dy, x, stats, weight, beside);
    } else {
        cs_op_rms_grad(stream, dx, dweight, dy, x, stats, weight, 0);
        RUN_IN(stream, add, dx, beside, dx);
    }
}

void cs_op_cast(cs_stream *stream, cs_tensor y, cs_tensor x)
{
    NEED_STREAM(stream);
    NEED_PRESENT(x);
    NEED_COUNT(y, cs_count(x));
    if (y.dtype != x.dtype) {
        NEED_NUMBERS(y);
        NEED_NUMBERS(x);
    }
    RUN(stream, cast, y, x);
}

void cs_op_fill(cs_stream *stream, cs_tensor y, float value)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(y);
    RUN(stream, fill, y, value);
}
