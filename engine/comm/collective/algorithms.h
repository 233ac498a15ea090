/* algorithms.h - the algorithms of a comm: which algorithm carries out a collective, and the setting that changes this
 * choice.
 *
 * cs_comm_settings.algorithms is a list of assignments. COLLECTIVE=ALGORITHM makes all calls of a collective use one
 * algorithm; TRANSPORT.SIZE=BYTES replaces one number of the transport's table of sizes (ce_sizes). All ranks must have
 * the same list.
 *
 * The functions below carry out a collective. They use the algorithm that the list chooses or, if it chooses none, the
 * transport's own function. */
#ifndef CE_COMM_COLLECTIVE_ALGORITHMS_H
#define CE_COMM_COLLECTIVE_ALGORITHMS_H

#include "comm/transport.h"

/* Reads the list of assignments. Sets comm->sizes to the transport's table of sizes, and comm->wish to the values of
 * the list. */
cs_status ce_algorithms_read(cs_comm *comm, const char *list);
/* Checks the form of a list of assignments before a comm is opened. Returns CS_BAD_CONFIG if the form is wrong. */
cs_status ce_algorithms_check(const char *list);
/* Compares the lists of all ranks, checks that the transport has the algorithms, and applies the list. The call is
 * collective. Returns CS_DISAGREE if the lists of two ranks differ, and CS_BAD_CONFIG if the transport lacks an
 * algorithm. */
cs_status ce_algorithms_apply(cs_comm *comm);

void ce_algorithms_all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op);
void ce_algorithms_reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype,
                                  cs_reduce_op op);
void ce_algorithms_all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype);
/* The next two functions carry out a collective whose parts have different lengths. */
void ce_algorithms_reduce_scatter_v(cs_comm *comm, void *out, const void *in, const ce_parts *parts, cs_dtype dtype,
                                    cs_reduce_op op);
void ce_algorithms_all_gather_v(cs_comm *comm, void *out, const void *in, const ce_parts *parts, cs_dtype dtype);

#endif
