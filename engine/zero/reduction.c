/* reduction.c - how gradients become sums over ranks, and new values reach the ranks: a row of functions for each way
 * in which a stage divides gradients and state, from which ce_shard_open chooses once (ce_reduction). */
#include "zero/part.h"
#include "base/trace.h"
#include "comm/common.h"

/* Stores a gradient in the sum: the gradient of the first micro-batch overwrites the sum, that of a later micro-batch
 * is added to it. */
static void put(ce_shard *shard, cs_tensor sum, cs_tensor gradient)
{
    if (shard->micro == CE_FIRST_MICRO_BATCH)
        ce_state_convert(ce_part_stream(shard, CE_COMM), sum, gradient, 1);
    else
        ce_state_add(ce_part_stream(shard, CE_COMM), sum, gradient);
}

/* Multiplies fp32 elements by `factor` and converts them to `dtype`. If `dtype` is fp32, the result replaces the
 * elements; otherwise it is written to ce_zero.wire. Returns the address of the result. */
static void *pack(ce_shard *shard, void *from, int64_t count, cs_dtype dtype, float factor)
{
    void *packed = dtype == CS_F32 ? from : shard->zero->wire;
    if (dtype != CS_F32 || factor != 1)
        ce_state_convert(ce_part_stream(shard, CE_COMM), cs_vector(packed, dtype, count),
                         cs_vector(from, CS_F32, count), factor);
    return packed;
}

static void keep_whole(void *argument)
{
    ce_shard *shard = argument;
    pack(shard, shard->reducing, shard->padded, CS_F32, shard->zero->prescale_factor);
    put(shard, cs_vector(shard->sum, shard->zero->precision.sums, shard->padded),
        cs_vector(shard->reducing, CS_F32, shard->padded));
}

static void reduce_part(void *argument)
{
    ce_shard *shard = argument;
    ce_precision types = shard->zero->precision;
    int64_t count = ce_range_length(shard->part);
    bool straight = shard->micro == CE_FIRST_MICRO_BATCH && types.wire == types.sums;
    void *sent = pack(shard, shard->reducing, shard->padded, types.wire, shard->zero->prescale_factor);
    void *own_part = ce_part_at(sent, types.wire, shard->part.from);
    double traced = ce_trace_begin();
    bool added = !straight && types.wire == CS_F32 && types.sums == CS_F32 &&
                 ce_comm_reduce_scatter_add(shard->zero->comm, shard->sum, sent, count);
    if (!added)
        cs_comm_reduce_scatter(shard->zero->comm, straight ? shard->sum : own_part, sent, count, types.wire, CS_SUM);
    ce_trace_end(CE_TRACE_COMMUNICATION, "reduce_scatter", ce_part_name(shard), traced);
    if (!added && !straight)
        put(shard, cs_vector(shard->sum, types.sums, count), cs_vector(own_part, types.wire, count));
}

/* Returns the type in which the groups of hybrid sharding add their gradients. If gradients accumulate in 16 bits, they
 * are sent in 16 bits even if `wire` is fp32: most collectives add 16-bit numbers in fp32 and round once, so fp32
 * copies would give the same bits. Only NCCL may round more often. */
cs_dtype ce_reduction_across_type(ce_precision types)
{
    return types.sums == CS_F32 ? types.wire : types.sums;
}

/* Adds the gradient sums of a bucket over the ranks of `comm`. The sums are sent in `dtype`. */
static void reduce_bucket(ce_shard *shard, cs_comm *comm, cs_dtype dtype, float factor, const char *what)
{
    cs_dtype sums = shard->zero->precision.sums;
    int64_t count = shard->zero->buckets[shard->unit->index].elements;
    void *sent = sums == CS_F32 ? pack(shard, shard->sum, count, dtype, factor) : shard->sum;
    double traced = ce_trace_begin();
    cs_comm_all_reduce(comm, sent, count, dtype, CS_SUM);
    ce_trace_end(CE_TRACE_COMMUNICATION, what, ce_part_name(shard), traced);
    if (dtype != sums)
        ce_state_convert(ce_part_stream(shard, CE_COMM), cs_vector(shard->sum, sums, count),
                         cs_vector(sent, dtype, count), 1);
}

static void reduce_groups(void *argument)
{
    ce_shard *shard = argument;
    const ce_zero *zero = shard->zero;
    reduce_bucket(shard, zero->across, ce_reduction_across_type(zero->precision), 1, "all_reduce of groups");
}

static void reduce_replicas(void *argument)
{
    ce_shard *shard = argument;
    const ce_zero *zero = shard->zero;
    reduce_bucket(shard, zero->comm, zero->precision.wire, ce_part_sums_in_place(shard) ? zero->prescale_factor : 1,
                  "all_reduce");
}

/* ZeRO stage 1: computes this rank's part of the gradient sum over the ranks of its group, and then over the groups. */
static void reduce_to_part(void *argument)
{
    ce_shard *shard = argument;
    ce_precision types = shard->zero->precision;
    int64_t count = ce_range_length(shard->part);
    void *sent = shard->sum;
    if (ce_part_sums_in_place(shard))
        sent = pack(shard, shard->sum, shard->padded, types.wire, shard->zero->prescale_factor);
    void *own_part = ce_part_at(sent, types.wire, shard->part.from);
    double traced = ce_trace_begin();
    cs_comm_reduce_scatter(shard->zero->comm, own_part, sent, count, types.wire, CS_SUM);
    ce_trace_end(CE_TRACE_COMMUNICATION, "reduce_scatter", ce_part_name(shard), traced);
    if (shard->zero->across) {
        traced = ce_trace_begin();
        cs_comm_all_reduce(shard->zero->across, own_part, count, types.wire, CS_SUM);
        ce_trace_end(CE_TRACE_COMMUNICATION, "all_reduce of groups", ce_part_name(shard), traced);
    }
    if (types.wire != types.sums)
        ce_state_convert(ce_part_stream(shard, CE_COMM),
                         cs_vector(ce_part_at(shard->sum, types.sums, shard->part.from), types.sums, count),
                         cs_vector(own_part, types.wire, count), 1);
}

static void spread_values(void *argument)
{
    ce_shard *shard = argument;
    double traced = ce_trace_begin();
    cs_comm_all_gather(shard->zero->comm, shard->home, ce_part_home(shard, shard->part.from),
                       ce_range_length(shard->part), ce_stage_values(shard->zero, shard->unit));
    ce_trace_end(CE_TRACE_COMMUNICATION, "publish", ce_part_name(shard), traced);
}

const ce_reduction *ce_reduction_of(const ce_zero *zero)
{
    static const ce_reduction replicated = { keep_whole, reduce_replicas, NULL },
                              partitioned = { keep_whole, reduce_to_part, spread_values },
                              sharded[2] = { { reduce_part, NULL, spread_values }, { reduce_part, NULL, NULL } },
                              hybrid[2] = { { reduce_part, reduce_groups, spread_values },
                                            { reduce_part, reduce_groups, NULL } };
    ce_stage stage = zero->stage;
    if (stage.optim == CE_REPLICATED)
        return &replicated;
    if (stage.grads == CE_REPLICATED)
        return &partitioned;
    return &(zero->across ? hybrid : sharded)[stage.params == CE_SHARDED];
}
