/* replicas.h - cspeed.mode "dp": one process trains replicas of the model, one on each device. */
#ifndef CS_ENGINE_REPLICAS_H
#define CS_ENGINE_REPLICAS_H

#include "engine.h"

typedef struct {
    /* handed_out: bytes of parameters that the master has copied to the other replicas; gathered: bytes of gradients
     * that the master has read from the other replicas */
    uint64_t handed_out, gathered;
    double busy, seconds; /* busy: seconds in which the master worked alone; seconds: seconds of all steps */
    /* begun: time at which the current step began; gathering: time at which the master began to gather the gradients */
    double begun, gathering;
} ce_replica_costs;
cs_status ce_replicas_open(cs_engine *engine); /* does nothing unless the mode is "dp" */
void ce_replicas_close(ce_replicas *replicas); /* accepts NULL */
void ce_replicas_forward(cs_engine *engine, const cs_batch *batch);
void ce_replicas_backward(cs_engine *engine);
/* Called on the master at the gradient accumulation boundary: adds the gradients and losses of all other replicas to
 * the master's own. ce_replicas_gather and ce_replicas_end_step do nothing if there are no other replicas. */
void ce_replicas_gather(cs_engine *engine);
void ce_replicas_end_step(cs_engine *engine);
ce_replica_costs ce_replicas_costs(const cs_engine *engine);
/* initialize.c: opens a replica. The thread that will use the replica must call this function. */
cs_status ce_initialize_replica(cs_engine **replica, const cs_engine *master, int number);

#endif
