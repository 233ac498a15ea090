/* ops_columns.c - the operations of cspeed/ops.h on some columns of a matrix. As in ops.c, shapes and types are checked
 * here. */
#include "device/run.h"

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
