/* call.c - compares the collective calls of two ranks and prints them if they differ. */
#include "comm/call.h"
#include "base/beat.h"
#include "base/must.h"

#include <stdio.h>

const char *ce_call_name(int what)
{
    return ce_beat_names[what];
}

bool ce_call_same(const ce_call *one, const ce_call *other)
{
    return one->what == other->what && one->count == other->count && one->dtype == other->dtype &&
           one->op == other->op && one->root == other->root;
}

static void describe(char *text, size_t bytes, const ce_call *call)
{
    static const char *const dtypes[] = { "f32", "bf16", "f16", "i32", "i64", "u8" };
    static const char *const ops[] = { "sum", "min", "max" };
    int length = snprintf(text, bytes, "%s", ce_beat_names[call->what]);
    if (call->what == CS_BEAT_BARRIER)
        return;
    length +=
        snprintf(text + length, bytes - (size_t)length, " of %lld %s", (long long)call->count, dtypes[call->dtype]);
    if (call->what == CS_BEAT_ALL_REDUCE || call->what == CS_BEAT_REDUCE_SCATTER)
        snprintf(text + length, bytes - (size_t)length, " (%s)", ops[call->op]);
    if (call->what == CS_BEAT_BROADCAST)
        snprintf(text + length, bytes - (size_t)length, " from rank %d", call->root);
}

void ce_call_refuse(int rank, const ce_call *own_call, int peer, const ce_call *other)
{
    char mine[128], its[128];
    describe(mine, sizeof mine, own_call);
    describe(its, sizeof its, other);
    ce_fatal(CS_DISAGREE,
             "rank %d calls %s, but rank %d calls %s: all ranks must call the same collectives in the same "
             "order",
             rank, mine, peer, its);
}
