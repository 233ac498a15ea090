/* replicas.c - DataParallel, cspeed.mode "dp": one process trains several replicas of the model, each in a thread. The
 * engine that the program uses is the master and the first replica. In each step the master copies its parameters to
 * the other replicas, divides the batch among all replicas, and adds the gradients of the other replicas to its own
 * gradients. The order of these additions is the order in which an all-reduce adds over ranks. Only the master updates
 * parameters.
 *
 * Each other replica is an engine without optimizer state, in a world of one rank. The replica's thread opens this
 * engine, because operations of a device belong to the thread that opened the device. Then the thread carries out the
 * master's commands. */
#include "replicas.h"
#include "base/thread.h"

#include <stdio.h>
#include <stdlib.h>

typedef enum { OPEN, FORWARD, BACKWARD, CLOSE } command;

typedef struct {
    ce_replicas *of;
    cs_engine *engine;
    pthread_t thread;
    bool started;
    int number; /* number of this replica, from 1; the master is replica 0 */
    cs_status status;
    char why[512]; /* the message, if the command OPEN has failed */
} replica;

struct ce_replicas {
    cs_engine *master;
    int count;             /* number of replicas without the master */
    const void **inputs;   /* [count + 1] operands of a reduction */
    const cs_batch *batch; /* the batch of all replicas */
    pthread_mutex_t lock;  /* protects the fields from here to `busy` */
    pthread_cond_t ordered, done;
    int64_t orders; /* number of commands given so far */
    command order;
    int busy; /* number of replicas that have not finished the last command */
    ce_replica_costs costs;
    replica each[];
};

/* ---- the threads ---- */

/* Returns the rows of the tensor `all` that belong to the samples of replica `number`. The master is replica 0. If
 * `all` is absent, the result is absent. */
static cs_tensor slice(const cs_engine *engine, cs_tensor all, int number)
{
    int64_t rows = engine->sequences, columns = cs_columns(all);
    size_t bytes = (size_t)(number * rows * columns) * cs_dtype_bytes(all.dtype);
    if (!all.data)
        return all;
    return cs_matrix((char *)all.data + bytes, all.dtype, rows, columns);
}

/* Returns the samples of `batch` that belong to replica `number`. `batch` has the samples of all replicas. */
static cs_batch batch_of(const cs_engine *engine, const cs_batch *batch, int number)
{
    return (cs_batch){ .inputs = slice(engine, batch->inputs, number),
                       .targets = slice(engine, batch->targets, number),
                       .starts = slice(engine, batch->starts, number),
                       .samples = batch->samples ? batch->samples + number * engine->sequences : NULL };
}

static void forward(replica *self)
{
    cs_engine *engine = self->engine, *master = self->of->master;
    cs_batch batch = batch_of(engine, self->of->batch, self->number);
    engine->metrics = master->metrics;
    engine->micro = master->micro;
    if (ce_device_products(engine->device))
        ce_device_use_products(engine->device, ce_device_products(master->device));
    ce_forward_batch(engine, &batch);
}

static void carry_out(replica *self, command order)
{
    if (order == OPEN) {
        self->status = ce_initialize_replica(&self->engine, self->of->master, self->number);
        snprintf(self->why, sizeof self->why, "%s", self->status == CS_OK ? "" : cs_error());
    } else if (order == FORWARD) {
        forward(self);
    } else if (order == BACKWARD) {
        ce_backward_units(self->engine);
        ce_walk_settle(self->engine);
    } else {
        cs_destroy(self->engine);
    }
}

static void *run(void *argument)
{
    replica *self = argument;
    ce_replicas *all = self->of;
    command order = OPEN;
    for (int64_t number = 1; order != CLOSE; number++) {
        pthread_mutex_lock(&all->lock);
        while (all->orders < number)
            pthread_cond_wait(&all->ordered, &all->lock);
        order = all->order;
        pthread_mutex_unlock(&all->lock);
        carry_out(self, order);
        pthread_mutex_lock(&all->lock);
        all->busy--;
        pthread_cond_signal(&all->done);
        pthread_mutex_unlock(&all->lock);
    }
    return NULL;
}

/* ---- the master ---- */

static void give_order(ce_replicas *all, command order)
{
    pthread_mutex_lock(&all->lock);
    all->order = order;
    all->orders++;
    all->busy = all->count;
    pthread_cond_broadcast(&all->ordered);
    pthread_mutex_unlock(&all->lock);
}

static void await(ce_replicas *all)
{
    pthread_mutex_lock(&all->lock);
    while (all->busy > 0)
        pthread_cond_wait(&all->done, &all->lock);
    pthread_mutex_unlock(&all->lock);
}

