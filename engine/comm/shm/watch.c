/* watch.c - the checks that a waiting rank makes ten times a second: whether the other ranks live, whether they make
 * the same call, and whether the time limit of the call is over.
 *
 * Every rank shows its current call, and how many collectives it has called, in the header of its segment; after a
 * message it shows no call. Ranks that meet at a barrier or by a message compare their calls there. Ranks whose calls
 * never meet, for example a gather and an all_reduce, would wait for ever. These checks detect such a pair in three ways:
 * the other rank shows a different call with the same number, or it has long been waiting for a message from or to this
 * rank, or this rank waits for a message of it and it has long been in a later collective. */
#include "comm/shm/shm.h"
#include "base/beat.h"
#include "base/clock.h"
#include "base/must.h"

#include <poll.h>

enum { LOOKS_UNTIL_STUCK = 50 }; /* number of checks; 50 checks take five seconds */

void ce_shm_announce(cs_comm *comm)
{
    const ce_shm *shm = comm->private_data;
    ce_shm_shown *shown = &ce_shm_header_of(shm, shm->rank)->shown;
    const ce_call *call = &comm->call;
    uint32_t version = atomic_load_explicit(&shown->version, memory_order_relaxed);
    uint64_t kind = call->what | (uint64_t)call->dtype << 8 | (uint64_t)call->op << 16;
    /* `version` works as a sequence lock. It is odd while the other members are being written. The release order has
     * the effect that a rank that reads one of the new values also reads the odd version, or a later one. */
    atomic_store_explicit(&shown->version, version + 1, memory_order_relaxed);
    atomic_store_explicit(&shown->kind, kind | (uint64_t)(uint32_t)call->root << 32, memory_order_release);
    atomic_store_explicit(&shown->count, call->count, memory_order_release);
    atomic_store_explicit(&shown->number, call->number, memory_order_release);
    atomic_store_explicit(&shown->version, version + 2, memory_order_release);
}

/* Reads the call that a rank shows in its header. Returns false if that rank is writing it at this moment. */
static bool read_shown(const ce_shm *shm, int rank, ce_call *call, uint32_t *version)
{
    ce_shm_shown *shown = &ce_shm_header_of(shm, rank)->shown;
    *version = atomic_load_explicit(&shown->version, memory_order_acquire);
    uint64_t kind = atomic_load_explicit(&shown->kind, memory_order_acquire);
    *call = (ce_call){ .what = (uint8_t)kind,
                       .dtype = (uint8_t)(kind >> 8),
                       .op = (uint8_t)(kind >> 16),
                       .root = (int32_t)(kind >> 32),
                       .count = atomic_load_explicit(&shown->count, memory_order_acquire),
                       .number = atomic_load_explicit(&shown->number, memory_order_acquire) };
    return *version % 2 == 0 && *version == atomic_load_explicit(&shown->version, memory_order_relaxed);
}

/* Returns true if the message of `rank` waits for this rank: `rank` sends to this rank and the channel is full, or
 * `rank` receives from this rank and the channel is empty. */
static bool waits_for_message(const ce_shm *shm, int rank, const ce_call *its)
{
    bool sends = its->what == CE_BEAT_SEND;
    const ce_shm_channel *channel =
        sends ? ce_shm_channel_of(shm, rank, shm->rank) : ce_shm_channel_of(shm, shm->rank, rank);
    return its->root == shm->rank && atomic_load(&channel->filled) - atomic_load(&channel->emptied) == (sends ? 2 : 0);
}

/* Returns true if this rank's call and the call of `rank` can never complete. There are three cases. Both ranks are in
 * collectives that have the same number but are different. Or this rank is in a collective, and `rank`, which must make
 * this collective next, is stuck in a message to or from this rank. Or this rank waits for `rank` in a collective
 * (`awaited`), and `rank` is stuck in a later one. */
static bool never_meet(const ce_shm *shm, const ce_call *own_call, int rank, const ce_call *its, bool stuck,
                       bool awaited)
{
    if (ce_call_is_message(own_call) || its->what == CE_BEAT_NONE)
        return false;
    if (ce_call_is_message(its))
        return stuck && its->number + 1 == own_call->number && waits_for_message(shm, rank, its);
    if (its->number == own_call->number)
        return !ce_call_same(own_call, its);
    return stuck && awaited && (int32_t)(its->number - own_call->number) > 0;
}

static void check_calls(ce_shm *shm, int owner)
{
    const ce_call *own_call = &shm->comm->call;
    for (int i = 0; i < shm->size; i++) {
        ce_shm_look *look = &shm->looks[i];
        ce_call its;
        uint32_t version;
        if (i == shm->rank || !read_shown(shm, i, &its, &version))
            continue;
        look->times = version == look->version ? look->times + 1 : 0;
        look->version = version;
        if (never_meet(shm, own_call, i, &its, look->times >= LOOKS_UNTIL_STUCK, i == owner))
            ce_call_refuse(ce_comm_name(shm->comm, shm->rank), own_call, ce_comm_name(shm->comm, i), &its);
    }
}

_Noreturn void ce_shm_lose(ce_shm *shm, int peer, const char *how)
{
    atomic_store(&ce_shm_header_of(shm, shm->rank)->gave_up, 1);
    ce_fatal(CS_NO_PEER, "rank %d %s (while this rank waited in %s)", ce_comm_name(shm->comm, peer), how,
             ce_call_name(shm->comm->call.what));
}

void ce_shm_lose_rank(cs_comm *comm, int peer, const char *how)
{
    ce_shm_lose(comm->private_data, peer, how);
}

int ce_shm_missing(cs_comm *comm, bool *closed)
{
    const ce_shm *shm = comm->private_data;
    int missing = -1, left = -1;
    for (int i = 0; i < shm->size; i++) {
        ce_shm_header *header = ce_shm_header_of(shm, i);
        struct pollfd life = { i == shm->rank ? -1 : shm->handles[i].life, POLLIN, 0 };
        if (poll(&life, 1, 0) <= 0 && !atomic_load(&header->closed))
            continue;
        if (atomic_load(&header->closed))
            left = i;
        else if (missing < 0 || atomic_load(&ce_shm_header_of(shm, missing)->gave_up))
            missing = i;
    }
    *closed = missing < 0;
    return missing < 0 ? left : missing;
}

/* If any rank was lost, every wait fails. If `owner` has closed its comm, or if the time limit of the call is over, the
 * wait for `owner` fails. If several ranks were lost, the function prefers a rank that did not end because another rank
 * failed. */
int ce_shm_look_around(ce_shm *shm, int owner, const char **how)
{
    double limit = shm->comm->settings.call_seconds;
    bool closed;
    *how = "has left";
    if (atomic_load(&ce_shm_header_of(shm, owner)->closed))
        return owner;
    *how = "was lost";
    int lost = ce_shm_missing(shm->comm, &closed);
    if (lost >= 0 && !closed)
        return lost;
    check_calls(shm, owner);
    if (limit > 0 && ce_clock_seconds() - shm->comm->begun > limit) {
        *how = "did not take part within the time limit of a call";
        return owner;
    }
    return -1;
}
