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

static void check_dropout(cs_dropout dropout, int64_t batch, int64_t count)
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
    NEED_STREAM(stream);
    NEED_NUMBERS(y);
    NEED(size >= 0, "size is %g, and a number of at least 0 is needed", (double)size);
    dropout.rate = 1;
    cs_dropout whole = dropout;
    whole.width = 0;
    check_dropout(whole, dropout.batch, cs_count(y));
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
    check_dropout(dropout, dropout.batch, cs_count(y));
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
    check_dropout(x->dropout, x->dropout.batch, cs_count(x->sum));
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

static void check_starts(cs_tensor starts, cs_tensor like)
{
    if (starts.data)
        NEED_VECTOR(starts, CS_I32, cs_rows(like));
}

static void check_heads(cs_heads heads)
{
    NEED(heads.queries > 0 && heads.keys > 0 && heads.queries % heads.keys == 0,
         "heads.queries is %lld, and a multiple of heads.keys, %lld, is needed", (long long)heads.queries,
         (long long)heads.keys);
    NEED(heads.scale >= 0 && heads.cap >= 0 && heads.window >= 0 && heads.first >= 0,
         "heads.scale, heads.cap, heads.window and heads.first must not be negative");
}

static void check_heads_of(int64_t columns, cs_heads heads)
{
    NEED(columns % heads.queries == 0, "y has %lld columns, which are not divisible by %lld heads", (long long)columns,
         (long long)heads.queries);
}

static void check_attention(cs_stream *stream, const ce_attention_args *attention, int products)
{
    cs_heads heads = attention->heads;
    int64_t rows = cs_rows(attention->y), columns = cs_columns(attention->y);
    ce_need_numbers("y", attention->y);
    ce_need_type("qkv", attention->qkv, attention->y.dtype);
    check_heads(heads);
    check_heads_of(columns, heads);
    ce_need_matrix("qkv", attention->qkv, rows, columns + 2 * columns / heads.queries * heads.keys);
    ce_need_type("lse", attention->lse, CS_F32);
    int64_t length = cs_columns(attention->lse), samples = length > 0 ? rows / length : 0;
    NEED(length > 0 && rows % length == 0, "lse has %lld columns, positions of a sample, and y has %lld rows",
         (long long)length, (long long)rows);
    ce_need_rows("lse", attention->lse, samples * heads.queries);
    check_starts(heads.starts, attention->y);
    check_dropout(attention->dropout, samples, rows * columns);
    /* for each head, each matrix product does D multiply-adds for each pair (i, j) with j <= i inside the window */
    double window = (double)(heads.window && heads.window < length ? heads.window : length);
    double pairs = (window * (double)length - 0.5 * window * (window - 1)) * (double)samples;
    stream->device->flops += 2.0 * products * pairs * (double)columns;
}

void cs_op_attention(cs_stream *stream, cs_tensor y, cs_tensor lse, cs_tensor qkv, cs_heads heads, cs_dropout dropout)
{
    NEED_STREAM(stream);
    ce_attention_args attention = { .y = y, .lse = lse, .qkv = qkv, .heads = heads, .dropout = dropout };
    check_attention(stream, &attention, 2);
    RUN(stream, attention, &attention);
}

void cs_op_attention_grad(cs_stream *stream, cs_tensor dqkv, cs_tensor dy, cs_tensor y, cs_tensor lse, cs_tensor qkv,
                          cs_heads heads, cs_dropout dropout)
{
    NEED_STREAM(stream);
    ce_attention_args attention = {
        .y = y, .lse = lse, .qkv = qkv, .dy = dy, .dqkv = dqkv, .heads = heads, .dropout = dropout
    };
    double before = stream->device->flops;
    check_attention(stream, &attention, 5);
    ce_note_gradient(stream, before);
    NEED_LIKE(dy, y);
    NEED_LIKE(dqkv, qkv);
    RUN(stream, attention_grad, &attention);
}

static void rotate(cs_stream *stream, const ce_turn *turn)
{
    int64_t width, head;
    NEED(turn->rope, "rope is NULL");
    width = turn->rope->width;
    head = ce_rope_head(turn->rope);
    ce_need_numbers("x", turn->x);
    NEED(turn->rows.length > 0, "rows.length is %lld, and at least 1 is needed", (long long)turn->rows.length);
    NEED(width > 0 && width % 2 == 0 && width <= CS_ROPE_WIDTH && head >= width,
         "rope.width is %lld of %lld columns of a head, and an even number of at most %d is needed", (long long)width,
         (long long)head, CS_ROPE_WIDTH);
    NEED(turn->rows.heads * head <= cs_columns(turn->x),
         "x has %lld columns, and %lld heads of %lld columns are needed", (long long)cs_columns(turn->x),
         (long long)turn->rows.heads, (long long)head);
    RUN(stream, rope, turn);
}

