/* sinks.c - attention sinks: one more score of each head's softmax, whose value vector is 0. It is applied to the
 * results of attention, so that attention itself need not know it. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

#include <math.h>

enum { MIN_ROWS = 16 };

typedef struct {
    cs_tensor y, dy, lse, sinks, dsinks;
    int64_t heads, length, width;
} sink_job;

static sink_job job_of(cs_tensor y, cs_tensor lse, cs_tensor sinks)
{
    int64_t heads = cs_count(sinks);
    return (sink_job){
        .y = y, .lse = lse, .sinks = sinks, .heads = heads, .length = cs_columns(lse), .width = cs_columns(y) / heads
    };
}

/* Returns the place of the head's lse of a row, which is position row % length of sample row / length. */
static float *lse_at(const sink_job *all, int64_t row, int64_t head)
{
    return (float *)all->lse.data + (row / all->length * all->heads + head) * all->length + row % all->length;
}

static void sink_rows(void *argument, ce_range rows, int part)
{
    (void)part;
    const sink_job *all = argument;
    float wide[CE_CHUNK], out[CE_CHUNK], one;
    for (int64_t row = rows.from; row < rows.to; row++)
        for (int64_t head = 0; head < all->heads; head++) {
            float *lse = lse_at(all, row, head), sink = *ce_elements_read(all->sinks, head, 1, &one);
            float rest = expf(-fabsf(*lse - sink)), factor = (*lse < sink ? rest : 1) / (1 + rest);
            int64_t at = (row * all->heads + head) * all->width;
            *lse = fmaxf(*lse, sink) + log1pf(rest);
            for (int64_t d = 0, count; d < all->width; d += count) {
                count = ce_elements_chunk(d, all->width);
                ce_elements_scale(out, ce_elements_read(all->y, at + d, count, wide), factor, count);
                ce_elements_write(all->y, at + d, count, out);
            }
        }
}

void ce_cpu_sinks(cs_device *device, cs_tensor y, cs_tensor lse, cs_tensor sinks)
{
    sink_job all = job_of(y, lse, sinks);
    ce_cpu_walk(device, cs_rows(y), MIN_ROWS, sink_rows, &all);
}

static float dot_of(const sink_job *all, int64_t at)
{
    float wide_y[CE_CHUNK], wide_dy[CE_CHUNK], sum = 0;
    for (int64_t d = 0, count; d < all->width; d += count) {
        count = ce_elements_chunk(d, all->width);
        sum += ce_elements_dot(ce_elements_read(all->y, at + d, count, wide_y),
                               ce_elements_read(all->dy, at + d, count, wide_dy), count);
    }
    return sum;
}

/* One thread adds all rows of a head, so that the order of the sum does not depend on the number of threads. */
static void sink_grad_heads(void *argument, ce_range heads, int part)
{
    (void)part;
    const sink_job *all = argument;
    for (int64_t head = heads.from; head < heads.to; head++) {
        float one, sink = *ce_elements_read(all->sinks, head, 1, &one), *to = (float *)all->dsinks.data + head;
        double sum = 0;
        for (int64_t row = 0; row < cs_rows(all->y); row++)
            sum -= (double)(expf(sink - *lse_at(all, row, head)) * dot_of(all, (row * all->heads + head) * all->width));
        *to = (float)sum + (all->dsinks.overwrite ? 0 : *to);
    }
}

void ce_cpu_sinks_grad(cs_device *device, cs_tensor dsinks, cs_tensor dy, cs_tensor y, cs_tensor lse, cs_tensor sinks)
{
    sink_job all = job_of(y, lse, sinks);
    all.dy = dy;
    all.dsinks = dsinks;
    ce_cpu_walk(device, all.heads, 1, sink_grad_heads, &all);
}
