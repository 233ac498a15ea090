/* ops.c - the operations of cspeed/ops.h. Shapes and types are checked here, once for all devices; then the function of
 * the device's table is called. If the device does not have a fused operation, the operation is composed of other
 * operations. */
#include "device/run.h"

static void count_product(cs_stream *stream, const ce_product *product)
{
    int64_t inner = product->transpose_a ? cs_rows(product->a) : cs_columns(product->a);
    stream->device->flops += 2.0 * (double)cs_count(product->c) * (double)inner;
}

/* Counts the flops of an operation as flops of a gradient. `before` is the value of device->flops before the
 * operation. */
static void note_gradient(cs_stream *stream, double before)
{
    stream->device->gradient_flops += stream->device->flops - before;
}

static void run_product(cs_stream *stream, const ce_product *product)
{
    count_product(stream, product);
    RUN(stream, product, product);
}

static void run_gradient(cs_stream *stream, const ce_product *product)
{
    double before = stream->device->flops;
    run_product(stream, product);
    note_gradient(stream, before);
}

/* Returns the first row's columns [first, first + count) of y, as a tensor with the rows of y. */
static cs_tensor columns_of(cs_tensor y, int64_t first, int64_t count)
{
    CE_ASSERT(first >= 0 && first + count <= cs_columns(y));
    return cs_matrix((char *)y.data + (size_t)first * cs_dtype_bytes(y.dtype), y.dtype, cs_rows(y), count);
}

static ce_product forward_product(cs_tensor y, cs_tensor x, cs_tensor w, cs_tensor bias, cs_layout layout)
{
    CE_ASSERT(is_compute(x) && is_compute(w) && w.dtype == x.dtype);
    CE_ASSERT(is_f32(y) || (is_compute(y) && y.dtype == x.dtype));
    int64_t inner = cs_columns(x), outer = cs_columns(y);
    CE_ASSERT(cs_rows(y) == cs_rows(x));
    CE_ASSERT(layout == CS_IN_OUT ? is_matrix(w, inner, outer) : is_matrix(w, outer, inner));
    CE_ASSERT(!bias.data || is_vector(bias, x.dtype, outer));
    return (ce_product){ .c = y, .a = x, .b = w, .bias = bias, .transpose_b = layout == CS_OUT_IN };
}

void cs_op_matmul(cs_stream *stream, cs_tensor y, cs_tensor x, cs_tensor w, cs_tensor bias, cs_layout layout)
{
    ce_product product = forward_product(y, x, w, bias, layout);
    run_product(stream, &product);
}

void cs_op_matmul_columns(cs_stream *stream, cs_tensor y, int64_t first, cs_tensor x, cs_tensor w, cs_tensor bias,
                          cs_layout layout)
{
    ce_product product =
        forward_product(columns_of(y, first, layout == CS_IN_OUT ? cs_columns(w) : cs_rows(w)), x, w, bias, layout);
    product.pitch = cs_columns(y);
    run_product(stream, &product);
}

void cs_op_matmul_gelu(cs_stream *stream, cs_tensor y, cs_tensor pre, cs_tensor x, cs_tensor w, cs_tensor bias,
                       cs_layout layout)
{
    ce_product product = forward_product(pre, x, w, bias, layout);
    CE_ASSERT(is_like(pre, y));
    if (stream->device->table->product_gelu) {
        count_product(stream, &product);
        RUN(stream, product_gelu, y, &product);
    } else {
        run_product(stream, &product);
        RUN(stream, gelu, y, pre);
    }
}

static ce_product input_product(cs_tensor dx, cs_tensor dy, cs_tensor w, cs_layout layout)
{
    CE_ASSERT(is_compute(dx) && is_compute(dy) && is_compute(w));
    CE_ASSERT(dx.dtype == dy.dtype && w.dtype == dy.dtype);
    int64_t inner = cs_columns(dx), outer = cs_columns(dy);
    CE_ASSERT(cs_rows(dx) == cs_rows(dy));
    CE_ASSERT(layout == CS_IN_OUT ? is_matrix(w, inner, outer) : is_matrix(w, outer, inner));
    return (ce_product){ .c = dx, .a = dy, .b = w, .transpose_b = layout == CS_IN_OUT };
}

void cs_op_matmul_grad_input(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor w, cs_layout layout)
{
    ce_product product = input_product(dx, dy, w, layout);
    run_gradient(stream, &product);
}

