/* upload.c - a micro-batch's way to a far device, and an output's way back.
 *
 * The batch is copied together into one of two host buffers that the device reads beside its computing, and from there
 * in the compute stream: the caller's own memory is free again at once, and the device's is written after the last
 * micro-batch has used it. On a device that is not far the batch is taken where it lies. */
#include "engine.h"
#include "base/must.h"
#include "base/range.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 2, ALIGNMENT = 64, TENSORS = 4 };

struct cs_feed {
    cs_device *device;
    char *host[SLOTS], *far;
    cs_event free_after[SLOTS];
    size_t bytes;
    int turn;
    void *output; /* the last prediction, on the host */
    size_t output_bytes;
};

static size_t room_of(cs_tensor tensor)
{
    return (size_t)cs_round_up(cs_count(tensor) * (int64_t)cs_dtype_bytes(tensor.dtype), ALIGNMENT);
}

cs_status cs_feed_open(cs_engine *engine)
{
    const cs_model *model = engine->model;
    int64_t inputs = model->inputs ? model->inputs : engine->length;
    int64_t widest = model->targets > inputs ? model->targets : inputs;
    size_t each = (size_t)cs_round_up(engine->settings->micro_batch * widest * 8, ALIGNMENT);
    if (!cs_device_has_own_memory(engine->device))
        return CS_OK;
    cs_feed *feed = engine->feed = calloc(1, sizeof *feed);
    if (!feed)
        return cs_fail(CS_NO_MEMORY, "out of memory for the way of batches to the device");
    feed->device = engine->device;
    feed->bytes = TENSORS * each;
    feed->far = cs_device_alloc(engine->device, feed->bytes);
    for (int i = 0; i < SLOTS; i++)
        feed->host[i] = cs_device_alloc_pinned(engine->device, feed->bytes);
    return CS_OK;
}

void cs_feed_close(cs_feed *feed)
{
    if (!feed)
        return;
    for (int i = 0; i < SLOTS; i++)
        cs_device_free(feed->device, feed->host[i]);
    cs_device_free(feed->device, feed->far);
    free(feed->output);
    free(feed);
}

/* Puts the tensor at *at of the slot; it is now the device's. */
static void put(cs_feed *feed, cs_tensor *tensor, size_t *at)
{
    if (!tensor->data)
        return;
    CS_ASSERT(*at + room_of(*tensor) <= feed->bytes);
    memcpy(feed->host[feed->turn] + *at, tensor->data, (size_t)cs_count(*tensor) * cs_dtype_bytes(tensor->dtype));
    tensor->data = feed->far + *at;
    *at += room_of(*tensor);
}

cs_descent cs_feed_take(cs_engine *engine, const cs_descent *descent)
{
    cs_feed *feed = engine->feed;
    cs_descent near = *descent;
    cs_stream *stream = cs_device_stream(engine->device, CS_COMPUTE);
    cs_tensor keys = cs_vector(engine->keys, CS_I64, descent->inputs.shape[0]);
    size_t at = 0;
    near.keys = engine->keys;
    if (!feed)
        return near;
    feed->turn = (feed->turn + 1) % SLOTS;
    cs_event_wait(feed->free_after[feed->turn]);
    put(feed, &near.inputs, &at);
    put(feed, &near.targets, &at);
    put(feed, &near.starts, &at);
    put(feed, &keys, &at);
    near.keys = keys.data;
    cs_stream_copy(stream, feed->far, feed->host[feed->turn], at);
    feed->free_after[feed->turn] = cs_stream_record(stream);
    return near;
}

cs_status cs_feed_return(cs_engine *engine, cs_tensor *output)
{
    cs_feed *feed = engine->feed;
    cs_stream *stream = cs_device_stream(engine->device, CS_COMPUTE);
    if (feed && room_of(*output) > feed->output_bytes) {
        free(feed->output);
        feed->output_bytes = room_of(*output);
        feed->output = malloc(feed->output_bytes);
        if (!feed->output)
            return cs_fail(CS_NO_MEMORY, "out of memory for an output of %zu bytes", room_of(*output));
    }
    if (feed) {
        cs_stream_copy(stream, feed->output, output->data, (size_t)cs_count(*output) * cs_dtype_bytes(output->dtype));
        output->data = feed->output;
    }
    cs_stream_sync(stream);
    return CS_OK;
}
