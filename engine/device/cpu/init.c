/* init.c - initial values of parameters. A value depends only on the parameter's random key and on the index of the
 * element. Normal values are computed four at a time: the Box-Muller transform makes four normal values of the words of
 * one Philox counter. */
#include "base/rng.h"
#include "device/cpu/cpu.h"

#include <math.h>

enum { MIN_ELEMENTS = 4096, TOGETHER = 4 };

typedef struct {
    float *out;
    cs_init init;
    uint64_t key;
    ce_state_places places;
} init_job;

/* Computes the normal values of the elements 4 * counter to 4 * counter + 3. */
static void draw_normals(float *four, uint64_t key, uint64_t counter)
{
    ce_rng_block block = ce_rng_philox(key, counter);
    for (int pair = 0; pair < 2; pair++) {
        double angle = 6.283185307179586 * ((double)block.word[2 * pair] * 0x1p-32), sine, cosine;
        double reach = sqrt(-2 * log(((double)block.word[2 * pair + 1] + 0.5) * 0x1p-32));
        sincos(angle, &sine, &cosine);
        four[2 * pair] = (float)(reach * cosine);
        four[2 * pair + 1] = (float)(reach * sine);
    }
}

/* Writes the elements [element, element + count) of the parameter to `out`. */
static void fill_normals(const init_job *all, float *out, int64_t element, int64_t count)
{
    for (int64_t i = 0; i < count;) {
        float four[TOGETHER];
        draw_normals(four, all->key, (uint64_t)((element + i) / TOGETHER));
        for (int64_t at = (element + i) % TOGETHER; at < TOGETHER && i < count; at++, i++)
            out[i] = all->init.std * four[at];
    }
}

static float value_at(const init_job *all, uint64_t element)
{
    switch (all->init.how) {
    case CS_ONES:
        return 1;
    case CS_UNIFORM:
        return all->init.std * (float)(2 * ce_rng_uniform(all->key, element) - 1);
    default:
        return 0;
    }
}

static void init_part(void *argument, ce_range range, int part)
{
    (void)part;
    const init_job *all = argument;
    ce_state_places places = all->places;
    for (int64_t i = range.from, count; i < range.to; i += count) {
        int64_t inside = i % places.run, element = places.from + i / places.run * places.stride + inside;
        count = places.run - inside < range.to - i ? places.run - inside : range.to - i;
        if (all->init.how == CS_NORMAL)
            fill_normals(all, all->out + i, element, count);
        else
            for (int64_t k = 0; k < count; k++)
                all->out[i + k] = value_at(all, (uint64_t)(element + k));
    }
}

void ce_cpu_init(cs_stream *stream, float *out, cs_init init, uint64_t key, ce_state_places places, int64_t count)
{
    places.run = places.run ? places.run : count;
    ce_cpu_walk(stream->device, count, MIN_ELEMENTS, init_part, &(init_job){ out, init, key, places });
}
