/* collectives.c - the collectives and messages of comm.h: each checks its arguments, updates the heartbeat, lets the
 * transport move the data, and counts the traffic. */
#include "comm/collective/collective.h"
#include "base/misuse.h"
#include "comm/collective/exchange.h"
#include "comm/common.h"
#include "comm/device/side.h"
#include "base/clock.h"
#include "base/beat.h"
#include "base/must.h"
#include "base/plural.h"
#include "base/rng.h"

#include <string.h>

void ce_comm_require_member(const cs_comm *comm, const char *what)
{
    if (comm->world.rank < 0)
        ce_fatal(CS_MISUSE,
                 "%s of a group to which this rank does not belong: only ranks that passed its color to "
                 "cs_comm_split may call it",
                 what);
}

/* If times are recorded, waits for the collective on GPU memory. Without this wait, the recorded time would be the time
 * that queueing the collective takes. */
static void settle(cs_comm *comm)
{
    if (comm->logger && comm->device_side)
        ce_stream_sync(ce_device_stream(comm->device_side->device, CE_COMM));
}

void ce_comm_show(cs_comm *comm, ce_call call)
{
    comm->call = call;
    if (comm->transport->announce)
        comm->transport->announce(comm);
}

void ce_comm_show_none(cs_comm *comm)
{
    ce_comm_show(comm, (ce_call){ .what = CE_BEAT_NONE, .number = comm->call.number });
}

/* Begins a call. It sets call.number; the caller sets the other members of `call`. */
static void begin(cs_comm *comm, ce_call call)
{
    ce_comm_require_member(comm, ce_call_name(call.what));
    /* This assertion fails if two threads use one comm at the same time. */
    CE_ASSERT(!atomic_flag_test_and_set_explicit(&comm->busy, memory_order_acquire));
    call.number = comm->call.number + !ce_call_is_message(&call);
    settle(comm);
    ce_beat_enter(comm->axis, call.what);
    comm->begun = ce_clock_seconds();
    ce_comm_show(comm, call);
}

void ce_comm_check(const cs_comm *comm, int what, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    static const int64_t most = (int64_t)1 << 47; /* the bytes of the address space of a process */
    ce_comm_require_member(comm, ce_call_name(what));
    if ((unsigned)dtype > CS_U8)
        ce_fatal(CS_MISUSE, "%s: the type is %d, which is none of cs_dtype", ce_call_name(what), (int)dtype);
    if ((unsigned)op > CS_PROD)
        ce_fatal(CS_MISUSE, "%s: the operation is %d, which is none of cs_reduce_op", ce_call_name(what), (int)op);
    if (count < 0 || count > most / comm->world.size / (int64_t)cs_dtype_bytes(dtype))
        ce_fatal(CS_MISUSE, "%s: a count of %lld elements over %d rank%s is not possible", ce_call_name(what),
                 (long long)count, comm->world.size, ce_plural(comm->world.size));
}

/* Ends the process if there is no such other rank; `role` says what it is. */
static void check_rank(const cs_comm *comm, int what, const char *role, int rank)
{
    ce_comm_require_member(comm, ce_call_name(what));
    if (rank < 0 || rank >= comm->world.size)
        ce_fatal(CS_MISUSE, "%s: %s %d is none of the %d rank%s of this comm", ce_call_name(what), role, rank,
                 comm->world.size, ce_plural(comm->world.size));
}

/* Ends a call. `message` is the size of one rank's vector, and `sent` the amount that this rank had to send to other
 * ranks, both in bytes. */
static void end(cs_comm *comm, uint64_t message, uint64_t sent)
{
    settle(comm);
    double seconds = ce_clock_seconds() - comm->begun;
    ce_beat_leave(comm->axis);
    comm->traffic.seconds += seconds;
    comm->traffic.bytes += sent;
    comm->traffic.calls++;
    ce_comms_logger_record(comm->logger, comm->call.what, message, seconds);
    if (ce_call_is_message(&comm->call))
        ce_comm_show_none(comm);
    atomic_flag_clear_explicit(&comm->busy, memory_order_release);
}

/* Returns the side of the comm, host or device, whose memory contains the buffer. An empty buffer belongs to the host's
 * side. */
static cs_comm *side_of(cs_comm *comm, const void *data, uint64_t length)
{
    cs_comm *side = comm->device_side;
    if (!side || length == 0 || !ce_device_holds(side->device, data))
        return comm;
    side->call = comm->call;
    return side;
}

static uint64_t bytes_of(int64_t count, cs_dtype dtype)
{
    return (uint64_t)count * cs_dtype_bytes(dtype);
}

/* Returns the minimum number of bytes that a rank must send if every other rank needs `count` elements. */
static uint64_t to_others(const cs_comm *comm, int64_t count, cs_dtype dtype)
{
    return (uint64_t)(comm->world.size - 1) * bytes_of(count, dtype);
}

