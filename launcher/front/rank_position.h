/* rank_position.h - where ranks stand: the step and the collective of the last beat each has told. */
#ifndef CS_LAUNCHER_PLACE_H
#define CS_LAUNCHER_PLACE_H

#include "front/front.h"

#include <stdio.h>

enum { CS_PLACE_BYTES = 96 };

bool                cs_place_told(const cs_worker *worker); /* whether it has told a beat at all */
const cs_link_beat *cs_place_beat(const cs_worker *worker);
const char         *cs_place_collective(const cs_worker *worker); /* "": in none */

/* "step 12, waiting in all_reduce", "none told" */
void cs_place_print(const cs_worker *worker, char text[CS_PLACE_BYTES]);

/* Nanoseconds since it came there; -1: it has told nothing. */
int64_t cs_place_age(const cs_worker *worker, int64_t now);

/* A row for each place, ranks at the same one together: "    ranks 0,2-7: step 12, waiting in all_reduce", and with
 * `now`, that of the longest there: " (612 s)". Rank `without` is left out; -1: none. */
void cs_place_table(const cs_front *front, const char *indent, int without, int64_t now, FILE *out);

/* "rank 11 (worker-2, local 3, slot 3, pid 48812)"; on this machine alone: "rank 1 (pid 12)". */
void cs_place_name(const cs_front *front, int rank, FILE *out);

const char *cs_place_host(const cs_front *front, int rank);

#endif