static cs_status start(ce_replicas *all)
{
    for (int i = 0; i < all->count; i++) {
        replica *one = &all->each[i];
        *one = (replica){ .of = all, .number = i + 1 };
        int error = ce_thread_start(&one->thread, run, one);
        if (error) {
            all->count = i;
            return ce_fail_errno(CS_NO_MEMORY, error, "cannot start the thread of replica %d", i + 1);
        }
        one->started = true;
    }
    give_order(all, OPEN);
    await(all);
    for (int i = 0; i < all->count; i++)
        if (all->each[i].status != CS_OK)
            return ce_fail(all->each[i].status, "replica %d: %s", i + 1, all->each[i].why);
    return CS_OK;
}

cs_status ce_replicas_open(cs_engine *engine)
{
    int count = engine->settings->lanes - 1;
    if (engine->settings->mode != CS_MODE_DP || count == 0)
        return CS_OK;
    ce_replicas *all = calloc(1, sizeof *all + (size_t)count * sizeof *all->each);
    if (!all || !(all->inputs = calloc((size_t)count + 1, sizeof *all->inputs))) {
        free(all);
        return ce_fail(CS_NO_MEMORY, "out of memory for %d replicas", count);
    }
    all->master = engine;
    all->count = count;
    pthread_mutex_init(&all->lock, NULL);
    pthread_cond_init(&all->ordered, NULL);
    pthread_cond_init(&all->done, NULL);
    engine->replicas = all;
    return start(all);
}

void ce_replicas_close(ce_replicas *all)
{
    if (!all)
        return;
    give_order(all, CLOSE);
    for (int i = 0; i < all->count && all->each[i].started; i++)
        pthread_join(all->each[i].thread, NULL);
    pthread_mutex_destroy(&all->lock);
    pthread_cond_destroy(&all->ordered);
    pthread_cond_destroy(&all->done);
    free(all->inputs);
    free(all);
}

/* ---- a step ---- */

/* Copies all parameters to the other replicas. */
static void hand_out(ce_replicas *all)
{
    cs_engine *master = all->master;
    double begun = ce_clock_seconds();
    ce_walk_settle(master);
    for (int i = 0; i < all->count; i++)
        for (int unit = 0; unit < master->model->total; unit++)
            all->costs.handed_out += ce_shard_copy(all->each[i].engine->shards[unit], master->shards[unit]);
    all->costs.busy += ce_clock_seconds() - begun;
}

void ce_replicas_forward(cs_engine *engine, const cs_batch *batch)
{
    ce_replicas *all = engine->replicas;
    if (engine->micro == 0) {
        all->costs.begun = all->costs.begun > 0 ? all->costs.begun : ce_clock_seconds();
        hand_out(all);
    }
    cs_batch own = batch_of(engine, batch, 0);
    all->batch = batch;
    give_order(all, FORWARD);
    ce_forward_batch(engine, &own);
    await(all);
    for (int i = 0; i < all->count && engine->micro == engine->settings->accumulation - 1; i++) {
        engine->loss_rows_counted += all->each[i].engine->loss_rows_counted;
        engine->targets_counted += all->each[i].engine->targets_counted;
    }
}

void ce_replicas_backward(cs_engine *engine)
{
    give_order(engine->replicas, BACKWARD);
    ce_backward_units(engine);
    ce_walk_settle(engine);
    await(engine->replicas);
}

void ce_replicas_gather(cs_engine *engine)
{
    ce_replicas *all = engine->replicas;
    if (!all)
        return;
    all->costs.gathering = ce_clock_seconds();
    for (int unit = 0; unit < engine->model->count; unit++) {
        ce_shard *own = engine->shards[unit];
        all->inputs[0] = ce_shard_sum(own);
        for (int i = 0; i < all->count; i++)
            all->inputs[i + 1] = ce_shard_sum(all->each[i].engine->shards[unit]);
        all->costs.gathered += (uint64_t)all->count * ce_shard_add_up(own, all->inputs, all->count + 1);
    }
    for (int i = 0; i < all->count; i++)
        ce_exact_merge(&engine->judge.device->sums.loss, &all->each[i].engine->judge.device->sums.loss);
}

void ce_replicas_end_step(cs_engine *engine)
{
    ce_replicas *all = engine->replicas;
    if (!all)
        return;
    double now = ce_clock_seconds();
    all->costs.busy += now - all->costs.gathering;
    all->costs.seconds += now - all->costs.begun;
    all->costs.begun = 0;
}

ce_replica_costs ce_replicas_costs(const cs_engine *engine)
{
    return engine->replicas ? engine->replicas->costs : (ce_replica_costs){ 0 };
}