/* With a root, some ranks only send and others only receive. Ranks that name different roots would then wait for ever, or
 * not notice it. So each rank first compares its call with those of its neighbours, by empty messages around a ring. */
static void compare_around(cs_comm *comm)
{
    int size = comm->world.size, rank = comm->world.rank;
    if (size == 1)
        return;
    ce_exchange_receive(comm, (rank + size - 1) % size, NULL, 0);
    ce_exchange_send(comm, (rank + 1) % size, NULL, 0);
    ce_exchange_run(comm);
}

static void begin_with_root(cs_comm *comm, int beat, int64_t count, cs_dtype dtype, cs_reduce_op op, int root)
{
    ce_comm_check(comm, beat, count, dtype, op);
    check_rank(comm, beat, "the root", root);
    begin(comm, (ce_call){ (uint8_t)beat, (uint8_t)dtype, (uint8_t)op, root, count, 0 });
}

static void refuse_device_memory(const cs_comm *comm, const void *data, int64_t count)
{
    if (comm->device_side && count > 0 && ce_device_holds(comm->device_side->device, data))
        ce_fatal(CS_MISUSE, "this collective works on host memory only, and its buffer is in the memory of a GPU: "
                            "copy it to the host, or use all_reduce, reduce_scatter, all_gather, broadcast, send and "
                            "receive");
}

void cs_comm_all_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    CE_GIVEN(comm);
    ce_comm_check(comm, CE_BEAT_ALL_REDUCE, count, dtype, op);
    begin(comm, (ce_call){ CE_BEAT_ALL_REDUCE, (uint8_t)dtype, (uint8_t)op, 0, count, 0 });
    cs_comm *side = side_of(comm, data, (uint64_t)count);
    side->transport->all_reduce(side, data, count, dtype, op);
    end(comm, bytes_of(count, dtype), 2 * to_others(comm, count, dtype) / (uint64_t)comm->world.size);
}

void cs_comm_reduce_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, cs_reduce_op op)
{
    CE_GIVEN(comm);
    ce_comm_check(comm, CE_BEAT_REDUCE_SCATTER, count, dtype, op);
    begin(comm, (ce_call){ CE_BEAT_REDUCE_SCATTER, (uint8_t)dtype, (uint8_t)op, 0, count, 0 });
    cs_comm *side = side_of(comm, out, (uint64_t)count);
    CE_ASSERT(side_of(comm, in, (uint64_t)count) == side);
    side->transport->reduce_scatter(side, out, in, count, dtype, op);
    end(comm, bytes_of(count, dtype), to_others(comm, count, dtype));
}

bool ce_comm_reduce_scatter_add(cs_comm *comm, float *sum, const float *in, int64_t count)
{
    if (comm->device_side || !comm->transport->reduce_scatter_add)
        return false;
    begin(comm, (ce_call){ CE_BEAT_REDUCE_SCATTER, CS_F32, CS_SUM, 0, count, 0 });
    comm->transport->reduce_scatter_add(comm, sum, in, count);
    end(comm, bytes_of(count, CS_F32), to_others(comm, count, CS_F32));
    return true;
}

void cs_comm_all_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    CE_GIVEN(comm);
    ce_comm_check(comm, CE_BEAT_ALL_GATHER, count, dtype, CS_SUM);
    begin(comm, (ce_call){ CE_BEAT_ALL_GATHER, (uint8_t)dtype, 0, 0, count, 0 });
    cs_comm *side = side_of(comm, out, (uint64_t)count);
    CE_ASSERT(side_of(comm, in, (uint64_t)count) == side);
    side->transport->all_gather(side, out, in, count, dtype);
    end(comm, bytes_of(count, dtype), to_others(comm, count, dtype));
}

void cs_comm_broadcast(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, int root)
{
    CE_GIVEN(comm);
    begin_with_root(comm, CE_BEAT_BROADCAST, count, dtype, CS_SUM, root);
    cs_comm *side = side_of(comm, data, (uint64_t)count);
    if (side == comm)
        compare_around(comm);
    side->transport->broadcast(side, data, count, dtype, root);
    end(comm, bytes_of(count, dtype), comm->world.rank == root ? to_others(comm, count, dtype) : 0);
}

void cs_comm_barrier(cs_comm *comm)
{
    CE_GIVEN(comm);
    begin(comm, (ce_call){ .what = CE_BEAT_BARRIER });
    comm->transport->barrier(comm);
    end(comm, 0, 0);
}

/* ---- collectives of host memory only ---- */

void cs_comm_reduce(cs_comm *comm, void *data, int64_t count, cs_dtype dtype, cs_reduce_op op, int root)
{
    CE_GIVEN(comm);
    refuse_device_memory(comm, data, count);
    begin_with_root(comm, CE_BEAT_REDUCE, count, dtype, op, root);
    compare_around(comm);
    ce_messages_reduce(comm, data, count, dtype, op, root);
    end(comm, bytes_of(count, dtype), comm->world.rank == root ? 0 : bytes_of(count, dtype));
}

