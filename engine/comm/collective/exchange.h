/* exchange.h - groups of messages that move at the same time; each step of a collective is one such group. */
#ifndef CE_COMM_COLLECTIVE_EXCHANGE_H
#define CE_COMM_COLLECTIVE_EXCHANGE_H

#include "comm/transport.h"

/* Allocates the memory for exchanges among all ranks of a comm: the lists of messages and the staging buffer. */
cs_status ce_exchange_open(cs_comm *comm);
void ce_exchange_close(cs_comm *comm); /* frees the memory; must also be called after an open that failed */

/* ce_exchange_send and ce_exchange_receive put a message on the list of messages to move. The list may have two
 * messages for each other rank and direction. The other rank must list the matching messages in the same order.
 * ce_exchange_run moves all messages of the list, returns when they are done, and leaves the list empty. */
void ce_exchange_send(cs_comm *comm, int to, const void *data, size_t bytes);
void ce_exchange_receive(cs_comm *comm, int from, void *data, size_t bytes);
void ce_exchange_run(cs_comm *comm);

/* The staging buffer has a slot for each member. The next two functions return the size of a slot in bytes and its
 * address. */
size_t ce_exchange_slot_bytes(const ce_members *among);
char *ce_exchange_slot(const cs_comm *comm, const ce_members *among, int member);
/* Reduces the operands of all members, in the order of the summation tree, and writes the `count` results to `out`.
 * own_data is this rank's operand; the operands of the other members are in their slots. */
void ce_exchange_reduce_slots(cs_comm *comm, const ce_members *among, void *out, const void *own_data, int64_t count,
                              cs_dtype dtype, cs_reduce_op op);

int64_t ce_parts_count(const ce_parts *parts, int member);
/* A member's part is divided into pieces of `piece` elements; the last piece of the part may be shorter. Returns the
 * number of elements of piece number `index`, or 0 if the part has no piece of this number. */
int64_t ce_parts_piece(const ce_parts *parts, int member, int64_t piece, int64_t index);
int64_t ce_parts_longest(const ce_parts *parts, int members); /* returns the greatest number of elements in a part */
size_t ce_parts_offset(const ce_parts *parts, int member, size_t element_bytes);

#endif
