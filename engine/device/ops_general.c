/* ops_general.c - the operations of cspeed/ops.h for models that the engine does not have: sums and products with
 * broadcasting, sums of rows and columns, softmax, transposition, batches of products, attention to all positions,
 * neighbourhoods of pixels. As in ops.c, shapes and types are checked here. */
#include "device/run.h"

#include <math.h>

/* Checks that b has the rows of y or one row, and the columns of y or one column. */
static void check_broadcast(cs_tensor y, cs_tensor a, cs_tensor b)
{
    NEED_NUMBERS(y);
    NEED_SHAPE_OF(a, y);
    NEED_NUMBERS(b);
    long long rows = cs_rows(y), columns = cs_columns(y);
    NEED((cs_rows(b) == 1 || cs_rows(b) == rows) && (cs_columns(b) == 1 || cs_columns(b) == columns),
         "b is (%lld, %lld), and (%lld, %lld), (1, %lld), (%lld, 1) or (1, 1) is needed", (long long)cs_rows(b),
         (long long)cs_columns(b), rows, columns, columns, rows);
}

void cs_op_add(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b)
{
    NEED_STREAM(stream);
    check_broadcast(y, a, b);
    if (cs_count(b) == cs_count(y))
        RUN_IN(stream, add, y, a, b);
    else
        RUN(stream, broadcast, &(ce_broadcast){ y, a, b, 1, false });
}

void cs_op_multiply(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b)
{
    NEED_STREAM(stream);
    check_broadcast(y, a, b);
    RUN(stream, broadcast, &(ce_broadcast){ y, a, b, 1, true });
}

/* Checks that `sum` has one element for each row or for each column of x. Returns whether it is each row. */
static bool check_sum(const char *name, cs_tensor sum, cs_tensor x)
{
    long long rows = cs_rows(x), columns = cs_columns(x);
    bool of_rows = cs_columns(sum) == 1 && cs_rows(sum) == rows;
    NEED(of_rows || (cs_rows(sum) == 1 && cs_columns(sum) == columns),
         "%s is (%lld, %lld), and (%lld, 1) or (1, %lld) is needed", name, (long long)cs_rows(sum),
         (long long)cs_columns(sum), rows, columns);
    return of_rows;
}

void cs_op_sum(cs_stream *stream, cs_tensor y, cs_tensor x, float factor)
{
    NEED_STREAM(stream);
    NEED_TYPE(y, CS_F32);
    NEED_NUMBERS(x);
    if (check_sum("y", y, x)) {
        RUN(stream, row_sums, y, x, factor);
        return;
    }
    y.overwrite = true;
    RUN(stream, column_sums, y, x);
    if (factor != 1)
        RUN_IN(stream, convert, y, y, factor);
}

void cs_op_sum_grad(cs_stream *stream, cs_tensor dx, cs_tensor dy, float factor)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(dx);
    NEED_NUMBERS(dy);
    check_sum("dy", dy, dx);
    RUN(stream, broadcast, &(ce_broadcast){ .y = dx, .b = dy, .factor = factor });
}

/* Returns the scores with the defaults in place of zeros. */
static cs_softmax_scores check_scores(cs_softmax_scores scores, cs_tensor x)
{
    if (scores.bias.data) {
        ce_need_numbers("scores.bias", scores.bias);
        ce_need_columns("scores.bias", scores.bias, cs_columns(x));
    }
    NEED(scores.each >= 0, "scores.each is %lld, and at least 0 is needed", (long long)scores.each);
    scores.factor = scores.factor != 0 ? scores.factor : 1;
    scores.each = scores.each ? scores.each : 1;
    return scores;
}

void cs_op_softmax(cs_stream *stream, cs_tensor y, cs_tensor x, cs_softmax_scores scores)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(x);
    NEED_SHAPE_OF(y, x);
    scores = check_scores(scores, x);
    RUN(stream, softmax, y, x, scores);
}

void cs_op_softmax_grad(cs_stream *stream, cs_tensor ds, cs_tensor dy, cs_tensor y)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(y);
    NEED_SHAPE_OF(ds, y);
    NEED_SHAPE_OF(dy, y);
    RUN(stream, softmax_grad, ds, dy, y);
}