void cs_op_matmul_grad_input_columns(cs_stream *stream, cs_tensor dx, int64_t first, cs_tensor dy, cs_tensor w,
                                     cs_layout layout)
{
    ce_product product =
        input_product(columns_of(dx, first, layout == CS_IN_OUT ? cs_rows(w) : cs_columns(w)), dy, w, layout);
    product.pitch = cs_columns(dx);
    run_gradient(stream, &product);
}

void cs_op_matmul_grad_input_gelu(cs_stream *stream, cs_tensor dpre, cs_tensor dy, cs_tensor w, cs_tensor pre,
                                  cs_layout layout)
{
    double before = stream->device->flops;
    ce_product product = input_product(dpre, dy, w, layout);
    CE_ASSERT(is_like(dpre, pre));
    if (stream->device->table->product_gelu_grad) {
        count_product(stream, &product);
        RUN(stream, product_gelu_grad, &product, pre);
    } else {
        run_product(stream, &product);
        RUN(stream, gelu_grad, dpre, dpre, pre);
    }
    note_gradient(stream, before);
}

void cs_op_matmul_grad_weight(cs_stream *stream, cs_tensor dw, cs_tensor dbias, cs_tensor x, cs_tensor dy,
                              cs_layout layout)
{
    int64_t inner = cs_columns(x), outer = cs_columns(dy);
    CE_ASSERT(is_compute(dy) && (!dbias.data || is_vector(dbias, CS_F32, outer)));
    if (!dw.data) {
        if (dbias.data)
            RUN(stream, column_sums, dbias, dy);
        return;
    }
    CE_ASSERT(is_f32(dw) && is_compute(x) && x.dtype == dy.dtype);
    CE_ASSERT(cs_rows(x) == cs_rows(dy));
    CE_ASSERT(layout == CS_IN_OUT ? is_matrix(dw, inner, outer) : is_matrix(dw, outer, inner));
    bool in_out = layout == CS_IN_OUT;
    double before = stream->device->flops;
    ce_product product = {
        .c = dw, .a = in_out ? x : dy, .b = in_out ? dy : x, .transpose_a = true, .add = !dw.overwrite
    };
    if (dbias.data && stream->device->table->product_sums) {
        count_product(stream, &product);
        note_gradient(stream, before);
        RUN(stream, product_sums, &product, dbias, !in_out);
        return;
    }
    run_gradient(stream, &product);
    if (dbias.data)
        RUN(stream, column_sums, dbias, dy);
}

static void check_norm(cs_tensor stats, cs_tensor x, cs_tensor weight)
{
    CE_ASSERT(is_compute(x));
    CE_ASSERT(is_f32(stats) && is_matrix(stats, cs_rows(x), 2));
    CE_ASSERT(is_compute(weight) && cs_count(weight) == cs_columns(x));
}

void cs_op_norm(cs_stream *stream, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight, cs_tensor bias,
                float epsilon)
{
    check_norm(stats, x, weight);
    CE_ASSERT(is_shaped(x, y));
    CE_ASSERT(is_vector(bias, weight.dtype, cs_columns(x)));
    RUN(stream, norm, y, stats, x, weight, bias, epsilon);
}

static void check_norm_grad(cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                            cs_tensor weight)
{
    check_norm(stats, x, weight);
    CE_ASSERT(is_shaped(x, dx) && is_shaped(x, dy));
    CE_ASSERT(is_vector(dweight, CS_F32, cs_columns(x)));
}

void cs_op_norm_grad(cs_stream *stream, cs_tensor dx, cs_tensor dweight, cs_tensor dbias, cs_tensor dy, cs_tensor x,
                     cs_tensor stats, cs_tensor weight)
{
    check_norm_grad(dx, dweight, dy, x, stats, weight);
    CE_ASSERT(is_vector(dbias, CS_F32, cs_columns(x)));
    RUN(stream, norm_grad, dx, dweight, dbias, dy, x, stats, weight);
}

static void check_rms(cs_tensor stats, cs_tensor x, cs_tensor weight, int64_t first)
{
    CE_ASSERT(is_compute(x) && is_compute(weight));
    CE_ASSERT(is_f32(stats) && cs_rows(stats) == cs_rows(x));
    CE_ASSERT(first >= 0 && first + cs_columns(stats) * cs_count(weight) <= cs_columns(x));
}

void cs_op_rms(cs_stream *stream, cs_tensor y, cs_tensor stats, cs_tensor x, cs_tensor weight, int64_t first,
               float epsilon)
{
    check_rms(stats, x, weight, first);
    CE_ASSERT(is_shaped(x, y));
    RUN(stream, rms, y, stats, x, weight, first, epsilon);
}

