/* rank_position.h - where ranks stand: the step and the collective of the last beat each has told. */
#ifndef CL_RANK_POSITION_H
#define CL_RANK_POSITION_H

#include "front/front.h"

#include <stdio.h>

enum { CL_RANK_POSITION_BYTES = 96 };

bool cl_rank_position_is_known(const cl_worker *worker); /* whether it has told a beat at all */
const cl_link_beat *cl_rank_position_beat(const cl_worker *worker);
const char *cl_rank_position_collective(const cl_worker *worker); /* "": in none */

/* "step 12, waiting in all_reduce", "none told" */
void cl_rank_position_print(const cl_worker *worker, char text[CL_RANK_POSITION_BYTES]);

/* Nanoseconds since it came there; -1: it has told nothing. */
int64_t cl_rank_position_age(const cl_worker *worker, int64_t now);

/* A row for each place, ranks at the same one together: "    ranks 0,2-7: step 12, waiting in all_reduce", and with
 * `now`, that of the longest there: " (612 s)". Rank `without` is left out; -1: none. */
void cl_rank_position_table(const cl_front *front, const char *indent, int without, int64_t now, FILE *out);

/* "rank 11 (worker-2, local 3, slot 3, pid 48812)"; on this machine alone: "rank 1 (pid 12)". */
void cl_rank_position_name(const cl_front *front, int rank, FILE *out);

const char *cl_rank_position_host(const cl_front *front, int rank);

#endif
