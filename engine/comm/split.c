/* split.c - groups of the ranks of a comm. A group is a comm of its own. Its ranks find each other through the parent
 * comm, which is the comm that is divided. Through the parent comm they gather the color and the key of every rank and,
 * for TCP, the address at which every rank listens. */
#include "comm/transport.h"
#include "base/misuse.h"
#include "comm/tcp/mesh.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What each rank of the parent comm tells the others. */
typedef struct {
    int32_t color, key, rank;
    ce_mesh_place place;
} member;

typedef struct {
    cs_comm *parent;
    member *all;     /* the members of the parent comm, one element for each rank */
    member *members; /* the members of this rank's group, in the order of their ranks in the group */
    int count;
    /* the group as a world, with the number of this rank in the group and the group's job name */
    cs_world world;
    /* [size of the parent] the addresses at which the ranks listen; endpoints[i] belongs to members[i] */
    ce_mesh_endpoint *endpoints;
    int listener;
} builder;

/* ---- no group ---- */

static void close_nothing(cs_comm *comm)
{
    (void)comm;
}

/* The transport of the comm that a rank outside all groups gets. ce_comm_require_member refuses every call on such a comm. */
static const ce_transport no_transport = { .name = "none", .close = close_nothing };

static cs_status open_outside(cs_comm **group)
{
    cs_comm *made = calloc(1, sizeof *made);
    if (!made)
        return ce_fail(CS_NO_MEMORY, "no memory for a group");
    made->transport = &no_transport;
    made->world.rank = -1;
    *group = made;
    return CS_OK;
}

/* ---- members ---- */

static int by_key(const void *a, const void *b)
{
    const member *x = a, *y = b;
    return x->key != y->key ? (x->key > y->key) - (x->key < y->key) : x->rank - y->rank;
}

static void choose_members(builder *b, int color)
{
    for (int i = 0; i < b->parent->world.size; i++)
        if (b->all[i].color == color)
            b->members[b->count++] = b->all[i];
    qsort(b->members, (size_t)b->count, sizeof *b->members, by_key);
}

/* Returns the first rank on the host of `rank`. If there are several hosts, and the ranks of each host are not
 * consecutive, it is unknown which ranks share a host: each rank then counts as a host of its own, and the result is
 * `rank`. */
static int host_of(const builder *b, int rank)
{
    int size = b->parent->world.size;
    if (b->parent->world.local_size == size)
        return 0;
    for (int i = 0; i < size; i++) {
        int first = i - b->all[i].place.local_rank;
        if (first < 0 || b->all[first].place.local_rank != 0 ||
            b->all[first].place.local_size != b->all[i].place.local_size)
            return rank;
    }
    return rank - b->all[rank].place.local_rank;
}

/* Sets the group's job name, which the group's ranks use for their rendezvous. No other group has this name: it
 * contains the 64-bit FNV-1a hash of the parent's job name, the number of the split, and the color. */
static void name_group(cs_world *world, const cs_comm *parent, int color)
{
    char text[128];
    uint64_t hash = 0xcbf29ce484222325u;
    snprintf(text, sizeof text, "%s/%d/%d", parent->world.job, parent->splits, color);
    for (const char *at = text; *at; at++)
        hash = (hash ^ (unsigned char)*at) * 0x100000001b3u;
    snprintf(world->job, sizeof world->job, "group %016llx", (unsigned long long)hash);
}

static void make_world(builder *b, int color)
{
    int own_rank = b->parent->world.rank;
    b->world = b->parent->world;
    name_group(&b->world, b->parent, color);
    b->world.size = b->count;
    b->world.local_size = 0;
    for (int i = 0; i < b->count; i++) {
        if (b->members[i].rank == own_rank) {
            b->world.rank = i;
            b->world.local_rank = b->world.local_size;
        }
        b->world.local_size += host_of(b, b->members[i].rank) == host_of(b, own_rank);
    }
}

/* ---- meeting ---- */

