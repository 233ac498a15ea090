/* pieces.h - this rank's part of parameters, optimizer slots and gradients in host memory, for any device. */
#ifndef CS_TESTS_PIECES_H
#define CS_TESTS_PIECES_H

#include "core/engine.h"

/* Waits for the compute stream and the comm stream. Then stores the pieces of shard `number` (ce_shard_pieces) in
 * pieces[], for reading, and returns their number. If the device has memory of its own, the pieces point to copies in
 * host memory, which are valid until the next call. */
int pieces_take(cs_engine *engine, int number, ce_shard_piece *pieces);
/* Element number `at` of piece->range: its index in the whole parameter, and its index from the piece's first element in
 * memory. */
int64_t pieces_whole(const ce_shard_piece *piece, int64_t at);
int64_t pieces_index(const ce_shard_piece *piece, int64_t at);
/* Copies the master parameters of these pieces to the shard, and updates every copy of them on the ranks of ZeRO.
 * Collective, like ce_shard_spread. */
void pieces_put(cs_engine *engine, int number, const ce_shard_piece *pieces, int count);

/* Sets this rank's part of every parameter, also of those of which it holds copies. value_of returns the values of a whole parameter. */
void pieces_set_all(cs_engine *engine, const float *(*value_of)(const ce_unit_entry *entry, const void *argument),
                    const void *argument);

#endif
