/* narrow.c - conversion of flat state between fp32 and 16-bit types, in place if both are the same memory. */
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

/* Converts in place. If the elements change their size, a chunk's new position overlaps another chunk, which must
 * have been read before: so one thread walks in one direction. */
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