/* Chooses another member of this rank's group, on another host if the group has such a member. Returns the chosen
 * member's rank in the parent comm, or this rank if the group has no other member. This rank will listen at the local
 * address of its connection to the chosen member. */
static int peer_of(const builder *b)
{
    int own_rank = b->parent->world.rank, peer = own_rank;
    for (int i = 0; i < b->count; i++) {
        int rank = b->members[i].rank;
        if (rank != own_rank && (peer == own_rank || host_of(b, rank) != host_of(b, own_rank)))
            peer = rank;
    }
    return peer;
}

/* Exchanges the addresses at which ranks listen. Every rank of the parent takes part, whether or not its own group uses
 * TCP. */
static cs_status exchange_endpoints(builder *b, bool by_tcp)
{
    ce_mesh_endpoint own_endpoint = { { b->world.local_rank, b->world.local_size }, 0, 0, { 0 } };
    cs_status status = CS_OK;
    if (b->parent->transport != &ce_comm_tcp)
        return CS_OK;
    ce_mesh_endpoint *all = calloc((size_t)b->parent->world.size, sizeof *all);
    if (!all)
        return ce_fail(CS_NO_MEMORY, "no memory for %d addresses", b->parent->world.size);
    if (by_tcp)
        status = ce_mesh_listen(b->parent->private_data, peer_of(b), &b->listener, &own_endpoint);
    cs_comm_all_gather(b->parent, all, &own_endpoint, sizeof own_endpoint, CS_U8);
    for (int i = 0; i < b->count; i++)
        b->endpoints[i] = all[b->members[i].rank];
    free(all);
    return status;
}

static cs_status open_group(cs_comm **group, builder *b, const cs_comm_settings *settings)
{
    cs_comm_settings own_settings = *settings;
    if (b->count == 1 && strcmp(settings->kind, "nccl") != 0)
        own_settings.kind = "auto";
    bool by_tcp = ce_comm_transport(&b->world, own_settings.kind) == &ce_comm_tcp;
    CE_TRY(exchange_endpoints(b, by_tcp));
    ce_meeting meeting = { .listener = &b->listener, .endpoints = b->endpoints };
    int *names = calloc((size_t)b->count, sizeof *names);
    if (!names)
        return ce_fail(CS_NO_MEMORY, "no memory for the names of %d ranks", b->count);
    for (int i = 0; i < b->count; i++)
        names[i] = ce_comm_name(b->parent, b->members[i].rank);
    return ce_comm_open(group, &b->world, &own_settings, names, by_tcp ? &meeting : NULL);
}

static cs_status build(cs_comm **group, builder *b, int color, int key, const cs_comm_settings *settings)
{
    const cs_world *world = &b->parent->world;
    member own_entry = { color < 0 ? -1 : color, key, world->rank, { world->local_rank, world->local_size } };
    b->all = calloc((size_t)world->size, sizeof *b->all);
    b->members = calloc((size_t)world->size, sizeof *b->members);
    b->endpoints = calloc((size_t)world->size, sizeof *b->endpoints);
    if (!b->all || !b->members || !b->endpoints)
        return ce_fail(CS_NO_MEMORY, "no memory for a group among %d ranks", world->size);
    cs_comm_all_gather(b->parent, b->all, &own_entry, sizeof own_entry, CS_U8);
    b->parent->splits++;
    if (color < 0) {
        CE_TRY(exchange_endpoints(b, false));
        return open_outside(group);
    }
    choose_members(b, color);
    make_world(b, color);
    return open_group(group, b, settings);
}

cs_status ce_split(cs_comm **group, cs_comm *parent, int color, int key, const cs_comm_settings *settings)
{
    builder b = { .parent = parent, .listener = -1 };
    *group = NULL;
    cs_status status = build(group, &b, color, key, settings);
    if (b.listener >= 0)
        close(b.listener);
    free(b.all);
    free(b.members);
    free(b.endpoints);
    return status;
}

cs_status cs_comm_split(cs_comm **group, cs_comm *parent, int color, int key)
{
    CE_GIVEN(group);
    return ce_split(group, parent, color, key, &parent->settings);
}
