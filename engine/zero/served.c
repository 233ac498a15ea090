/* served.c - the verbs of a shard in the mode of a parameter server: gradients are pushed to the servers, new values
 * are pulled from the servers, and sums of integers go through the first server. Workers and servers exchange messages;
 * two workers never exchange messages.
 *
 * All ranks process the units in the same order. For each unit, a worker exchanges messages with the servers in
 * ascending order, and a server with the workers in ascending order. Therefore no two ranks wait for each other. */
#include "zero/part.h"
#include "base/trace.h"
#include "comm/collective/reduction.h"

#include <stdlib.h>

static void send_to(const ce_zero *zero, const void *data, size_t bytes, int rank)
{
    zero->served->sent[rank] += bytes;
    cs_comm_send(zero->comm, data, bytes, rank);
}

static int server_rank(const ce_served *served, int server)
{
    return served->workers + server;
}

/* Returns the number of elements of the longest part of a row that a server holds. */
static size_t longest_part(const ce_zero *zero, const cs_model *model)
{
    size_t longest = 0;
    for (int i = 0; i < model->total; i++) {
        size_t part = (size_t)(ce_stage_padded(zero, model->units[i]->length) / zero->world);
        longest = part > longest ? part : longest;
    }
    return longest;
}

size_t ce_served_staging(const ce_zero *zero, const cs_model *model)
{
    return (size_t)zero->served->workers * longest_part(zero, model) * sizeof(float);
}

cs_status ce_served_open(ce_zero *zero, const cs_model *model)
{
    ce_served *served = zero->served;
    int workers = served->workers;
    served->longest = longest_part(zero, model);
    served->sent = calloc((size_t)(workers + served->servers), sizeof *served->sent);
    if (served->serves) {
        served->staging = malloc(ce_served_staging(zero, model) + 1);
        served->inputs = calloc((size_t)workers, sizeof *served->inputs);
    }
    if (!served->sent || (served->serves && (!served->staging || !served->inputs)))
        return ce_fail(CS_NO_MEMORY, "out of memory for the gradients of %d workers", workers);
    for (int worker = 0; served->serves && worker < workers; worker++)
        served->inputs[worker] = served->staging + (size_t)worker * served->longest;
    return CS_OK;
}

void ce_served_close(ce_served *served)
{
    free(served->sent);
    free(served->staging);
    free(served->inputs);
}

/* ---- gradients ---- */

/* Returns the number of elements that each server holds of the unit's parameter row. */
static int64_t part_count(const ce_shard *shard)
{
    return shard->padded / shard->zero->world;
}

void ce_served_push(ce_shard *shard, int server)
{
    int64_t count = part_count(shard);
    float *sum = shard->sum;
    send_to(shard->zero, sum + server * count, (size_t)count * sizeof *sum, server_rank(shard->zero->served, server));
}

void ce_served_take(ce_shard *shard, int worker)
{
    cs_comm_receive(shard->zero->comm, shard->sum, (size_t)part_count(shard) * sizeof(float), worker);
}

static void take_all(ce_shard *shard)
{
    const ce_served *served = shard->zero->served;
    int64_t count = part_count(shard);
    for (int worker = 0; worker < served->workers; worker++)
        cs_comm_receive(shard->zero->comm, served->staging + (size_t)worker * served->longest,
                        (size_t)count * sizeof(float), worker);
    ce_reduce(&shard->sum, 1, served->inputs, served->workers, count, CS_F32, CS_SUM);
}

void ce_served_collect(ce_shard *shard)
{
    const ce_served *served = shard->zero->served;
    double traced = ce_trace_begin();
    if (served->serves)
        take_all(shard);
    for (int server = 0; !served->serves && server < served->servers; server++)
        ce_served_push(shard, server);
    ce_trace_end(CS_TRACE_COMMUNICATION, "push", ce_part_name(shard), traced);
}

/* ---- values ---- */

void ce_served_give(ce_shard *shard, int worker)
{
    const ce_zero *zero = shard->zero;
    send_to(zero, shard->home, (size_t)part_count(shard) * cs_dtype_bytes(zero->precision.values), worker);
}

void ce_served_pull(ce_shard *shard, int server)
{
    const ce_zero *zero = shard->zero;
    size_t bytes = (size_t)part_count(shard) * cs_dtype_bytes(zero->precision.values);
    cs_comm_receive(zero->comm, (char *)shard->home + (size_t)server * bytes, bytes, server_rank(zero->served, server));
}

void ce_served_deliver(ce_shard *shard)
{
    const ce_served *served = shard->zero->served;
    double traced = ce_trace_begin();
    for (int worker = 0; served->serves && worker < served->workers; worker++)
        ce_served_give(shard, worker);
    for (int server = 0; !served->serves && server < served->servers; server++)
        ce_served_pull(shard, server);
    ce_trace_end(CS_TRACE_COMMUNICATION, "pull", ce_part_name(shard), traced);
}

/* ---- sums of integers ---- */

enum { SUMMED = 256 };

/* The first server adds up the numbers of all ranks and sends the sums to the other ranks. */
static void sum_some(const ce_zero *zero, int64_t *data, size_t count)
{
    int root = server_rank(zero->served, 0), ranks = zero->served->workers + zero->served->servers;
    int64_t other[SUMMED];
    size_t bytes = count * sizeof *data;
    if (cs_comm_rank(zero->comm) != root) {
        send_to(zero, data, bytes, root);
        cs_comm_receive(zero->comm, data, bytes, root);
        return;
    }
    for (int rank = 0; rank < ranks; rank++) {
        if (rank == root)
            continue;
        cs_comm_receive(zero->comm, other, bytes, rank);
        for (size_t i = 0; i < count; i++)
            data[i] = (int64_t)((uint64_t)data[i] + (uint64_t)other[i]);
    }
    for (int rank = 0; rank < ranks; rank++)
        if (rank != root)
            send_to(zero, data, bytes, rank);
}

void ce_served_sum(const ce_zero *zero, void *data, size_t count)
{
    for (size_t at = 0; at < count; at += SUMMED)
        sum_some(zero, (int64_t *)data + at, count - at < SUMMED ? count - at : SUMMED);
}
