/* rope.c - the frequencies of rotary positions, theta^(-2i/D), and how they are scaled for longer contexts. */
#include "cspeed/layer.h"
#include "base/misuse.h"

#include <math.h>

#define TWO_PI 6.283185307179586

/* Llama 3: wavelengths shorter than original / high do not change. Wavelengths longer than original / low are
 * multiplied by the factor. Between these wavelengths the frequency is interpolated. */
static double scale_llama3(double frequency, const cs_rope_sizes *s)
{
    double wavelength = TWO_PI / frequency;
    if (wavelength > s->original / s->low)
        return frequency / s->factor;
    if (wavelength < s->original / s->high)
        return frequency;
    double smooth = (s->original / wavelength - s->low) / (s->high - s->low);
    return (1 - smooth) * frequency / s->factor + smooth * frequency;
}

/* Returns the index, not rounded, of the pair of elements that makes `turns` full rotations within the original
 * context. */
static double pair_of(double turns, const cs_rope_sizes *s)
{
    return (double)s->width * log(s->original / (turns * TWO_PI)) / (2 * log(s->theta));
}

/* YaRN (Peng et al. 2023): the frequencies of pairs with many rotations do not change. The frequencies of pairs with
 * few rotations are divided by the factor. For the pairs in between, the frequency is interpolated linearly. */
static double scale_yarn(double frequency, int64_t pair, const cs_rope_sizes *s)
{
    double from = pair_of(s->high, s), to = pair_of(s->low, s);
    if (s->truncate) {
        from = floor(from);
        to = ceil(to);
    }
    from = fmax(from, 0);
    to = fmin(to, (double)(s->width - 1));
    to = from == to ? to + 0.001 : to;
    double ramp = fmin(fmax(((double)pair - from) / (to - from), 0), 1);
    return frequency / s->factor * ramp + frequency * (1 - ramp);
}

static double scale(double frequency, int64_t pair, const cs_rope_sizes *s)
{
    switch (s->kind) {
    case CS_ROPE_LINEAR:
        return frequency / s->factor;
    case CS_ROPE_LLAMA3:
        return scale_llama3(frequency, s);
    case CS_ROPE_YARN:
        return scale_yarn(frequency, pair, s);
    default:
        return frequency;
    }
}

/* Returns the factor by which cosine and sine are multiplied. */
static double factor_of(const cs_rope_sizes *sizes)
{
    if (sizes->kind != CS_ROPE_YARN && sizes->kind != CS_ROPE_LONG)
        return 1;
    if (sizes->attention > 0)
        return sizes->attention;
    if (sizes->factor <= 1)
        return 1;
    return sizes->kind == CS_ROPE_YARN ? 0.1 * log(sizes->factor) + 1
                                       : sqrt(1 + log(sizes->factor) / log(sizes->original));
}

/* LongRoPE (Ding et al. 2024): each frequency has its own divisor. */
static void divide(cs_rope *rope, const cs_rope_sizes *sizes, const float *divisors)
{
    for (int64_t i = 0; i < sizes->width / 2; i++)
        rope->frequency[i] = 1 / (divisors[i] * powf((float)sizes->theta, (float)(2 * i) / (float)sizes->width));
}

void cs_rope_open(cs_rope *rope, const cs_rope_sizes *sizes)
{
    CE_GIVEN(rope, sizes);
    rope->width = sizes->width;
    rope->head = sizes->head;
    rope->adjacent = sizes->adjacent;
    rope->factor = (float)factor_of(sizes);
    for (int64_t i = 0; i < sizes->width / 2; i++) {
        /* the power is computed in fp32 (powf), as in transformers' Python code */
        float plain = 1 / powf((float)sizes->theta, (float)(2 * i) / (float)sizes->width);
        rope->frequency[i] = (float)scale((double)plain, i, sizes);
    }
    if (sizes->kind == CS_ROPE_LONG)
        divide(rope, sizes, sizes->shorter);
}

void cs_rope_open_longer(cs_rope *rope, const cs_rope_sizes *sizes)
{
    CE_GIVEN(rope, sizes);
    cs_rope_open(rope, sizes);
    if (sizes->kind == CS_ROPE_LONG)
        divide(rope, sizes, sizes->longer);
}
