/* served_async.c - a parameter server without common steps, cspeed.ps.async: a server applies the gradients of each
 * worker when they arrive, and the worker then goes on with the newest values.
 *
 * Staleness is bounded as in the stale synchronous parallel model (Ho et al., NIPS 2013): a server counts the steps of
 * each worker, and gives no values to a worker that would begin a step more than cspeed.ps.staleness steps ahead of the
 * slowest worker. The slowest worker never has to wait, so no two workers wait for each other. Each server counts by
 * itself; servers exchange nothing. The order in which gradients arrive depends on time, and therefore the results
 * depend on time too. */
#include "served.h"
#include "base/must.h"
#include "base/plural.h"

#include <stdlib.h>
#include <time.h>

enum { PAUSE = 50 * 1000 }; /* nanoseconds between two checks for arrived gradients */

/* The message that a worker sends before its gradients. */
typedef struct {
    ce_step_sums sums;
    ce_update_terms terms; /* the server replaces `gate` and `t` by its own values */
    bool leaves;           /* true: the worker ends, and sends no gradients */
} announcement;

/* The member `from` is used on servers and workers, all other members only on servers. */
struct ce_served_async {
    announcement *from; /* announcements: [workers] on a server; on a worker one element, its own announcement */
    cs_work **coming;   /* [workers] the pending receive into from[worker]; NULL if the worker has left */
    int64_t *steps;     /* [workers] number of steps that each worker has done */
    bool *held;         /* [workers] true if the worker waits for values */
    /* [staleness + 1] ahead[k] is the number of steps that began k steps ahead of the slowest worker */
    int64_t *ahead;
    /* number of calls of ce_served_async_serve; when a call returns, every worker has done at least this many steps */
    int64_t rounds;
};

bool ce_served_is_async(const cs_engine *engine)
{
    return engine->zero.served && engine->settings->ps.async;
}

/* ---- opening, closing ---- */

static void expect(cs_engine *engine, int worker)
{
    ce_served_async *async = engine->async;
    async->coming[worker] = cs_comm_ireceive(engine->comm, &async->from[worker], sizeof async->from[worker], worker);
}

cs_status ce_served_async_open(cs_engine *engine)
{
    size_t workers = (size_t)engine->lanes.count;
    if (!ce_served_is_async(engine))
        return CS_OK;
    ce_served_async *async = engine->async = calloc(1, sizeof *async);
    if (async) {
        async->from = calloc(workers, sizeof *async->from);
        async->coming = calloc(workers, sizeof(cs_work *));
        async->steps = calloc(workers, sizeof *async->steps);
        async->held = calloc(workers, sizeof *async->held);
        async->ahead = calloc((size_t)engine->settings->ps.staleness + 1, sizeof *async->ahead);
    }
    if (!async || !async->from || !async->coming || !async->steps || !async->held || !async->ahead)
        return ce_fail(CS_NO_MEMORY, "out of memory for what a parameter server knows of its workers");
    for (int worker = 0; ce_served_serves(engine) && worker < engine->lanes.count; worker++)
        expect(engine, worker);
    return CS_OK;
}

/* Sends this worker's announcement to a server. */
static void announce(cs_engine *engine, int server)
{
    const ce_served *served = engine->zero.served;
    announcement *own = engine->async->from;
    served->sent[served->workers + server] += sizeof *own;
    cs_work_wait(cs_comm_isend(engine->comm, own, sizeof *own, served->workers + server));
}

void ce_served_async_close(cs_engine *engine)
{
    ce_served_async *async = engine->async;
    if (!async)
        return;
    if (async->coming && ce_served_serves(engine)) {
        for (int worker = 0; worker < engine->lanes.count; worker++)
            if (async->coming[worker])
                cs_work_wait(async->coming[worker]);
    } else if (async->from) {
        async->from->leaves = true;
        for (int server = 0; server < engine->zero.served->servers; server++)
            announce(engine, server);
    }
    free(async->from);
    free(async->coming);
    free(async->steps);
    free(async->held);
    free(async->ahead);
    free(async);
    engine->async = NULL;
}

/* ---- a worker ---- */

size_t ce_served_async_sent(const cs_engine *engine)
{
    return (size_t)engine->served.servers * sizeof(announcement);
}

