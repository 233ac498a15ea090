/* exchange.h - groups of messages that are under way at the same time; each step of a collective is one such group. */
#ifndef CS_COMM_COLLECTIVE_EXCHANGE_H
#define CS_COMM_COLLECTIVE_EXCHANGE_H

#include "comm/transport.h"

/* Memory for exchanges among all ranks of a comm: its lists and its staging buffer. */
cs_status ce_exchange_open(cs_comm *comm);
void ce_exchange_close(cs_comm *comm); /* also after an open that failed */

/* Adds a message to or from another rank: at most two for each rank and direction. The other rank must add the matching
 * messages in the same order. ce_exchange_run moves all messages and returns when they are done. */
void ce_exchange_send(cs_comm *comm, int to, const void *data, size_t bytes);
void ce_exchange_receive(cs_comm *comm, int from, void *data, size_t bytes);
void ce_exchange_run(cs_comm *comm);

/* The slot of one member in the staging buffer, and its size. */
size_t ce_exchange_slot_bytes(const ce_members *among);
char *ce_exchange_slot(const cs_comm *comm, const ce_members *among, int member);
/* out[count] = the reduction of the operands of all members, in tree order. own_data is this rank's operand; those of
 * the other members are in their slots. */
void ce_exchange_reduce_slots(cs_comm *comm, const ce_members *among, void *out, const void *own_data, int64_t count,
                              cs_dtype dtype, cs_reduce_op op);

int64_t ce_parts_count(const ce_parts *parts, int member);
/* Elements of a part that belong to its piece `index`, where a piece has `piece` elements and the last one the rest. */
int64_t ce_parts_piece(const ce_parts *parts, int member, int64_t piece, int64_t index);
int64_t ce_parts_longest(const ce_parts *parts, int members); /* elements of the longest part */
size_t ce_parts_offset(const ce_parts *parts, int member, size_t element_bytes);

#endif