void cs_op_rope(cs_stream *stream, cs_tensor x, const cs_rope *rope, cs_rope_rows rows)
{
    NEED_STREAM(stream);
    rotate(stream, &(ce_turn){ x, rope, rows, 1 });
}

void cs_op_rope_grad(cs_stream *stream, cs_tensor dx, const cs_rope *rope, cs_rope_rows rows)
{
    NEED_STREAM(stream);
    rotate(stream, &(ce_turn){ dx, rope, rows, -1 });
}

void cs_op_attention_extend(cs_stream *stream, cs_tensor y, cs_tensor lse, cs_tensor qkv, cs_tensor keys,
                            cs_tensor values, cs_heads heads, int64_t start)
{
    NEED_STREAM(stream);
    int64_t width = cs_columns(y), rows = cs_rows(y), shared = cs_columns(keys);
    NEED_NUMBERS(y);
    NEED_TYPE(qkv, y.dtype);
    NEED_TYPE(keys, y.dtype);
    NEED_TYPE(values, y.dtype);
    check_heads(heads);
    check_heads_of(width, heads);
    NEED_COLUMNS(keys, heads.keys * (width / heads.queries));
    NEED_MATRIX(qkv, rows, width + 2 * shared);
    NEED(start >= 0 && cs_rows(keys) >= start + rows,
         "keys has %lld rows, and %lld new rows from row %lld on are needed", (long long)cs_rows(keys), (long long)rows,
         (long long)start);
    NEED_MATRIX(values, cs_rows(keys), shared);
    if (lse.data) {
        NEED_TYPE(lse, CS_F32);
        NEED_MATRIX(lse, heads.queries, rows);
    }
    double pairs = (double)rows * (double)start + 0.5 * (double)rows * (double)(rows + 1);
    stream->device->flops += 4.0 * pairs * (double)width;
    RUN(stream, extend, &(ce_extension){ y, lse, qkv, keys, values, heads, start });
}

static void check_tokens(cs_tensor tokens, cs_tensor y, int64_t first)
{
    NEED_VECTOR(tokens, CS_I32, cs_rows(y));
    NEED(first >= CS_WHOLE_TABLE, "first is %lld, and a token or CS_WHOLE_TABLE is needed", (long long)first);
}

static void check_positions(cs_tensor positions, cs_tensor tokens, cs_tensor y)
{
    NEED_COLUMNS(positions, cs_columns(y));
    NEED(cs_rows(positions) >= cs_columns(tokens), "the table of positions has %lld rows, and a sample has %lld tokens",
         (long long)cs_rows(positions), (long long)cs_columns(tokens));
}

void cs_op_embed(cs_stream *stream, cs_tensor y, cs_tensor tokens, cs_tensor table, int64_t first, cs_tensor positions,
                 cs_tensor starts)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(y);
    check_tokens(tokens, y, first);
    NEED_TYPE(table, y.dtype);
    NEED_COLUMNS(table, cs_columns(y));
    if (positions.data) {
        NEED_TYPE(positions, y.dtype);
        check_positions(positions, tokens, y);
    }
    check_starts(starts, y);
    RUN(stream, embed, y, tokens, table, first, positions, starts);
}

void cs_op_embed_grad(cs_stream *stream, cs_tensor dtable, int64_t first, cs_tensor dpositions, cs_tensor dy,
                      cs_tensor tokens, cs_tensor starts, int64_t padding)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(dy);
    check_tokens(tokens, dy, first);
    NEED_TYPE(dtable, CS_F32);
    NEED_COLUMNS(dtable, cs_columns(dy));
    if (dpositions.data) {
        NEED_TYPE(dpositions, CS_F32);
        check_positions(dpositions, tokens, dy);
    }
    check_starts(starts, dy);
    if (dtable.overwrite)
        RUN(stream, fill, dtable, 0);
    if (dpositions.data && dpositions.overwrite)
        RUN(stream, fill, dpositions, 0);
    RUN(stream, embed_grad, dtable, first, dpositions, dy, tokens, starts, padding);
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
