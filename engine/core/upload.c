/* upload.c - copies a micro-batch to a device with its own memory (GPU), and an output back to the host.
 *
 * The batch's tensors are packed into one of two pinned host buffers, then copied to the device in the compute stream.
 * So the caller may reuse its memory at once, and device memory is overwritten only after the previous micro-batch has
 * used it. A CPU reads the batch in the caller's memory, without a copy. */
#include "core/engine.h"
#include "base/trace.h"
#include "base/must.h"
#include "base/range.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2, ALIGNMENT = 64, TENSORS = 5 };

struct ce_upload {
    cs_device *device;
    char *host[SLOTS], *device_memory;
    ce_event free_after[SLOTS];
    size_t bytes;
    int turn;     /* index of the host buffer that was used last */
    void *output; /* last prediction, in host memory */
    size_t output_bytes;
};

static size_t padded_bytes(cs_tensor tensor)
{
    return (size_t)ce_round_up(cs_count(tensor) * (int64_t)cs_dtype_bytes(tensor.dtype), ALIGNMENT);
}

cs_status ce_upload_open(cs_engine *engine)
{
    const cs_model *model = engine->model;
    int64_t inputs = model->inputs ? model->inputs : engine->length;
    int64_t widest = model->targets > inputs ? model->targets : inputs;
    size_t each = (size_t)ce_round_up(engine->sequences * widest * 8, ALIGNMENT);
    if (!ce_device_has_own_memory(engine->device))
        return CS_OK;
    ce_upload *upload = engine->upload = calloc(1, sizeof *upload);
    if (!upload)
        return ce_fail(CS_NO_MEMORY, "out of memory for the upload of batches to the device");
    upload->device = engine->device;
    upload->bytes = TENSORS * each;
    upload->device_memory = ce_device_alloc(engine->device, upload->bytes);
    for (int i = 0; i < SLOTS; i++)
        upload->host[i] = ce_device_alloc_pinned(engine->device, upload->bytes);
    return CS_OK;
}

void ce_upload_close(ce_upload *upload)
{
    if (!upload)
        return;
    for (int i = 0; i < SLOTS; i++)
        ce_device_free(upload->device, upload->host[i]);
    ce_device_free(upload->device, upload->device_memory);
    free(upload->output);
    free(upload);
}

/* Copies a tensor to the offset *at of the host buffer, and sets the tensor's address to that of its copy on the
 * device. */
static void put(ce_upload *upload, cs_tensor *tensor, size_t *at)
{
    if (!tensor->data)
        return;
    CE_ASSERT(*at + padded_bytes(*tensor) <= upload->bytes);
    memcpy(upload->host[upload->turn] + *at, tensor->data, (size_t)cs_count(*tensor) * cs_dtype_bytes(tensor->dtype));
    tensor->data = upload->device_memory + *at;
    *at += padded_bytes(*tensor);
}

ce_forward_input ce_upload_batch(cs_engine *engine, const ce_forward_input *input)
{
    ce_upload *upload = engine->upload;
    ce_forward_input on_device = *input;
    cs_stream *stream = ce_device_stream(engine->device, CE_COMPUTE);
    /* Dropout has one key for each sample of a micro-batch. A larger batch consists of texts to be continued, without
     * dropout. */
    int64_t samples = input->inputs.shape[0], micro = engine->sequences;
    cs_tensor keys = cs_vector(engine->keys, CS_I64, samples < micro ? samples : micro);
    size_t at = 0;
    on_device.keys = engine->keys;
    if (!upload)
        return on_device;
    double traced = ce_trace_begin();
    upload->turn = (upload->turn + 1) % SLOTS;
    ce_event_wait(upload->free_after[upload->turn]);
    put(upload, &on_device.inputs, &at);
    put(upload, &on_device.targets, &at);
    put(upload, &on_device.starts, &at);
    put(upload, &on_device.references, &at);
    put(upload, &keys, &at);
    on_device.keys = keys.data;
    ce_stream_copy(stream, upload->device_memory, upload->host[upload->turn], at);
    upload->free_after[upload->turn] = ce_stream_record(stream);
    ce_trace_end(CE_TRACE_COPY, "copy batch to the device", "", traced);
    return on_device;
}

cs_status ce_upload_fetch_output(cs_engine *engine, cs_tensor *output)
{
    ce_upload *upload = engine->upload;
    cs_stream *stream = ce_device_stream(engine->device, CE_COMPUTE);
    if (upload && padded_bytes(*output) > upload->output_bytes) {
        free(upload->output);
        upload->output_bytes = padded_bytes(*output);
        upload->output = malloc(upload->output_bytes);
        if (!upload->output)
            return ce_fail(CS_NO_MEMORY, "out of memory for an output of %zu bytes", padded_bytes(*output));
    }
    if (upload) {
        ce_stream_copy(stream, upload->output, output->data, (size_t)cs_count(*output) * cs_dtype_bytes(output->dtype));
        output->data = upload->output;
    }
    ce_stream_sync(stream);
    return CS_OK;
}
