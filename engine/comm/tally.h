/* tally.h - a record of every collective by operation and size: DeepSpeed's comms_logger.
 *
 * Times are taken where the collective runs, in the stream's own thread, so that nothing waits for a measurement; those
 * of a far device are waited for, as DeepSpeed does. They include waiting for the peers. The tables keep the last 512
 * latencies of a size, for means without the slowest and fastest tenth. */
#ifndef CS_COMM_TALLY_H
#define CS_COMM_TALLY_H

#include "cspeed/comm.h"

typedef struct {
    bool enabled, verbose; /* verbose: a line each time, from rank 0 */
    uint32_t operations;   /* bit CS_BEAT_...: which are recorded     */
} cs_tally_settings;

/* Records from here on what comm does; without `enabled` nothing, and at no cost. */
void cs_comm_record(cs_comm *comm, const cs_tally_settings *settings);
/* DeepSpeed's log_summary(show_straggler=True): rank 0 prints the tables. Collective. Nothing was recorded: nothing. */
void cs_comm_log_summary(cs_comm *comm);

/* ---- for comm.c ---- */

typedef struct cs_tally cs_tally;

/* By DeepSpeed's name ("all_gather_into_tensor") or this library's ("all_gather"): CS_BEAT_..., 0 for another. */
int cs_tally_find(const char *name);

cs_tally *cs_tally_new(const cs_tally_settings *settings, int ranks);
void cs_tally_free(cs_tally *tally); /* accepts NULL */
/* `bytes`: the vector of one rank, as the collectives of comm.h count it. Accepts NULL. */
void cs_tally_note(cs_tally *tally, int operation, uint64_t bytes, double seconds);
void cs_tally_print(cs_tally *tally, cs_comm *comm);

#endif
