/* cut.h - tensor parallelism: which elements of a parameter this rank holds.
 *
 * The ranks of a tensor-parallel group divide the matrices of a layer: each rank holds some rows or some columns of a
 * matrix. A layer declares a parameter with its whole shape and then cuts it (ce_cut_param). Everything else follows
 * from the parameter's ce_cut: the local shape, initial values, the boxes of the whole tensor that checkpoints and
 * pretrained weights contain, which rank saves an element, and how gradients of copies are added. */
#ifndef CE_UNIT_CUT_H
#define CE_UNIT_CUT_H

#include "base/range.h"
#include "cspeed/cspeed.h"

/* The number of this rank in its tensor-parallel group, and the number of ranks of the group. */
typedef struct {
    int size, rank;
    /* sequence parallelism: the ranks also divide the rows of the tensors between layers (ce_pass_cuts_rows), so that each
     * rank computes only some terms of the gradients of the parameters there, such as norms */
    bool rows;
} ce_cut_group;

/* Some consecutive indices of the cut dimension. `copies` ranks of the group hold the same part; this rank holds copy
 * number `copy` of them. The ranks with the copies of a part are consecutive, in the order of their copies. */
typedef struct {
    int64_t from, count;
    int copies, copy;
} ce_cut_part;

/* A fused matrix has up to three parts: q, k and v, or gate and up. */
enum { CE_CUT_PARTS = 3 };

/* What a rank holds of a parameter. The local tensor consists of the parts, one after another along dimension `dim`; its
 * other dimension is whole. A parameter that no layer cuts is one part of dim 0 with a copy on every rank. */
typedef struct {
    int64_t whole[2]; /* the shape of the whole parameter; whole[1] is 1 for a vector */
    int dim;
    int count;
    ce_cut_part part[CE_CUT_PARTS];
    /* True if each rank computes only some terms of the gradient of a part that has copies, so that the gradients of the
     * copies must be added up. False if each rank computes the whole gradient. */
    bool partial;
} ce_cut;

/* Returns the cut of a parameter of this shape that no layer cuts. */
ce_cut ce_cut_whole(cs_tensor shape, ce_cut_group group);
int64_t ce_cut_count(const ce_cut *cut); /* Returns the number of elements of the whole parameter. */

/* Returns the share of this rank if the ranks of the group divide `count` indices as evenly as possible. */
ce_cut_part ce_cut_share(int64_t count, ce_cut_group group);

/* The heads of an attention that a rank computes. Query heads that use one key head stay together, so that all key heads
 * of a rank have the same number of query heads. If there are fewer key heads than ranks, several consecutive ranks
 * hold copies of one key head and divide its query heads. */
typedef struct {
    ce_range queries, keys;
    int copies, copy; /* copies of this rank's key heads, as in ce_cut_part */
} ce_cut_heads;
ce_cut_heads ce_cut_heads_of(int64_t queries, int64_t keys, ce_cut_group group);

/* Sets the parts of a parameter that cs_unit_param has declared, and gives it its local shape. `dim` is 0 for rows and 1
 * for columns; a vector has rows only. The gradients of parts that have copies are partial. */
void ce_cut_param(cs_param *param, int dim, const ce_cut_part *parts, int count);
/* Marks a parameter that every rank holds: each rank computes only some terms of its gradient (ce_cut.partial). */
void ce_cut_partial(cs_param *param);

/* Marks a parameter that is used between layers: its gradient is partial if the group divides rows. */
void ce_cut_rows(cs_param *param, const cs_unit *unit);

/* Returns the group of the model that the unit belongs to: { 1, 0 } without tensor parallelism. */
ce_cut_group ce_cut_group_of(const cs_unit *unit);

#endif
