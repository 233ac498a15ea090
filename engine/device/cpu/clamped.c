/* clamped.c - the clamped SwiGLU of gpt-oss, in whose rows gate and up alternate. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

typedef struct {
    cs_tensor y, x, dy;
    cs_clamp clamp;
} clamp_job;

/* Reads gate[i] = x[2i] and up[i] = x[2i + 1]. */
static void read_pairs(float *restrict gate, float *restrict up, cs_tensor x, int64_t at, int64_t count)
{
    float wide[2 * CE_CHUNK];
    const float *pairs = ce_elements_read(x, 2 * at, 2 * count, wide);
    for (int64_t i = 0; i < count; i++) {
        gate[i] = pairs[2 * i];
        up[i] = pairs[2 * i + 1];
    }
}

/* A comparison with NaN is false, so that NaN stays NaN. */
static inline float limited(float x, float limit)
{
    return x > limit ? limit : x < -limit ? -limit : x;
}

static inline float logistic(float x)
{
    return 1 / (1 + ce_elements_exp_one(x < -88 ? 88 : -x));
}

static void clamped_chunk(const void *argument, int64_t at, int64_t count)
{
    const clamp_job *all = argument;
    float gate[CE_CHUNK], up[CE_CHUNK], limit = all->clamp.limit;
    read_pairs(gate, up, all->x, at, count);
    for (int64_t i = 0; i < count; i++) {
        float g = gate[i] > limit ? limit : gate[i];
        gate[i] = (limited(up[i], limit) + 1) * (g * logistic(all->clamp.alpha * g));
    }
    ce_elements_write(all->y, at, count, gate);
}

/* With s = logistic(alpha g), the derivative of g s is s + alpha g s (1 - s). Beyond a limit it is 0. */
static void clamped_grad_chunk(const void *argument, int64_t at, int64_t count)
{
    const clamp_job *all = argument;
    float gate[CE_CHUNK], up[CE_CHUNK], wide[CE_CHUNK], pairs[2 * CE_CHUNK];
    float limit = all->clamp.limit, alpha = all->clamp.alpha;
    const float *dy = ce_elements_read(all->dy, at, count, wide);
    read_pairs(gate, up, all->x, at, count);
    for (int64_t i = 0; i < count; i++) {
        float g = gate[i] > limit ? limit : gate[i], s = logistic(alpha * g);
        float dgate = dy[i] * (limited(up[i], limit) + 1) * (s + alpha * g * s * (1 - s));
        pairs[2 * i] = gate[i] > limit ? 0 : dgate;
        pairs[2 * i + 1] = up[i] > limit || up[i] < -limit ? 0 : dy[i] * g * s;
    }
    ce_elements_write(all->y, 2 * at, 2 * count, pairs);
}

void ce_cpu_clamped(cs_device *device, cs_tensor y, cs_tensor x, cs_clamp clamp)
{
    ce_cpu_walk_chunks(device, cs_count(y), CE_CHUNK, clamped_chunk, &(clamp_job){ .y = y, .x = x, .clamp = clamp });
}

void ce_cpu_clamped_grad(cs_device *device, cs_tensor dx, cs_tensor dy, cs_tensor x, cs_clamp clamp)
{
    ce_cpu_walk_chunks(device, cs_count(dy), CE_CHUNK, clamped_grad_chunk,
                       &(clamp_job){ .y = dx, .x = x, .dy = dy, .clamp = clamp });
}