void cs_op_transpose(cs_stream *stream, cs_tensor y, cs_tensor x, int64_t batch, int64_t rows, int64_t columns)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(x);
    NEED_TYPE(y, x.dtype);
    NEED_COUNT(y, cs_count(x));
    NEED(y.data != x.data, "y and x are the same tensor");
    NEED(batch >= 0 && rows > 0 && columns > 0 && (batch ? cs_count(x) % (batch * rows * columns) : cs_count(x)) == 0,
         "x has %lld elements, which are not %lld matrices of %lld rows and %lld columns", (long long)cs_count(x),
         (long long)batch, (long long)rows, (long long)columns);
    RUN(stream, transpose, y, x, batch, rows, columns);
}

static cs_tensor matrix_of(cs_tensor x, int64_t index, int64_t batch)
{
    int64_t rows = cs_rows(x) / batch;
    char *data = (char *)x.data + (size_t)(index * rows * cs_columns(x)) * cs_dtype_bytes(x.dtype);
    return cs_matrix(data, x.dtype, rows, cs_columns(x));
}

static void check_batch(const char *name, cs_tensor x, int64_t batch)
{
    NEED(cs_rows(x) % batch == 0, "%s has %lld rows, which are not those of %lld matrices", name, (long long)cs_rows(x),
         (long long)batch);
}

void cs_op_matmul_batch(cs_stream *stream, cs_tensor y, cs_tensor a, cs_tensor b, cs_matrices batch)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(a);
    NEED_TYPE(b, a.dtype);
    NEED(batch.count > 0, "batch.count is %lld, and a number above 0 is needed", (long long)batch.count);
    NEED(!batch.transpose_a || !batch.transpose_b, "both factors are transposed, and at most one is possible");
    check_batch("a", a, batch.count);
    check_batch("b", b, batch.count);
    int64_t a_rows = cs_rows(a) / batch.count, b_rows = cs_rows(b) / batch.count;
    int64_t inner = batch.transpose_a ? a_rows : cs_columns(a);
    if (batch.transpose_b)
        NEED_COLUMNS(b, inner);
    else
        NEED_ROWS(b, batch.count * inner);
    NEED_NUMBERS(y);
    if (y.dtype != CS_F32)
        NEED_TYPE(y, a.dtype);
    NEED_MATRIX(y, batch.count * (batch.transpose_a ? cs_columns(a) : a_rows),
                batch.transpose_b ? b_rows : cs_columns(b));
    for (int64_t i = 0; i < batch.count; i++) {
        ce_product product = { .c = matrix_of(y, i, batch.count),
                               .a = matrix_of(a, i, batch.count),
                               .b = matrix_of(b, i, batch.count) };
        product.transpose_a = batch.transpose_a, product.transpose_b = batch.transpose_b;
        ce_run_product(stream, &product);
    }
}

/* ---- attention to all positions ---- */

static const cs_matrices q_k = { .transpose_b = true }, transposed = { .transpose_a = true };

static cs_matrices batch_of(cs_matrices kind, int64_t count)
{
    kind.count = count;
    return kind;
}

static void check_attend(cs_tensor p, cs_tensor y, cs_tensor q, cs_tensor k, cs_tensor v, int64_t batch)
{
    NEED(batch > 0, "batch is %lld, and a number above 0 is needed", (long long)batch);
    NEED_NUMBERS(q);
    check_batch("q", q, batch);
    NEED_TYPE(k, q.dtype);
    check_batch("k", k, batch);
    NEED_COLUMNS(k, cs_columns(q));
    NEED_TYPE(v, q.dtype);
    NEED_ROWS(v, cs_rows(k));
    NEED_TYPE(p, q.dtype);
    NEED_MATRIX(p, cs_rows(q), cs_rows(k) / batch);
    NEED_TYPE(y, q.dtype);
    NEED_MATRIX(y, cs_rows(q), cs_columns(v));
}

static float attend_factor(float factor, cs_tensor q)
{
    return factor != 0 ? factor : 1 / sqrtf((float)cs_columns(q));
}

