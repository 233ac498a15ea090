/* pieces.h - this rank's part of parameters, slots and gradients in host memory, whatever device holds them. */
#ifndef CS_TESTS_PIECES_H
#define CS_TESTS_PIECES_H

#include "engine.h"

/* cs_shard_pieces of shard `number`, to be read, once both streams have come to rest. Of a far device they are copies,
 * which stay until the next call. */
int pieces_take(cs_engine *engine, int number, cs_shard_piece *pieces);
/* The masters of these pieces are the shard's; every copy follows. Collective, as cs_shard_spread. */
void pieces_put(cs_engine *engine, int number, const cs_shard_piece *pieces, int count);

/* Sets this rank's part of every parameter: value_of says where its first element is, of the whole parameter. */
void pieces_set_all(cs_engine *engine, const float *(*value_of)(const cs_unit_entry *entry, const void *argument),
                    const void *argument);

#endif
