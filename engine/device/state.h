/* state.h - operations on a shard's flat state (gradients, master values, optimizer slots), which the sharding needs
 * and models do not.
 *
 * Sums, verdicts and gates are in device memory, so the decision about a step does not need the host. */
#ifndef CS_DEVICE_STATE_H
#define CS_DEVICE_STATE_H

#include "device/device.h"
#include "base/exact.h"
#include "base/range.h"
#include "optim/optim.h"
#include "optim/preference.h"
#include "optim/verdict.h"

/* Adds the squares of g's elements (any float type), each times unscale^2, to *sum. The squares of 64 elements are
 * added in double in a fixed order, and these partial sums are added exactly (base/exact.h). g begins `lead` elements
 * after the first element of a group of 64. A buffer may be cut only between two groups; so the bits of the sum do not
 * depend on the cuts. Elements that are not finite are counted in sum->nonfinite. */
void ce_state_sum_squares(cs_stream *stream, ce_exact *sum, cs_tensor g, int64_t lead, double unscale);

/* Adds values[0..count) to *sum exactly. */
void ce_state_sum(cs_stream *stream, ce_exact *sum, const float *values, int64_t count);

/* Computes the verdict of a step from the sums of all ranks; *verdict holds the previous step's verdict before the
 * call. */
void ce_state_judge(cs_stream *stream, ce_verdict *verdict, const ce_step_sums *words, const ce_step_terms *terms);

/* Sets each element to *scale / divisor: the gradient from which backward starts. Works in the compute stream. */
void ce_state_seed(cs_stream *stream, cs_tensor dy, const double *scale, double divisor);

/* Facts about each pair of answers; CS_PREFERENCE_CORRECT is 1 if the chosen answer has the greater reward, else 0. */
enum {
    CS_PREFERENCE_LOSS,
    CS_PREFERENCE_CHOSEN_REWARD,
    CS_PREFERENCE_REJECTED_REWARD,
    CS_PREFERENCE_CORRECT,
    CS_PREFERENCE_CHOSEN_LOGP,
    CS_PREFERENCE_REJECTED_LOGP,
    CS_PREFERENCE_FACTS
};
/* The loss of each of B pairs of answers. An answer's log-probability is the negative sum of its rows' losses. Sequence
 * 2 b is the chosen answer of pair b, sequence 2 b + 1 the rejected one; a sequence has T rows. All facts of a pair
 * without targets are 0. */
typedef struct {
    ce_preference rule;
    cs_tensor losses;     /* (2 B T, 1) f32, from cs_op_cross_entropy */
    cs_tensor targets;    /* (2 B, T) i32 */
    cs_tensor references; /* (2 B) f32: log-probabilities by the reference model; absent: 0 */
    cs_tensor weights;    /* (2 B T, 1) f32, or absent: each weight is multiplied by the derivative of its pair's loss
                           * with respect to its row's loss */
    cs_tensor facts;      /* (CS_PREFERENCE_FACTS, B) f32 */
} ce_preference_rows;
void ce_state_preference(cs_stream *stream, const ce_preference_rows *rows);

/* into[i] += from[i], computed in fp32 and rounded once; any float types. */
void ce_state_add(cs_stream *stream, cs_tensor into, cs_tensor from);

/* to[i] = from[i] * factor, computed in fp32 and rounded once; any float types. The two may be the same memory
 * if their types have the same size. */
void ce_state_convert(cs_stream *stream, cs_tensor to, cs_tensor from, float factor);

/* One range of an update: elements of one parameter. The table of ranges is in device memory, so that one kernel launch
 * processes many ranges. Range k has the tiles ranges[k].tile to ranges[k + 1].tile - 1. Tile t contains the range's
 * elements in [begin, begin + CS_STATE_TILE), where begin = CS_STATE_TILE * (from / CS_STATE_TILE + t - tile). */
enum { CS_STATE_TILE = 2048 };
typedef struct {
    int64_t from, to;              /* elements of master, gradient and publish */
    int64_t slots[CS_OPTIM_SLOTS]; /* the index of element `from` in each slot */
    int64_t tile;                  /* number of the range's first tile */
    int64_t decays;                /* 0: no weight decay: hyper.decay counts as 0 */
} ce_state_range;

typedef struct {
    const ce_state_range *table;
    int64_t count, tile, tiles; /* number of ranges; first tile of the first range; number of tiles of all */
} ce_state_ranges;

/* The number of tiles of such a range. */
int64_t ce_state_tiles(ce_range elements);

/* Applies the optimizer's rule to the ranges. master, gradient (multiplied by hyper.grad_scale and the gate's factor)
 * and slots may have any float type: they are converted to fp32, updated, and rounded to nearest even. If `publish` is
 * present, the new values are written to it too. A rule that returns a direction writes it to the gradient and leaves
 * the master unchanged. If the gate is closed, nothing is written. The bits do not depend on how elements are cut into
 * ranges. */
typedef struct {
    cs_tensor master, gradient, slots[CS_OPTIM_SLOTS]; /* slots that the optimizer does not have are absent */
    cs_tensor publish;
    ce_state_ranges ranges;
    const ce_gate *gate; /* NULL: always open, with factor 1 */
} ce_state_rows;
void ce_state_update(cs_stream *stream, const ce_optimizer *optimizer, ce_hyper hyper, const ce_state_rows *rows);

/* Computes initial values: out[i] (fp32) is element from + i of the parameter with this key: 0, 1, std * normal, or
 * uniform. It depends only on key and element. */
void ce_state_init(cs_stream *stream, float *out, cs_init init, uint64_t key, int64_t from, int64_t count);

#endif