/* For each server in turn: sends this worker's gradients to the server, and receives the new values from the server
 * before the worker goes on to the next server. So when a server sends values to this worker, this worker waits for
 * this server and for no other. */
void ce_served_async_exchange(cs_engine *engine, const ce_update_terms *terms)
{
    announcement *own = engine->async->from;
    double begun = ce_clock_seconds();
    ce_walk_settle(engine);
    own->sums = engine->judge.host->sums;
    own->terms = *terms;
    for (int server = 0; server < engine->zero.served->servers; server++) {
        announce(engine, server);
        for (int i = 0; i < engine->model->count; i++)
            ce_served_push(engine->shards[i], server);
        for (int i = 0; i < engine->model->count; i++)
            ce_served_pull(engine->shards[i], server);
    }
    engine->seconds.publish += ce_clock_seconds() - begun;
}

/* ---- a server ---- */

static int64_t slowest(const cs_engine *engine)
{
    const int64_t *steps = engine->async->steps;
    int64_t min = steps[0];
    for (int worker = 1; worker < engine->lanes.count; worker++)
        min = steps[worker] < min ? steps[worker] : min;
    return min;
}

/* Waits for the announcement of any worker. Each search begins with the worker after `last`. */
static int next_worker(cs_engine *engine, int last)
{
    int workers = engine->lanes.count;
    for (;; nanosleep(&(struct timespec){ .tv_nsec = PAUSE }, NULL))
        for (int i = 1; i <= workers; i++) {
            int worker = (last + i) % workers;
            if (engine->async->coming[worker] && cs_work_is_done(engine->async->coming[worker]))
                return worker;
        }
}

/* Updates this server's parameters with the gradients of one worker. */
static void apply(cs_engine *engine, int worker)
{
    const announcement *from = &engine->async->from[worker];
    ce_step_terms judged = ce_step_judge_terms(engine);
    ce_verdict verdict = ce_verdict_judge(&from->sums, &judged, engine->scaler);
    ce_update_terms terms = from->terms;
    for (int i = 0; i < engine->model->count; i++)
        ce_served_take(engine->shards[i], worker);
    engine->updates++;
    terms.t = engine->updates;
    terms.gate = &verdict.gate;
    ce_update_begin(engine->update, &terms);
    for (int i = 0; i < engine->model->count; i++)
        ce_update_take(engine->update, i);
    ce_walk_settle(engine);
}

/* Sends the newest values to each waiting worker whose next step is at most cspeed.ps.staleness steps ahead of the
 * slowest worker. */
static void give(cs_engine *engine)
{
    ce_served_async *async = engine->async;
    int64_t min = slowest(engine);
    for (int worker = 0; worker < engine->lanes.count; worker++) {
        int64_t ahead = async->steps[worker] - min;
        if (!async->held[worker] || ahead > engine->settings->ps.staleness)
            continue;
        async->held[worker] = false;
        async->ahead[ahead]++;
        for (int i = 0; i < engine->model->count; i++)
            ce_served_give(engine->shards[i], worker);
    }
}

/* Checks that a worker that ends has done as many steps as this server. A worker may end before slower workers. */
static void check_end(const ce_served_async *async, int worker)
{
    if (async->steps[worker] < async->rounds)
        ce_fatal(CS_MISUSE,
                 "rank %d has ended after %lld step%s, and other ranks do more: all ranks of a parameter server do the "
                 "same number of steps",
                 worker, (long long)async->steps[worker], ce_plural(async->steps[worker]));
}

void ce_served_async_serve(cs_engine *engine)
{
    ce_served_async *async = engine->async;
    int worker = 0;
    for (async->rounds++; slowest(engine) < async->rounds; give(engine)) {
        worker = next_worker(engine, worker);
        cs_work_wait(async->coming[worker]);
        async->coming[worker] = NULL;
        if (async->from[worker].leaves) {
            check_end(async, worker);
            continue;
        }
        apply(engine, worker);
        async->steps[worker]++;
        async->held[worker] = true;
        expect(engine, worker);
    }
    engine->metrics.samples += engine->settings->train_batch_size;
    engine->metrics.step++;
    engine->scheduled++;
}

int64_t ce_served_async_ahead(const cs_engine *engine, int64_t steps)
{
    return engine->async ? engine->async->ahead[steps] : 0;
}
