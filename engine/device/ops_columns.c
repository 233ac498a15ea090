/* ops_columns.c - the operations of cspeed/ops.h on some columns of a matrix; as in ops.c, shapes and types are checked
 * here. */
#include "base/must.h"
#include "device/table.h"

static void run_columns(cs_stream *stream, const ce_columns *job)
{
    CS_ASSERT(job->narrow.data && job->narrow.dtype <= CS_F16 && job->wide.data && job->wide.dtype <= CS_F16);
    CS_ASSERT(cs_rows(job->narrow) == cs_rows(job->wide));
    CS_ASSERT(job->first >= 0 && job->first + cs_columns(job->narrow) <= cs_columns(job->wide));
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
