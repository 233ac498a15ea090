/* ops_losses.c - the operations of cspeed/ops.h that compute losses. As in ops.c, shapes and types are checked here. */
#include "device/run.h"

/* Checks the arguments of the operations on logits, of which the first `classes` columns count. */
static void check_logits(cs_tensor logits, cs_tensor targets, int64_t classes)
{
    CE_ASSERT(is_compute(logits) && is_vector(targets, CS_I32, cs_rows(logits)));
    CE_ASSERT(classes >= 0 && classes <= cs_columns(logits));
}

static void check_loss(cs_tensor loss, cs_tensor dloss, cs_tensor logits)
{
    CE_ASSERT(is_vector(loss, CS_F32, cs_rows(logits)));
    CE_ASSERT(!dloss.data || is_vector(dloss, CS_F32, cs_rows(logits)));
}

void cs_op_cross_entropy(cs_stream *stream, cs_tensor loss, cs_tensor logits, cs_tensor targets, int64_t classes,
                         cs_tensor dloss)
{
    check_logits(logits, targets, classes);
    check_loss(loss, dloss, logits);
    CE_ASSERT(classes > 0);
    RUN(stream, cross_entropy, loss, logits, targets, classes, dloss);
}

void cs_op_hits(cs_stream *stream, cs_tensor hits, cs_tensor logits, cs_tensor targets, int64_t classes)
{
    check_logits(logits, targets, classes);
    CE_ASSERT(classes > 0 && is_vector(hits, CS_F32, cs_rows(logits)));
    RUN(stream, hits, hits, logits, targets, classes);
}

/* Returns true if x has the facts of `rows` rows, and the sums of logits if `smoothed` is true. */
static bool is_facts(cs_tensor x, int64_t rows, bool smoothed)
{
    return is_f32(x) && cs_rows(x) == rows &&
           (cs_columns(x) == CS_ENTROPY_FACTS_SMOOTHED || (!smoothed && cs_columns(x) == CS_ENTROPY_FACTS));
}

void cs_op_entropy_facts(cs_stream *stream, cs_tensor facts, cs_tensor logits, cs_tensor targets, int64_t first,
                         int64_t classes)
{
    check_logits(logits, targets, classes);
    CE_ASSERT(first >= 0 && is_facts(facts, cs_rows(logits), false));
    RUN(stream, entropy_facts, facts, logits, targets, first, classes);
}

void cs_op_entropy_finish(cs_stream *stream, cs_tensor loss, cs_tensor hits, cs_tensor logits, cs_tensor targets,
                          int64_t first, int64_t classes, cs_tensor dloss, cs_tensor facts, cs_entropy_terms terms)
{
    int64_t rows = cs_rows(logits);
    check_logits(logits, targets, classes);
    check_loss(loss, dloss, logits);
    CE_ASSERT(first >= 0 && (!hits.data || is_vector(hits, CS_F32, rows)));
    CE_ASSERT(is_facts(facts, rows ? rows * (cs_rows(facts) / rows) : 0, terms.smoothing > 0));
    CE_ASSERT(terms.smoothing == 0 || terms.classes > 0);
    RUN(stream, entropy_finish, loss, hits, logits, targets, first, classes, dloss, facts, terms);
}

void cs_op_squared_error(cs_stream *stream, cs_tensor loss, cs_tensor y, cs_tensor target)
{
    CE_ASSERT(is_f32(target) && is_shaped(target, y) && is_vector(loss, CS_F32, cs_rows(y)));
    RUN(stream, squared_error, loss, y, target);
}

void cs_op_squared_error_grad(cs_stream *stream, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target)
{
    CE_ASSERT(is_f32(target) && is_shaped(target, y) && is_like(y, dy) && is_vector(dloss, CS_F32, cs_rows(y)));
    RUN(stream, squared_error_grad, dy, dloss, y, target);
}

void cs_op_absolute_error(cs_stream *stream, cs_tensor loss, cs_tensor y, cs_tensor target)
{
    CE_ASSERT(is_f32(target) && is_shaped(target, y) && is_vector(loss, CS_F32, cs_rows(y)));
    RUN(stream, absolute_error, loss, y, target);
}

void cs_op_absolute_error_grad(cs_stream *stream, cs_tensor dy, cs_tensor dloss, cs_tensor y, cs_tensor target)
{
    CE_ASSERT(is_f32(target) && is_shaped(target, y) && is_like(y, dy) && is_vector(dloss, CS_F32, cs_rows(y)));
    RUN(stream, absolute_error_grad, dy, dloss, y, target);
}
