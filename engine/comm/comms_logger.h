/* comms_logger.h - statistics of collectives by operation and message size: DeepSpeed's comms_logger.
 *
 * Times are measured in the thread that runs the collective. On a CPU the measurement delays nothing; on a GPU the host
 * waits for each recorded collective, as DeepSpeed does. Nonblocking calls are not recorded. Times include waiting for
 * peers. The last 512 times of each operation and size are stored. A mean is computed from these times without the
 * slowest tenth and the fastest tenth. */
#ifndef CE_COMM_COMMS_LOGGER_H
#define CE_COMM_COMMS_LOGGER_H

#include "cspeed/comm.h"

typedef struct {
    bool enabled, verbose; /* `verbose`: rank 0 prints a line for each collective */
    uint32_t operations;   /* bit CE_BEAT_... is 1 if that operation is recorded */
} ce_comms_logger_settings;

/* Starts to record the collectives of comm. If `enabled` is false, nothing is recorded, and calls take no more time
 * than without this function. */
void ce_comm_record(cs_comm *comm, const ce_comms_logger_settings *settings);
/* Prints on rank 0 the tables of DeepSpeed's log_summary(show_straggler=True), if anything was recorded. The call is
 * collective. */
void ce_comm_log_summary(cs_comm *comm);

/* ---- for comm.c and collectives.c ---- */

typedef struct ce_comms_logger ce_comms_logger;

/* Returns the constant CE_BEAT_... for DeepSpeed's name ("all_gather_into_tensor") or this library's name
 * ("all_gather") of an operation, or 0 if the name is unknown. */
int ce_comms_logger_find(const char *name);

ce_comms_logger *ce_comms_logger_new(const ce_comms_logger_settings *settings, int ranks);
void ce_comms_logger_free(ce_comms_logger *logger); /* frees `logger`, which may be NULL */
/* Records one call. `bytes` is the size of one rank's vector, as comm.h counts it. `logger` may be NULL. */
void ce_comms_logger_record(ce_comms_logger *logger, int operation, uint64_t bytes, double seconds);
void ce_comms_logger_print(ce_comms_logger *logger, cs_comm *comm);

#endif
