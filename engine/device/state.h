/* state.h - operations on the flat state of a shard (gradients, master values, optimizer slots). The sharding needs
 * these operations; models do not.
 *
 * The sums over ranks, the verdict on a step and the step's gate (optim/verdict.h) are in device memory, so the device
 * decides without the host whether a step updates the parameters. */
#ifndef CE_DEVICE_STATE_H
#define CE_DEVICE_STATE_H

#include "device/device.h"
#include "base/exact.h"
#include "base/range.h"
#include "optim/optim.h"
#include "optim/preference.h"
#include "optim/verdict.h"

/* Adds the squares of g's elements (any float type), each times unscale^2, to *sum. Elements form groups of 64, and g
 * begins `lead` elements after the first element of a group. The squares of a group are added in double in a fixed
 * order, and the sums of groups are added exactly (base/exact.h). If a caller passes a buffer in several calls, each
 * boundary between two calls must be a boundary of groups; then the bits of the sum do not depend on the number of
 * calls. Elements that are not finite are counted in sum->nonfinite. */
void ce_state_sum_squares(cs_stream *stream, ce_exact *sum, cs_tensor g, int64_t lead, double unscale);

/* Adds values[0] to values[count - 1] to *sum exactly. */
void ce_state_sum(cs_stream *stream, ce_exact *sum, const float *values, int64_t count);

/* Adds counts[i] to sums[i], for each i below `count`. */
void ce_state_add_counts(cs_stream *stream, int64_t *sums, const int32_t *counts, int64_t count);

/* Computes the verdict of a step from the sums of all ranks. Before the call, *verdict holds the verdict of the
 * previous step. */
void ce_state_judge(cs_stream *stream, ce_verdict *verdict, const ce_step_sums *words, const ce_step_terms *terms);

/* Sets each element of dy to *scale / divisor: the gradient from which backward starts. This runs in the compute
 * stream. */
void ce_state_seed(cs_stream *stream, cs_tensor dy, const double *scale, double divisor);

/* Computes the loss of each of B pairs of answers. An answer's log-probability is the negative sum of its rows' losses.
 * Sequence 2 b is the chosen answer of pair b, and sequence 2 b + 1 is the rejected answer. A sequence has T rows. With
 * rule.ld_alpha below 1, the rows of an answer beyond the number of tokens of the shorter answer have that factor. All
 * facts of a pair without targets are 0 (optim/preference.h). */
typedef struct {
    ce_preference rule;
    cs_tensor losses;  /* losses (2 B T, 1) f32: the losses of the rows, from cs_op_cross_entropy */
    cs_tensor targets; /* (2 B, T) i32 */
    /* references (2 B) f32: log-probabilities by the reference model; absent: all of them are 0 */
    cs_tensor references;
    /* weights (2 B T, 1) f32, or absent: the weight of each row is multiplied by the derivative of the pair's loss with
     * respect to the row's loss */
    cs_tensor weights;
    cs_tensor facts; /* facts (CE_PREFERENCE_FACTS, B) f32: the computed facts of each pair */
} ce_preference_rows;
void ce_state_preference(cs_stream *stream, const ce_preference_rows *rows);

/* Computes into[i] += from[i] in fp32, rounded once. The tensors may have any float types. */
void ce_state_add(cs_stream *stream, cs_tensor into, cs_tensor from);

/* Computes to[i] = from[i] * factor in fp32, rounded once. The tensors may have any float types, and may be the same
 * memory if their types have the same size. */
void ce_state_convert(cs_stream *stream, cs_tensor to, cs_tensor from, float factor);

/* One range of an update: consecutive elements of one parameter. The table of ranges is in device memory, so that one
 * kernel launch processes many ranges. Ranges are divided into tiles: the range r has the tiles from r.tile to the tile
 * before the next range's first tile. Tile t has those elements of r that are in [begin, begin + CE_STATE_TILE), where
 * begin = CE_STATE_TILE * (r.from / CE_STATE_TILE + t - r.tile). */
enum { CE_STATE_TILE = 2048 };
typedef struct {
    int64_t from, to;              /* the range of elements in the tensors master, gradient and publish */
    int64_t slots[CE_OPTIM_SLOTS]; /* for each slot: the index in the slot of element `from` */
    int64_t tile;                  /* number of the range's first tile */
    int64_t decays;                /* whether weight decay applies; if 0, the update uses 0 in place of hyper.decay */
} ce_state_range;

typedef struct {
    const ce_state_range *table;
    /* count: number of ranges; tile: number of the first range's first tile; tiles: number of tiles of all ranges */
    int64_t count, tile, tiles;
} ce_state_ranges;

/* Returns the number of tiles of a range that consists of `elements`. */
int64_t ce_state_tiles(ce_range elements);

/* Applies the optimizer's rule to the ranges. `gradient` is multiplied by hyper.grad_scale and the gate's factor first.
 * `master`, `gradient` and `slots` may have any float type: their elements are converted to fp32, updated, and rounded
 * to nearest even. A slot of type CS_U8 has 8-bit codes: the blocks of CE_OPTIM_BLOCK elements (optim/optim.h) begin where
 * their range begins, the scale of the block that contains element i is scales[i / CE_OPTIM_BLOCK], and the second slot has
 * no negative values. If `publish` is present, the new values are written to `master` and to `publish`. A rule that
 * returns a direction writes the direction to `gradient` and leaves `master` unchanged. If the gate is closed, nothing
 * is written. The bits of the result do not depend on how the elements are divided into ranges. */
typedef struct {
    cs_tensor master, gradient, slots[CE_OPTIM_SLOTS]; /* a slot that the optimizer does not have is absent */
    float *scales[CE_OPTIM_SLOTS];                     /* the scales of slots of type CS_U8 */
    cs_tensor publish;
    ce_state_ranges ranges;
    const ce_gate *gate; /* the gate that allows the update; NULL: always open, with factor 1 */
} ce_state_rows;
void ce_state_update(cs_stream *stream, const ce_optimizer *optimizer, ce_hyper hyper, const ce_state_rows *rows);

/* Says which elements of a whole parameter a row has: element i of the row is element from + (i / run) * stride + i % run
 * of the parameter, or from + i if `run` is 0. */
typedef struct {
    int64_t from, run, stride;
} ce_state_places;
/* Computes initial values: out[i] (fp32), i < count, is the element that `places` says of the parameter with this key: 0,
 * 1, std * normal, or uniform. A value depends only on the key and the index of the element in the parameter. */
void ce_state_init(cs_stream *stream, float *out, cs_init init, uint64_t key, ce_state_places places, int64_t count);

#endif
