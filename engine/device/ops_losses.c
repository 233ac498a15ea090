/* ops_losses.c - the operations of cspeed/ops.h that compute losses. As in ops.c, shapes and types are checked here. */
#include "device/run.h"

/* Checks the arguments of the operations on logits, of which the first `classes` columns count. */
static void check_logits(cs_tensor logits, cs_tensor targets, int64_t classes)
{
    NEED_NUMBERS(logits);
    NEED_VECTOR(targets, CS_I32, cs_rows(logits));
    NEED(classes >= 0 && classes <= cs_columns(logits), "classes is %lld, and logits has %lld columns",
         (long long)classes, (long long)cs_columns(logits));
}

static void check_loss(cs_tensor loss, cs_tensor dloss, cs_tensor logits)
{
    NEED_VECTOR(loss, CS_F32, cs_rows(logits));
    if (dloss.data)
        NEED_VECTOR(dloss, CS_F32, cs_rows(logits));
}

void cs_op_cross_entropy(cs_stream *stream, cs_tensor loss, cs_tensor logits, cs_tensor targets, int64_t classes,
                         cs_tensor dloss)
{
    NEED_STREAM(stream);
    check_logits(logits, targets, classes);
    check_loss(loss, dloss, logits);
    NEED(classes > 0, "classes is 0");
    RUN(stream, cross_entropy, loss, logits, targets, classes, dloss);
}

void cs_op_hits(cs_stream *stream, cs_tensor hits, cs_tensor logits, cs_tensor targets, int64_t classes)
{
    NEED_STREAM(stream);
    check_logits(logits, targets, classes);
    NEED(classes > 0, "classes is 0");
    NEED_VECTOR(hits, CS_F32, cs_rows(logits));
    RUN(stream, hits, hits, logits, targets, classes);
}

/* Checks that `facts` has the facts of one rank for each of `rows` rows, and the sums of logits if `smoothed` is true. */
static void check_facts(cs_tensor facts, int64_t rows, bool smoothed, int64_t first)
{
    NEED_TYPE(facts, CS_F32);
    NEED_ROWS(facts, rows);
    if (smoothed || cs_columns(facts) != CS_ENTROPY_FACTS)
        NEED_COLUMNS(facts, CS_ENTROPY_FACTS_SMOOTHED);
    NEED(first >= 0, "first is %lld, and at least 0 is needed", (long long)first);
}

void cs_op_entropy_facts(cs_stream *stream, cs_tensor facts, cs_tensor logits, cs_tensor targets, int64_t first,
                         int64_t classes)
{
    NEED_STREAM(stream);
    check_logits(logits, targets, classes);
    check_facts(facts, cs_rows(logits), false, first);
    RUN(stream, entropy_facts, facts, logits, targets, first, classes);
}

void cs_op_entropy_finish(cs_stream *stream, cs_tensor loss, cs_tensor hits, cs_tensor logits, cs_tensor targets,
                          int64_t first, int64_t classes, cs_tensor dloss, cs_tensor facts, cs_entropy_terms terms)
{
    NEED_STREAM(stream);
    int64_t rows = cs_rows(logits);
    check_logits(logits, targets, classes);
    check_loss(loss, dloss, logits);
    if (hits.data)
        NEED_VECTOR(hits, CS_F32, rows);
    check_facts(facts, rows ? rows * (cs_rows(facts) / rows) : 0, terms.smoothing > 0, first);
    NEED(terms.smoothing == 0 || terms.classes > 0, "terms.classes is %lld", (long long)terms.classes);
    RUN(stream, entropy_finish, loss, hits, logits, targets, first, classes, dloss, facts, terms);
}

static void run_error(cs_stream *stream, cs_tensor loss, cs_tensor y, cs_tensor target, ce_error kind)
{
    NEED_NUMBERS(y);
    NEED_TYPE(target, CS_F32);
    NEED_MATRIX(target, cs_rows(y), cs_columns(y));
    NEED_VECTOR(loss, CS_F32, cs_rows(y));
    RUN(stream, error, loss, y, target, kind);
}

static void run_error_grad(cs_stream *stream, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target,
                           ce_error kind)
{
    NEED_NUMBERS(y);
    NEED_TYPE(target, CS_F32);
    NEED_MATRIX(target, cs_rows(y), cs_columns(y));
    NEED_LIKE(dy, y);
    NEED_VECTOR(dloss, CS_F32, cs_rows(y));
    RUN(stream, error_grad, dy, dloss, y, target, kind);
}

void cs_op_squared_error(cs_stream *stream, cs_tensor loss, cs_tensor y, cs_tensor target)
{
    NEED_STREAM(stream);
    run_error(stream, loss, y, target, CE_SQUARED);
}

void cs_op_squared_error_grad(cs_stream *stream, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target)
{
    NEED_STREAM(stream);
    run_error_grad(stream, dy, dloss, y, target, CE_SQUARED);
}

void cs_op_absolute_error(cs_stream *stream, cs_tensor loss, cs_tensor y, cs_tensor target)
{
    NEED_STREAM(stream);
    run_error(stream, loss, y, target, CE_ABSOLUTE);
}

void cs_op_absolute_error_grad(cs_stream *stream, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target)
{
    NEED_STREAM(stream);
    run_error_grad(stream, dy, dloss, y, target, CE_ABSOLUTE);
}

void cs_op_binary_entropy(cs_stream *stream, cs_tensor loss, cs_tensor y, cs_tensor target)
{
    NEED_STREAM(stream);
    run_error(stream, loss, y, target, CE_LOGISTIC);
}

void cs_op_binary_entropy_grad(cs_stream *stream, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target)
{
    NEED_STREAM(stream);
    run_error_grad(stream, dy, dloss, y, target, CE_LOGISTIC);
}

void cs_op_divergence(cs_stream *stream, cs_tensor loss, cs_tensor y, cs_tensor target)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(y);
    NEED_SHAPE_OF(target, y);
    NEED_VECTOR(loss, CS_F32, cs_rows(y));
    RUN(stream, divergence, loss, y, target);
}

void cs_op_divergence_grad(cs_stream *stream, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target)
{
    NEED_STREAM(stream);
    NEED_NUMBERS(y);
    NEED_SHAPE_OF(target, y);
    NEED_LIKE(dy, y);
    NEED_VECTOR(dloss, CS_F32, cs_rows(y));
    RUN(stream, divergence_grad, dy, dloss, y, target);
}