static void check_rms_grad(cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                           cs_tensor weight, int64_t first)
{
    check_rms(stats, x, weight, first);
    CE_ASSERT(is_shaped(x, dx) && is_shaped(x, dy) && is_vector(dweight, CS_F32, cs_count(weight)));
}

void cs_op_rms_grad(cs_stream *stream, cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                    cs_tensor weight, int64_t first)
{
    check_rms_grad(dx, dweight, dy, x, stats, weight, first);
    RUN(stream, rms_grad, dx, dweight, dy, x, stats, weight, first);
}

void cs_op_gelu(cs_stream *stream, cs_tensor y, cs_tensor x)
{
    CE_ASSERT(is_compute(x) && is_shaped(x, y));
    RUN(stream, gelu, y, x);
}

void cs_op_gelu_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x)
{
    CE_ASSERT(is_compute(x) && is_shaped(x, dx) && is_shaped(x, dy));
    RUN(stream, gelu_grad, dx, dy, x);
}

void cs_op_swiglu(cs_stream *stream, cs_tensor y, cs_tensor x)
{
    CE_ASSERT(is_compute(x) && is_compute(y) && is_matrix(x, cs_rows(y), 2 * cs_columns(y)));
    RUN(stream, swiglu, y, x);
}

void cs_op_swiglu_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, cs_tensor x)
{
    CE_ASSERT(is_compute(x) && is_shaped(x, dx));
    CE_ASSERT(is_compute(dy) && is_matrix(x, cs_rows(dy), 2 * cs_columns(dy)));
    RUN(stream, swiglu_grad, dx, dy, x);
}

void cs_op_add(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b)
{
    CE_ASSERT(is_compute(y) && is_shaped(y, a) && is_shaped(y, b));
    RUN_IN(stream, add, y, a, b);
}

static void check_dropout(cs_dropout dropout, int64_t batch, int64_t count)
{
    CE_ASSERT(dropout.rate >= 0 && dropout.rate <= 1);
    if (dropout.rate == 0)
        return;
    CE_ASSERT(dropout.keys && dropout.batch == batch && dropout.width == 0);
    CE_ASSERT(count % batch == 0);
}

/* Checks that the tensor x can be columns of rows of dropout.width columns. */
static void check_columns(cs_dropout dropout, cs_tensor x)
{
    /* whole rows may begin at any row of a sample */
    bool whole = cs_columns(x) == dropout.width && dropout.from % dropout.width == 0;
    CE_ASSERT(dropout.from >= 0 && (whole || dropout.from + cs_columns(x) <= dropout.width));
    CE_ASSERT(dropout.rate == 0 || cs_rows(x) % dropout.batch == 0);
}

void cs_op_dropout(cs_stream *stream, cs_tensor y, cs_tensor x, cs_dropout dropout)
{
    cs_dropout whole = dropout;
    whole.width = 0;
    CE_ASSERT(is_compute(x) && is_shaped(x, y));
    check_dropout(whole, dropout.batch, cs_count(x));
    if (dropout.width)
        check_columns(dropout, x);
    if (dropout.rate > 0)
        RUN(stream, add_dropout, y, (cs_tensor){ 0 }, x, dropout);
    else if (y.data != x.data)
        RUN(stream, cast, y, x);
}

void cs_op_add_noise(cs_stream *stream, cs_tensor y, float size, cs_dropout dropout)
{
    CE_ASSERT(is_compute(y) && size >= 0 && dropout.keys && cs_count(y) % dropout.batch == 0);
    dropout.rate = 1;
    if (dropout.width)
        check_columns(dropout, y);
    RUN(stream, add_noise, y, size, dropout);
}

void cs_op_add_dropout(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b, cs_dropout dropout)
{
    CE_ASSERT(is_compute(y) && is_shaped(y, a) && is_shaped(y, b));
    check_dropout(dropout, dropout.batch, cs_count(y));
    if (dropout.rate > 0)
        RUN(stream, add_dropout, y, a, b, dropout);
    else
        RUN_IN(stream, add, y, a, b);
}

static void check_addition(const cs_addition *x)
{
    CE_ASSERT(is_compute(x->sum) && is_shaped(x->sum, x->a) && is_shaped(x->sum, x->b));
    check_dropout(x->dropout, x->dropout.batch, cs_count(x->sum));
}

