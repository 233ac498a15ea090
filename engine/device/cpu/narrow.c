/* narrow.c - conversion of flat state between float types, with multiplication by a factor. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

enum { MIN_ELEMENTS = 16384 };

typedef struct {
    cs_tensor to, from;
    float factor;
} convert_job;

static void convert_chunk(const void *argument, int64_t at, int64_t count)
{
    const convert_job *all = argument;
    float wide[CE_CHUNK];
    ce_elements_widen(wide, ce_elements_at(all->from, at), all->from.dtype, count);
    for (int64_t i = 0; i < count; i++)
        wide[i] *= all->factor;
    ce_elements_write(all->to, at, count, wide);
}

void ce_cpu_convert(cs_stream *stream, cs_tensor to, cs_tensor from, float factor)
{
    convert_job all = { to, from, factor };
    ce_cpu_walk_chunks(stream->device, cs_count(to), MIN_ELEMENTS, convert_chunk, &all);
}
