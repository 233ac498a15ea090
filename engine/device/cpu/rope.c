/* rope.c - rotary positions. The cosines and sines of a position are computed once and are used for all samples and
 * heads. */
#include "device/cpu/cpu.h"
#include "device/cpu/elements.h"

#include <math.h>

enum { MIN_POSITIONS = 4, HALF = CS_ROPE_WIDTH / 2 };

static void rotate_head(float *restrict out, const float *restrict x, const float *restrict cosine,
                        const float *restrict sine, int64_t half)
{
    for (int64_t i = 0; i < half; i++) {
        float low = x[i], high = x[i + half];
        out[i] = low * cosine[i] - high * sine[i];
        out[i + half] = high * cosine[i] + low * sine[i];
    }
}

static void rotate_adjacent(float *restrict out, const float *restrict x, const float *restrict cosine,
                            const float *restrict sine, int64_t half)
{
    for (int64_t i = 0; i < half; i++) {
        float low = x[2 * i], high = x[2 * i + 1];
        out[2 * i] = low * cosine[i] - high * sine[i];
        out[2 * i + 1] = high * cosine[i] + low * sine[i];
    }
}

static void rotate_row(const ce_turn *turn, int64_t row, const float *cosine, const float *sine)
{
    int64_t width = turn->rope->width, apart = ce_rope_head(turn->rope), columns = cs_columns(turn->x);
    float wide[CS_ROPE_WIDTH], out[CS_ROPE_WIDTH];
    for (int64_t head = 0; head < turn->rows.heads; head++) {
        int64_t place = row * columns + head * apart;
        const float *x = ce_elements_read(turn->x, place, width, wide);
        if (turn->rope->adjacent)
            rotate_adjacent(out, x, cosine, sine, width / 2);
        else
            rotate_head(out, x, cosine, sine, width / 2);
        ce_elements_write(turn->x, place, width, out);
    }
}

static void rotate_positions(void *argument, ce_range range, int part)
{
    (void)part;
    const ce_turn *turn = argument;
    const cs_rope *rope = turn->rope;
    float cosine[HALF], sine[HALF];
    for (int64_t position = range.from; position < range.to; position++) {
        for (int64_t i = 0; i < rope->width / 2; i++) {
            float angle = (float)(turn->rows.first + position) * rope->frequency[i];
            cosine[i] = cosf(angle) * rope->factor;
            sine[i] = sinf(angle) * rope->factor * turn->sign;
        }
        for (int64_t row = position; row < cs_rows(turn->x); row += turn->rows.length)
            rotate_row(turn, row, cosine, sine);
    }
}

void ce_cpu_rope(cs_device *device, const ce_turn *turn)
{
    ce_turn all = *turn;
    ce_cpu_walk(device, turn->rows.length, MIN_POSITIONS, rotate_positions, &all);
}
