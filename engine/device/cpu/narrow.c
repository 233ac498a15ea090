/* narrow.c - flat state in 16 bits: converted where it lies, and updated a chunk at a time in fp32. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

enum { LEAST = 16384 };

/* ---- conversion ---- */

typedef struct {
    cs_tensor to, from;
    float factor;
} convert_job;

static void convert_chunk(const convert_job *all, int64_t at, int64_t count)
{
    float wide[CS_CHUNK];
    cs_elements_widen(wide, cs_elements_at(all->from, at), all->from.dtype, count);
    for (int64_t i = 0; i < count; i++)
        wide[i] *= all->factor;
    cs_elements_write(all->to, at, count, wide);
}

static void convert_part(void *argument, cs_range range, int part)
{
    (void)part;
    for (int64_t at = range.from; at < range.to; at += CS_CHUNK)
        convert_chunk(argument, at, range.to - at < CS_CHUNK ? range.to - at : CS_CHUNK);
}

/* Where the two share memory and elements change their size, a chunk's place is another's that must have been read: the
 * walk goes one way, and by itself. */
static void convert_in_place(const convert_job *all, int64_t count)
{
    int64_t chunks = (count + CS_CHUNK - 1) / CS_CHUNK;
    bool wider = cs_dtype_bytes(all->to.dtype) > cs_dtype_bytes(all->from.dtype);
    for (int64_t i = 0; i < chunks; i++) {
        int64_t at = (wider ? chunks - 1 - i : i) * CS_CHUNK;
        convert_chunk(all, at, count - at < CS_CHUNK ? count - at : CS_CHUNK);
    }
}

void cs_cpu_convert(cs_stream *stream, cs_tensor to, cs_tensor from, float factor)
{
    convert_job all = { to, from, factor };
    if (to.data == from.data && cs_dtype_bytes(to.dtype) != cs_dtype_bytes(from.dtype))
        convert_in_place(&all, cs_count(to));
    else
        cs_cpu_walk(stream->device, cs_count(to), LEAST, convert_part, &all);
}

/* ---- update ---- */

typedef struct {
    cs_stream *stream;
    const cs_optimizer *optimizer;
    const cs_state_narrow *state;
    cs_hyper hyper;
} update_job;

static void read_chunk(float *to, cs_tensor from, int64_t at, int64_t count)
{
    cs_elements_widen(to, cs_elements_at(from, at), from.dtype, count);
}

static void update_chunk(const update_job *all, int64_t at, int64_t count)
{
    const cs_state_narrow *state = all->state;
    float master[CS_CHUNK], gradient[CS_CHUNK], slots[CS_OPTIM_SLOTS][CS_CHUNK];
    cs_state_span span = { .master = master, .gradient = gradient, .count = count, .gate = state->gate };
    read_chunk(master, state->master, at, count);
    read_chunk(gradient, state->gradient, at, count);
    for (int i = 0; i < all->optimizer->slots; i++) {
        read_chunk(slots[i], state->slots[i], at, count);
        span.slots[i] = slots[i];
    }
    cs_cpu_update(all->stream, all->optimizer, all->hyper, &span);
    cs_elements_write(state->master, at, count, master);
    for (int i = 0; i < all->optimizer->slots; i++)
        cs_elements_write(state->slots[i], at, count, slots[i]);
    if (state->publish.data)
        cs_elements_write(state->publish, at, count, master);
}

static void update_part(void *argument, cs_range range, int part)
{
    (void)part;
    for (int64_t at = range.from; at < range.to; at += CS_CHUNK)
        update_chunk(argument, at, range.to - at < CS_CHUNK ? range.to - at : CS_CHUNK);
}

void cs_cpu_update_narrow(cs_stream *stream, const cs_optimizer *optimizer, cs_hyper hyper,
                          const cs_state_narrow *state)
{
    if (!state->gate || state->gate->open)
        cs_cpu_walk(stream->device, cs_count(state->master), LEAST, update_part,
                    &(update_job){ stream, optimizer, state, hyper });
}
