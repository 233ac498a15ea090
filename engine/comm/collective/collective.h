/* collective.h - the collectives over messages. Each collective has a file of its own. The head of that file describes
 * the algorithms with their steps and bytes: n is the number of ranks that take part, and "vector" means the longest
 * buffer of the call. The staging buffer may be smaller than the vector. The vector is then divided into pieces, one of
 * which is in the staging buffer at a time.
 *
 * The functions ce_among_... carry out the collectives of comm.h among some ranks of a comm. These ranks are the
 * members; `root` is the index of a member, and part i belongs to member i. The functions ce_messages_... are
 * collectives among all ranks, with the signatures of comm.h. */
#ifndef CE_COMM_COLLECTIVE_COLLECTIVE_H
#define CE_COMM_COLLECTIVE_COLLECTIVE_H

#include "base/range.h"
#include "comm/transport.h"

enum { CE_ALL_REDUCE_WHOLE = 16 << 10 }; /* up to so many bytes, an all_reduce sends whole vectors to all ranks */

/* Returns the elements that `member` sums if an all_reduce of `count` elements is divided among the members. */
ce_range ce_all_reduce_part(int64_t count, int members, int member);

void ce_among_all_reduce(cs_comm *comm, const ce_members *among, void *data, int64_t count, cs_dtype dtype,
                         cs_reduce_op op);
void ce_among_reduce_scatter(cs_comm *comm, const ce_members *among, void *out, const void *in, const ce_parts *parts,
                             cs_dtype dtype, cs_reduce_op op);
void ce_among_all_gather(cs_comm *comm, const ce_members *among, void *out, const void *in, const ce_parts *parts,
                         cs_dtype dtype);
void ce_among_broadcast(cs_comm *comm, const ce_members *among, void *data, size_t bytes, int root);
void ce_among_barrier(cs_comm *comm, const ce_members *among);

void ce_messages_all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op);
void ce_messages_reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype,
                                cs_reduce_op op);
void ce_messages_all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
void ce_messages_broadcast(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root);
void ce_messages_barrier(cs_comm *comm);
void ce_messages_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op, int root);
void ce_messages_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, int root);
void ce_messages_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, int root);
void ce_messages_all_to_all(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);

#endif
