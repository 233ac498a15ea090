/* state.h - operations on a shard's flat state: what sharding needs of a device, and models do not. */
#ifndef CS_DEVICE_STATE_H
#define CS_DEVICE_STATE_H

#include "device/device.h"
#include "base/exact.h"
#include "optim/optim.h"

/* sum += the squares of g[0..count), each times unscale^2, exactly in the sense of exact.h: squares of 64
 * elements at a time are added in double in a fixed order and then added exactly. count is a multiple of 64, so the
 * same bits come out however a flat buffer is cut into parts. Non-finite elements are counted in sum->nonfinite. */
void cs_state_sum_squares(cs_stream *stream, cs_exact *sum, const float *g, int64_t count, double unscale);

/* sum += values[0..count), each exactly. */
void cs_state_sum(cs_stream *stream, cs_exact *sum, const float *values, int64_t count);

/* into[i] += from[i] (fp32). */
void cs_state_add(cs_stream *stream, float *into, const float *from, int64_t count);

/* One walk of the optimizer's rule over [0, count): master (fp32), gradient g (fp32, times hyper.grad_scale), slots (fp32),
 * and where `publish` is not NULL the new value in `dtype`. */
typedef struct {
    float       *master;
    const float *gradient;
    float       *slots[CS_OPTIM_SLOTS];
    void        *publish;
    cs_dtype     dtype;
    int64_t      count;
} cs_state_span;
void cs_state_update(cs_stream *stream, const cs_optimizer *optimizer, cs_hyper hyper, cs_state_span span);

/* First values: out[i] (fp32) for element from + i of the parameter with this key: 0, 1, std * normal, or uniform. */
void cs_state_init(cs_stream *stream, float *out, cs_init init, uint64_t key, int64_t from, int64_t count);

#endif