void cs_comm_scatter(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, int root)
{
    CE_GIVEN(comm);
    refuse_device_memory(comm, out, count);
    begin_with_root(comm, CE_BEAT_SCATTER, count, dtype, CS_SUM, root);
    compare_around(comm);
    ce_messages_scatter(comm, out, in, count, dtype, root);
    end(comm, bytes_of(count, dtype), comm->world.rank == root ? to_others(comm, count, dtype) : 0);
}

void cs_comm_gather(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype, int root)
{
    CE_GIVEN(comm);
    refuse_device_memory(comm, in, count);
    begin_with_root(comm, CE_BEAT_GATHER, count, dtype, CS_SUM, root);
    compare_around(comm);
    ce_messages_gather(comm, out, in, count, dtype, root);
    end(comm, bytes_of(count, dtype), comm->world.rank == root ? 0 : bytes_of(count, dtype));
}

void cs_comm_all_to_all(cs_comm *comm, void *out, const void *in, int64_t count, cs_dtype dtype)
{
    CE_GIVEN(comm);
    ce_comm_check(comm, CE_BEAT_ALL_TO_ALL, count, dtype, CS_SUM);
    refuse_device_memory(comm, out, count);
    begin(comm, (ce_call){ CE_BEAT_ALL_TO_ALL, (uint8_t)dtype, 0, 0, count, 0 });
    ce_messages_all_to_all(comm, out, in, count, dtype);
    end(comm, bytes_of(count, dtype), to_others(comm, count, dtype));
}

/* Describes a collective with uneven parts: call.count is the sum of `counts`, and call.root is a hash of `counts`. */
static ce_call uneven_call(const cs_comm *comm, int what, const int64_t *counts, cs_dtype dtype, cs_reduce_op op)
{
    ce_call call = { (uint8_t)what, (uint8_t)dtype, (uint8_t)op, 0, 0, 0 };
    uint64_t hash = 1;
    for (int i = 0; i < comm->world.size; i++) {
        ce_comm_check(comm, what, counts[i], dtype, op);
        hash = ce_rng_mix(hash, (uint64_t)counts[i]);
        call.count += counts[i];
    }
    call.root = (int32_t)(hash & INT32_MAX);
    return call;
}

void cs_comm_reduce_scatter_v(cs_comm *comm, void *out, const void *in, const int64_t *counts, cs_dtype dtype,
                              cs_reduce_op op)
{
    CE_GIVEN(comm);
    ce_parts parts = { .counts = counts };
    ce_call call = uneven_call(comm, CE_BEAT_REDUCE_SCATTER, counts, dtype, op);
    refuse_device_memory(comm, in, call.count);
    begin(comm, call);
    int64_t own_count = counts[comm->world.rank];
    ce_among_reduce_scatter(comm, &comm->all, out, in, &parts, dtype, op);
    end(comm, bytes_of(own_count, dtype), bytes_of(call.count - own_count, dtype));
}

void cs_comm_all_gather_v(cs_comm *comm, void *out, const void *in, const int64_t *counts, cs_dtype dtype)
{
    CE_GIVEN(comm);
    ce_parts parts = { .counts = counts };
    ce_call call = uneven_call(comm, CE_BEAT_ALL_GATHER, counts, dtype, CS_SUM);
    refuse_device_memory(comm, out, call.count);
    begin(comm, call);
    int64_t own_count = counts[comm->world.rank];
    ce_among_all_gather(comm, &comm->all, out, in, &parts, dtype);
    end(comm, bytes_of(own_count, dtype), to_others(comm, own_count, dtype));
}

/* ---- messages ---- */

static void begin_message(cs_comm *comm, int beat, int peer)
{
    check_rank(comm, beat, "the peer", peer);
    if (peer == comm->world.rank)
        ce_fatal(CS_MISUSE, "%s: rank %d sends no message to itself", ce_call_name(beat), peer);
    begin(comm, (ce_call){ .what = (uint8_t)beat, .dtype = CS_U8, .root = peer });
}

void cs_comm_send(cs_comm *comm, const void *data, size_t bytes, int to)
{
    CE_GIVEN(comm);
    begin_message(comm, CE_BEAT_SEND, to);
    cs_comm *side = side_of(comm, data, bytes);
    if (side->transport->send) {
        side->transport->send(side, data, bytes, to);
    } else {
        ce_exchange_send(side, to, data, bytes);
        ce_exchange_run(side);
    }
    end(comm, bytes, bytes);
}

void cs_comm_receive(cs_comm *comm, void *data, size_t bytes, int from)
{
    CE_GIVEN(comm);
    begin_message(comm, CE_BEAT_RECEIVE, from);
    cs_comm *side = side_of(comm, data, bytes);
    if (side->transport->receive) {
        side->transport->receive(side, data, bytes, from);
    } else {
        ce_exchange_receive(side, from, data, bytes);
        ce_exchange_run(side);
    }
    end(comm, bytes, 0);
}