void cs_op_add_norm(cs_stream *stream, cs_tensor y, cs_tensor stats, const cs_addition *x, cs_tensor weight,
                    cs_tensor bias, float epsilon)
{
    check_addition(x);
    check_norm(stats, x->sum, weight);
    CE_ASSERT(is_shaped(x->sum, y) && is_vector(bias, weight.dtype, cs_columns(x->sum)));
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
    check_addition(x);
    check_rms(stats, x->sum, weight, 0);
    CE_ASSERT(is_shaped(x->sum, y) && cs_count(weight) == cs_columns(x->sum));
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
    CE_ASSERT(is_shaped(dx, beside));
    if (stream->device->table->norm_grad_add) {
        check_norm_grad(dx, dweight, dy, x, stats, weight);
        CE_ASSERT(is_vector(dbias, CS_F32, cs_columns(x)));
        RUN(stream, norm_grad_add, dx, dweight, dbias, dy, x, stats, weight, beside);
    } else {
        cs_op_norm_grad(stream, dx, dweight, dbias, dy, x, stats, weight);
        RUN_IN(stream, add, dx, beside, dx);
    }
}

void cs_op_rms_grad_add(cs_stream *stream, cs_tensor dx, cs_tensor dweight, cs_tensor dy, cs_tensor x, cs_tensor stats,
                        cs_tensor weight, cs_tensor beside)
{
    CE_ASSERT(is_shaped(dx, beside) && cs_count(weight) == cs_columns(x));
    if (stream->device->table->rms_grad_add) {
        check_rms_grad(dx, dweight, dy, x, stats, weight, 0);
        RUN(stream, rms_grad_add, dx, dweight, dy, x, stats, weight, beside);
    } else {
        cs_op_rms_grad(stream, dx, dweight, dy, x, stats, weight, 0);
        RUN_IN(stream, add, dx, beside, dx);
    }
}

static bool is_starts(cs_tensor starts, cs_tensor like)
{
    return !starts.data || (starts.dtype == CS_I32 && cs_count(starts) == cs_rows(like));
}

static void check_attention(cs_stream *stream, const ce_attention_args *attention, int products)
{
    cs_heads heads = attention->heads;
    int64_t rows = cs_rows(attention->y), columns = cs_columns(attention->y);
    CE_ASSERT(is_compute(attention->y) && attention->qkv.data && attention->qkv.dtype == attention->y.dtype);
    CE_ASSERT(heads.queries > 0 && heads.keys > 0);
    CE_ASSERT(heads.queries % heads.keys == 0 && columns % heads.queries == 0);
    CE_ASSERT(is_matrix(attention->qkv, rows, columns + 2 * columns / heads.queries * heads.keys));
    int64_t length = cs_columns(attention->lse), samples = rows / length;
    CE_ASSERT(is_f32(attention->lse) && rows % length == 0);
    CE_ASSERT(cs_rows(attention->lse) == samples * heads.queries);
    CE_ASSERT(is_starts(heads.starts, attention->y));
    CE_ASSERT(heads.scale >= 0 && heads.cap >= 0 && heads.first >= 0);
    check_dropout(attention->dropout, samples, rows * columns);
    /* for each head, each matrix product does D multiply-adds for each pair (i, j) with j <= i inside the window */
    double window = (double)(heads.window && heads.window < length ? heads.window : length);
    double pairs = (window * (double)length - 0.5 * window * (window - 1)) * (double)samples;
    stream->device->flops += 2.0 * products * pairs * (double)columns;
}

void cs_op_attention(cs_stream *stream, cs_tensor y, cs_tensor lse, cs_tensor qkv, cs_heads heads, cs_dropout dropout)
{
    ce_attention_args attention = { .y = y, .lse = lse, .qkv = qkv, .heads = heads, .dropout = dropout };
    check_attention(stream, &attention, 2);
    RUN(stream, attention, &attention);
}

void cs_op_attention_grad(cs_stream *stream, cs_tensor dqkv, cs_tensor dy, cs_tensor y, cs_tensor lse, cs_tensor qkv,
                          cs_heads heads, cs_dropout dropout)
{
    ce_attention_args attention = {
        .y = y, .lse = lse, .qkv = qkv, .dy = dy, .dqkv = dqkv, .heads = heads, .dropout = dropout
    };
    double before = stream->device->flops;
    check_attention(stream, &attention, 5);
    note_gradient(stream, before);
    CE_ASSERT(is_like(y, dy) && is_like(qkv, dqkv));
    RUN(stream, attention_grad, &attention);
}

