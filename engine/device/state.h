/* state.h - operations on a shard's flat state: what sharding needs of a device, and models do not.
 *
 * Sums, verdicts and gates are in the device's memory, as all else: what judges a step need not ask the host. */
#ifndef CS_DEVICE_STATE_H
#define CS_DEVICE_STATE_H

#include "device/device.h"
#include "base/exact.h"
#include "base/range.h"
#include "optim/optim.h"
#include "optim/verdict.h"

/* sum += the squares of g's elements (any float type), each times unscale^2, exactly in the sense of exact.h: squares
 * of 64 elements at a time are added in double in a fixed order and then added exactly. g begins `lead` elements behind
 * the begin of a 64, and where it is cut, that is at such a begin: so the same bits come out however a flat buffer is
 * cut into parts. Non-finite elements are counted in sum->nonfinite. */
void cs_state_sum_squares(cs_stream *stream, cs_exact *sum, cs_tensor g, int64_t lead, double unscale);

/* sum += values[0..count), each exactly. */
void cs_state_sum(cs_stream *stream, cs_exact *sum, const float *values, int64_t count);

/* *verdict becomes what is said of a step with these words, after the one that it held. */
void cs_state_judge(cs_stream *stream, cs_verdict *verdict, const cs_step_sums *words, const cs_step_terms *terms);

/* Each element becomes *scale / divisor: the seed of backward, in the compute stream. */
void cs_state_seed(cs_stream *stream, cs_tensor dy, const double *scale, double divisor);

/* into[i] += from[i], in fp32 and rounded once; any float types. */
void cs_state_add(cs_stream *stream, cs_tensor into, cs_tensor from);

/* to[i] = from[i] * factor, in fp32 and rounded once; any float types. The two may share memory that begins at one
 * place: a row is narrowed, or widened, where it lies. */
void cs_state_convert(cs_stream *stream, cs_tensor to, cs_tensor from, float factor);

/* A part of an update's rows, of one parameter. Ranges are a table in the device's memory, so that one launch walks over
 * many of them: range k has the tiles ranges[k].tile .. ranges[k + 1].tile - 1, and tile t of them is the elements from
 * CS_STATE_TILE * (from / CS_STATE_TILE + t - tile) on that the range has. */
enum { CS_STATE_TILE = 2048 };
typedef struct {
    int64_t from, to;              /* elements of master, gradient and publish */
    int64_t slots[CS_OPTIM_SLOTS]; /* where element `from` lies in each slot   */
    int64_t tile;                  /* number of its first tile                 */
    int64_t decays;                /* 0: hyper.decay is 0 here                 */
} cs_state_range;

typedef struct {
    const cs_state_range *table;
    int64_t count, tile, tiles; /* ranges; the first tile of the first; tiles of all */
} cs_state_ranges;

/* As many as a range of these elements has. */
int64_t cs_state_tiles(cs_range elements);

/* One walk of the optimizer's rule over the ranges: master, gradient (times hyper.grad_scale and the gate's factor) and
 * slots, of any float types, are widened, updated in fp32 and rounded to nearest even; where `publish` is not absent it
 * gets the new value too. A rule that returns a direction puts it in the gradient's place, and leaves the master. Where
 * the gate is shut nothing is written. The elements have the same bits however they are cut into ranges. */
typedef struct {
    cs_tensor master, gradient, slots[CS_OPTIM_SLOTS]; /* slots that the optimizer lacks are absent */
    cs_tensor publish;
    cs_state_ranges ranges;
    const cs_gate *gate; /* NULL: open, times 1 */
} cs_state_rows;
void cs_state_update(cs_stream *stream, const cs_optimizer *optimizer, cs_hyper hyper, const cs_state_rows *rows);

/* First values: out[i] (fp32) for element from + i of the parameter with this key: 0, 1, std * normal, or uniform. */
void cs_state_init(cs_stream *stream, float *out, cs_init init, uint64_t key, int64_t from, int64_t count);

#endif
