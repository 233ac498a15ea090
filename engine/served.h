/* served.h - cspeed.mode "ps": workers compute gradients, and parameter servers update the parameters. */
#ifndef CS_ENGINE_SERVED_H
#define CS_ENGINE_SERVED_H

#include "engine.h"

/* ---- served.c: a parameter server, cspeed.mode "ps" ---- */
/* Prepares engine->lanes, engine->served and engine->zero for rank `rank`, which is a worker or a server. */
void ce_served_place(cs_engine *engine, int rank);
/* `memory` is the result of a worker's dry run. Sets memory->sent. For a server, also sets memory->gradient_rows,
 * memory->activations and memory->prediction; ce_dry_run_persistent sets the members that count a server's state. */
void ce_served_measure(const cs_engine *engine, cs_memory *memory);
/* Called after the dry run of a worker: makes this rank a worker or a server, and sets engine->memory to the memory
 * that this rank needs. */
cs_status ce_served_prepare(cs_engine *engine);
bool ce_served_serves(const cs_engine *engine); /* true if this rank is a server */
/* Replaces `count` integers of 64 bits by their sums over all ranks. With parameter servers, workers send their
 * integers to a server and not to each other. Collective. */
void ce_served_add_up(cs_engine *engine, void *data, size_t count);

/* ---- served_async.c: cspeed.ps.async; without this key all functions but ce_served_is_async do nothing ---- */
bool ce_served_is_async(const cs_engine *engine);
cs_status ce_served_async_open(cs_engine *engine);
void ce_served_async_close(cs_engine *engine); /* waits until the other ranks close too */
/* On a worker, after the verdict on a step: sends the step's gradients and receives new values; may wait for slower
 * workers. */
void ce_served_async_exchange(cs_engine *engine, const ce_update_terms *terms);
/* On a server: serves the workers until each has done one more step. */
void ce_served_async_serve(cs_engine *engine);
size_t ce_served_async_sent(const cs_engine *engine); /* bytes that a worker sends in a step, without gradients */
/* On a server: returns how many times a worker began a step when it was exactly `steps` steps ahead of the slowest
 * worker. */
int64_t ce_served_async_ahead(const cs_engine *engine, int64_t steps);

#endif