static void rotate(cs_stream *stream, const ce_turn *turn)
{
    CE_ASSERT(is_compute(turn->x) && turn->rows.length > 0);
    CE_ASSERT(turn->rope->width > 0 && turn->rope->width % 2 == 0 && turn->rope->width <= CS_ROPE_WIDTH);
    CE_ASSERT(ce_rope_head(turn->rope) >= turn->rope->width);
    CE_ASSERT(turn->rows.heads * ce_rope_head(turn->rope) <= cs_columns(turn->x));
    RUN(stream, rope, turn);
}

void cs_op_rope(cs_stream *stream, cs_tensor x, const cs_rope *rope, cs_rope_rows rows)
{
    rotate(stream, &(ce_turn){ x, rope, rows, 1 });
}

void cs_op_rope_grad(cs_stream *stream, cs_tensor dx, const cs_rope *rope, cs_rope_rows rows)
{
    rotate(stream, &(ce_turn){ dx, rope, rows, -1 });
}

void cs_op_attention_extend(cs_stream *stream, cs_tensor y, cs_tensor qkv, cs_tensor keys, cs_tensor values,
                            cs_heads heads, int64_t start)
{
    int64_t width = cs_columns(y), rows = cs_rows(y), shared = cs_columns(keys);
    CE_ASSERT(is_compute(y) && qkv.data && keys.data && values.data);
    CE_ASSERT(qkv.dtype == y.dtype && keys.dtype == y.dtype && values.dtype == y.dtype);
    CE_ASSERT(heads.keys > 0 && heads.queries % heads.keys == 0 && heads.window >= 0);
    CE_ASSERT(width % heads.queries == 0 && shared == heads.keys * (width / heads.queries));
    CE_ASSERT(is_matrix(qkv, rows, width + 2 * shared));
    CE_ASSERT(start >= 0 && cs_rows(keys) >= start + rows);
    CE_ASSERT(heads.scale >= 0 && heads.cap >= 0);
    CE_ASSERT(is_matrix(values, cs_rows(keys), shared));
    double pairs = (double)rows * (double)start + 0.5 * (double)rows * (double)(rows + 1);
    stream->device->flops += 4.0 * pairs * (double)width;
    RUN(stream, extend, &(ce_extension){ y, qkv, keys, values, heads, start });
}

void cs_op_embed(cs_stream *stream, cs_tensor y, cs_tensor tokens, cs_tensor table, int64_t first, cs_tensor positions,
                 cs_tensor starts)
{
    int64_t width = cs_columns(y);
    CE_ASSERT(first >= CS_WHOLE_TABLE);
    CE_ASSERT(is_compute(y) && tokens.data && tokens.dtype == CS_I32 && cs_count(tokens) == cs_rows(y));
    CE_ASSERT(table.data && table.dtype == y.dtype && cs_columns(table) == width);
    CE_ASSERT(!positions.data || (positions.dtype == y.dtype && cs_columns(positions) == width &&
                                  cs_rows(positions) >= cs_columns(tokens)));
    CE_ASSERT(is_starts(starts, y));
    RUN(stream, embed, y, tokens, table, first, positions, starts);
}

void cs_op_embed_grad(cs_stream *stream, cs_tensor dtable, int64_t first, cs_tensor dpositions, cs_tensor dy,
                      cs_tensor tokens, cs_tensor starts, int64_t padding)
{
    int64_t width = cs_columns(dy);
    CE_ASSERT(first >= CS_WHOLE_TABLE);
    CE_ASSERT(is_compute(dy) && tokens.data && tokens.dtype == CS_I32 && cs_count(tokens) == cs_rows(dy));
    CE_ASSERT(is_f32(dtable) && cs_columns(dtable) == width);
    CE_ASSERT(!dpositions.data ||
              (is_f32(dpositions) && cs_columns(dpositions) == width && cs_rows(dpositions) >= cs_columns(tokens)));
    CE_ASSERT(is_starts(starts, dy));
    if (dtable.overwrite)
        RUN(stream, fill, dtable, 0);
    if (dpositions.data && dpositions.overwrite)
        RUN(stream, fill, dpositions, 0);
    RUN(stream, embed_grad, dtable, first, dpositions, dy, tokens, starts, padding);
}

void cs_op_cast(cs_stream *stream, cs_tensor y, cs_tensor x)
{
    CE_ASSERT(cs_count(y) == cs_count(x));
    CE_ASSERT(y.dtype == x.dtype || (y.dtype <= CS_F16 && x.dtype <= CS_F16));
    RUN(stream, cast, y, x);
}

void cs_op_fill(cs_stream *stream, cs_tensor y, float value)
{
    CE_ASSERT(y.dtype <= CS_F16);
    RUN(stream, fill, y, value);
}
