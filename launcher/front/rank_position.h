/* rank_position.h - the position of a rank: the training step and the collective in its last progress record. */
#ifndef CL_RANK_POSITION_H
#define CL_RANK_POSITION_H

#include "front/front.h"

#include <stdio.h>

enum { CL_RANK_POSITION_BYTES = 96 };

bool cl_rank_position_is_known(const cl_worker *worker); /* Returns true if the rank has sent a progress record. */

/* Returns the last meaningful progress record of a rank: a record that was sent while the rank was being ended is
 * ignored if there is an earlier one. */
const cl_link_beat *cl_rank_position_beat(const cl_worker *worker);
const char *cl_rank_position_collective(const cl_worker *worker); /* the collective in which the rank waits; "": none */

/* Prints the position of a rank, for example "step 12, waiting in all_reduce". Prints "not known" if the rank has sent
 * no progress record. */
void cl_rank_position_print(const cl_worker *worker, char text[CL_RANK_POSITION_BYTES]);

/* Returns how many nanoseconds ago the rank reached its position; -1: the rank has sent no progress record. */
int64_t cl_rank_position_age(const cl_worker *worker, int64_t now);

/* Prints one row for each position, with all ranks that share it: "ranks 0,2-7: step 12, waiting in all_reduce". If
 * `now` is not 0, the row ends with the longest time that one of these ranks has been at the position: " (612 s)". Rank
 * `without` is omitted; -1 omits no rank. The first row begins with `lead`, the others with `indent`. */
void cl_rank_position_table(const cl_front *front, const char *lead, const char *indent, int without, int64_t now,
                            FILE *out);

/* Prints the name of a rank, such as "rank 11 (worker-2, local 3, slot 3, pid 48812)". If the job uses only this
 * machine, the name is shorter: "rank 1 (pid 12)". */
void cl_rank_position_name(const cl_front *front, int rank, FILE *out);

/* Returns the name of the host on which the rank runs. */
const char *cl_rank_position_host(const cl_front *front, int rank);

#endif
