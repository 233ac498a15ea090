/* call.c - compares the calls of two ranks and prints them if they differ. */
#include "comm/call.h"
#include "base/beat.h"
#include "base/must.h"

#include <stdio.h>

const char *ce_call_name(int what)
{
    return ce_beat_names[what];
}

bool ce_call_is_message(const ce_call *call)
{
    return call->what >= CE_BEAT_SEND;
}

bool ce_call_same(const ce_call *one, const ce_call *other)
{
    if (ce_call_is_message(one))
        return ce_call_is_message(other);
    return one->what == other->what && one->count == other->count && one->dtype == other->dtype &&
           one->op == other->op && one->root == other->root && one->number == other->number;
}

static bool has_root(const ce_call *call)
{
    return call->what == CE_BEAT_BROADCAST || call->what == CE_BEAT_SCATTER || call->what == CE_BEAT_GATHER ||
           call->what == CE_BEAT_REDUCE;
}

static bool has_operation(const ce_call *call)
{
    return call->what == CE_BEAT_ALL_REDUCE || call->what == CE_BEAT_REDUCE_SCATTER || call->what == CE_BEAT_REDUCE;
}

static void describe(char *text, size_t bytes, const ce_call *call)
{
    static const char *const dtypes[] = { "f32", "bf16", "f16", "i32", "i64", "u8" };
    static const char *const ops[] = { "sum", "min", "max", "avg", "prod" };
    int length = snprintf(text, bytes, "%s", ce_beat_names[call->what]);
    if (call->what == CE_BEAT_BARRIER || ce_call_is_message(call))
        return;
    length +=
        snprintf(text + length, bytes - (size_t)length, " of %lld %s", (long long)call->count, dtypes[call->dtype]);
    if (has_operation(call))
        length += snprintf(text + length, bytes - (size_t)length, " (%s)", ops[call->op]);
    if (has_root(call))
        snprintf(text + length, bytes - (size_t)length, " %s rank %d",
                 call->what == CE_BEAT_GATHER || call->what == CE_BEAT_REDUCE ? "to" : "from", call->root);
}

void ce_call_refuse(int rank, const ce_call *own_call, int peer, const ce_call *other)
{
    char mine[128], its[128], numbers[96] = "";
    describe(mine, sizeof mine, own_call);
    describe(its, sizeof its, other);
    if (own_call->number != other->number && !ce_call_is_message(own_call) && !ce_call_is_message(other))
        snprintf(numbers, sizeof numbers, " (collective number %u of rank %d, but number %u of rank %d)",
                 own_call->number, rank, other->number, peer);
    else if (own_call->what == other->what && own_call->root != other->root && !has_root(own_call))
        snprintf(numbers, sizeof numbers, " (with different counts for some ranks)");
    ce_fatal(CS_DISAGREE,
             "rank %d calls %s, but rank %d calls %s%s: all ranks must call the same collectives in the same "
             "order",
             rank, mine, peer, its, numbers);
}
