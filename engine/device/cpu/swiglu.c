/* swiglu.c - SwiGLU: silu(gate) * up. The left half of a row of x is the gate, the right half is `up`. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

enum { MIN_ROWS = 4 };

typedef struct {
    cs_tensor y, x, dy; /* y: the output in forward, and dx in backward */
    int64_t columns;    /* number of columns of the gate */
} swiglu_job;

/* Returns e^-x, but at most e^88. The result is finite, so the product of 0 and the result is 0 and not NaN. */
static inline float decay_of(float x)
{
    return ce_elements_exp_one(x < -88 ? 88 : -x);
}

static void swiglu_chunk(float *restrict y, const float *restrict gate, const float *restrict up, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        y[i] = gate[i] / (1 + decay_of(gate[i])) * up[i];
}

/* Computes the gradients. With the logistic function s, silu = x s, and its derivative is s + x s (1 - s), where 1 - s
 * is e^-x s. */
static void swiglu_grad_chunk(float *restrict dgate, float *restrict dup, const float *restrict dy,
                              const float *restrict gate, const float *restrict up, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        float e = decay_of(gate[i]);
        float s = 1 / (1 + e);
        dup[i] = dy[i] * gate[i] * s;
        dgate[i] = dy[i] * up[i] * (s + gate[i] * (e * s * s));
    }
}

static void swiglu_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const swiglu_job *all = argument;
    float wide_gate[CE_CHUNK], wide_up[CE_CHUNK], out[CE_CHUNK];
    for (int64_t row = range.from; row < range.to; row++) {
        for (int64_t at = 0; at < all->columns; at += CE_CHUNK) {
            int64_t count = all->columns - at < CE_CHUNK ? all->columns - at : CE_CHUNK;
            int64_t place = 2 * row * all->columns + at;
            const float *gate = ce_elements_read(all->x, place, count, wide_gate);
            swiglu_chunk(out, gate, ce_elements_read(all->x, place + all->columns, count, wide_up), count);
            ce_elements_write(all->y, row * all->columns + at, count, out);
        }
    }
}

static void swiglu_grad_rows(void *argument, ce_range range, int part)
{
    (void)part;
    const swiglu_job *all = argument;
    float wide_gate[CE_CHUNK], wide_up[CE_CHUNK], wide_dy[CE_CHUNK], dgate[CE_CHUNK], dup[CE_CHUNK];
    for (int64_t row = range.from; row < range.to; row++) {
        for (int64_t at = 0; at < all->columns; at += CE_CHUNK) {
            int64_t count = all->columns - at < CE_CHUNK ? all->columns - at : CE_CHUNK;
            int64_t place = 2 * row * all->columns + at;
            const float *gate = ce_elements_read(all->x, place, count, wide_gate);
            const float *up = ce_elements_read(all->x, place + all->columns, count, wide_up);
            const float *dy = ce_elements_read(all->dy, row * all->columns + at, count, wide_dy);
            swiglu_grad_chunk(dgate, dup, dy, gate, up, count);
            ce_elements_write(all->y, place, count, dgate);
            ce_elements_write(all->y, place + all->columns, count, dup);
        }
    }
}

void ce_cpu_swiglu(cs_device *device, cs_tensor y, cs_tensor x)
{
    ce_cpu_walk(device, cs_rows(y), MIN_ROWS, swiglu_rows, &(swiglu_job){ .y = y, .x = x, .columns = cs_columns(y) });
}

void ce_cpu_swiglu_grad(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x)
{
    ce_cpu_walk(device, cs_rows(dy), MIN_ROWS, swiglu_grad_rows,
                &(swiglu_job){ .y = dx, .x = x, .dy = dy, .columns = cs_columns(dy) });
}