void cs_op_attend(cs_stream *stream, cs_tensor y, cs_tensor p, cs_tensor s, cs_tensor q, cs_tensor k, cs_tensor v,
                  int64_t batch, cs_softmax_scores scores)
{
    NEED_STREAM(stream);
    check_attend(p, y, q, k, v, batch);
    NEED_TYPE(s, CS_F32);
    scores.factor = attend_factor(scores.factor, q);
    cs_op_matmul_batch(stream, s, q, k, batch_of(q_k, batch));
    cs_op_softmax(stream, p, s, scores);
    cs_op_matmul_batch(stream, y, p, v, (cs_matrices){ .count = batch });
}

void cs_op_attend_grad(cs_stream *stream, cs_tensor dq, cs_tensor dk, cs_tensor dv, cs_tensor ds, cs_tensor dy,
                       cs_tensor p, cs_tensor q, cs_tensor k, cs_tensor v, int64_t batch, float factor)
{
    NEED_STREAM(stream);
    check_attend(p, dy, q, k, v, batch);
    NEED_LIKE(ds, p);
    NEED_LIKE(dq, q);
    NEED_LIKE(dk, k);
    NEED_LIKE(dv, v);
    double before = stream->device->flops;
    factor = attend_factor(factor, q);
    cs_op_matmul_batch(stream, dv, p, dy, batch_of(transposed, batch));
    cs_op_matmul_batch(stream, ds, dy, v, batch_of(q_k, batch));
    cs_op_softmax_grad(stream, ds, ds, p);
    cs_op_matmul_batch(stream, dq, ds, k, (cs_matrices){ .count = batch });
    cs_op_scale(stream, dq, dq, factor);
    cs_op_matmul_batch(stream, dk, ds, q, batch_of(transposed, batch));
    cs_op_scale(stream, dk, dk, factor);
    ce_note_gradient(stream, before);
}

/* ---- neighbourhoods of pixels ---- */

int64_t cs_patches_outputs(const cs_patches *shape, int axis)
{
    int64_t stride = shape->stride[axis] ? shape->stride[axis] : 1;
    int64_t dilation = shape->dilation[axis] ? shape->dilation[axis] : 1;
    int64_t room = shape->size[axis] + 2 * shape->padding[axis] - dilation * (shape->kernel[axis] - 1) - 1;
    return shape->outputs[axis] ? shape->outputs[axis] : room < 0 ? 0 : room / stride + 1;
}

/* Checks the tensors and returns the shape with the defaults in place of zeros. */
static cs_patches check_patches(cs_tensor columns, cs_tensor image, cs_patches shape)
{
    NEED(shape.channels > 0, "shape.channels is %lld, and a number above 0 is needed", (long long)shape.channels);
    for (int axis = 0; axis < 2; axis++) {
        NEED(shape.size[axis] > 0 && shape.kernel[axis] > 0 && shape.stride[axis] >= 0 && shape.padding[axis] >= 0 &&
                 shape.dilation[axis] >= 0 && shape.outputs[axis] >= 0,
             "shape.size[%d] and shape.kernel[%d] must be above 0, other members not negative", axis, axis);
        shape.outputs[axis] = cs_patches_outputs(&shape, axis);
        NEED(shape.outputs[axis] > 0, "the kernel is larger than the image on axis %d", axis);
        shape.stride[axis] = shape.stride[axis] ? shape.stride[axis] : 1;
        shape.dilation[axis] = shape.dilation[axis] ? shape.dilation[axis] : 1;
    }
    int64_t pixels = shape.size[0] * shape.size[1] * shape.channels, samples = cs_count(image) / pixels;
    NEED_NUMBERS(image);
    NEED_COUNT(image, samples * pixels);
    NEED_TYPE(columns, image.dtype);
    NEED_MATRIX(columns, samples * shape.outputs[0] * shape.outputs[1],
                shape.kernel[0] * shape.kernel[1] * shape.channels);
    return shape;
}

void cs_op_patches(cs_stream *stream, cs_tensor columns, cs_tensor image, cs_patches shape)
{
    NEED_STREAM(stream);
    shape = check_patches(columns, image, shape);
    RUN(stream, patches, columns, image, &shape);
}

void cs_op_patches_grad(cs_stream *stream, cs_tensor dimage, cs_tensor dcolumns, cs_patches shape)
{
    NEED_STREAM(stream);
    shape = check_patches(dcolumns, dimage, shape);
    RUN(stream, patches_grad, dimage, dcolumns, &shape);
}
