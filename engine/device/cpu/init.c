/* init.c - first values from (key, element). */
#include "base/rng.h"
#include "device/cpu/cpu.h"

enum { LEAST = 4096 };

typedef struct {
    float   *out;
    cs_init  init;
    uint64_t key;
    int64_t  from;
} init_job;

static float value_at(const init_job *all, uint64_t element)
{
    switch (all->init.how) {
    case CS_ONES:    return 1;
    case CS_NORMAL:  return all->init.std * cs_rng_normal(all->key, element);
    case CS_UNIFORM: return all->init.std * (float)(2 * cs_rng_uniform(all->key, element) - 1);
    default:         return 0;
    }
}

static void init_part(void *argument, cs_range range, int part)
{
    (void)part;
    const init_job *all = argument;
    for (int64_t i = range.from; i < range.to; i++)
        all->out[i] = value_at(all, (uint64_t)(all->from + i));
}

void cs_cpu_init(cs_device *device, float *out, cs_init init, uint64_t key, int64_t from, int64_t count)
{
    cs_cpu_walk(device, count, LEAST, init_part, &(init_job){ out, init, key, from });
}
