/* copies.c - tensor parallelism: checks that parameters of which several ranks hold copies, such as norms, are equal on
 * these ranks, and so are their masters and their optimizer state. They begin equal and get equal gradients, so a
 * difference is a fault: of a GPU, of memory, or of the program. Without the check a training would go on with a model
 * that no rank has. */
#include "reporting/reporting.h"
#include "base/must.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

/* What a rank holds of an element. A master is compared only if it is not the value itself. */
enum { VALUE, MASTER, STATE, KINDS };
static const char *const kinds[KINDS] = { "their values", "their masters", "their optimizer state" };

/* Only these bits of a hash are added up over ranks, so that the sum does not overflow; the low bits of a sum do not
 * depend on higher ones. */
static const int64_t added = 0xffffffff;

/* Some consecutive elements of a parameter: `range` counts in the local parameter, and `data` is the address of the first
 * of them in device memory. */
typedef struct {
    const void *data;
    cs_dtype dtype;
    ce_range range;
} elements;

/* Returns the hash of those of the elements that are in `part`, a range of the local parameter. The indices of elements
 * count from the beginning of the part, because ranks have it at different places. */
static int64_t hash_part(cs_engine *engine, elements held, ce_range part, uint64_t key)
{
    ce_range common = ce_range_overlap(held.range, part);
    int64_t count = ce_range_length(common);
    size_t each = cs_dtype_bytes(held.dtype), bytes = (size_t)count * each;
    if (count == 0)
        return 0;
    CE_FREED char *copy = ce_must_alloc(bytes);
    ce_stream_fetch(ce_device_stream(engine->device, CE_COMPUTE), copy,
                    (const char *)held.data + (size_t)(common.from - held.range.from) * each, bytes);
    return (int64_t)ce_rng_hash(copy, each, count, key, common.from - part.from) & added;
}

/* Adds the hashes of the masters and of the optimizer state of a part. Only a part with consecutive elements has copies,
 * so the elements of its pieces are consecutive. */
static void hash_state(cs_engine *engine, ce_shard *shard, const ce_unit_entry *entry, ce_range part, int64_t *hashes)
{
    const ce_zero *zero = &engine->zero;
    uint64_t key = ce_rng_key(0, entry->full_name);
    CE_FREED ce_shard_piece *pieces = ce_must_alloc(ce_shard_pieces_room(shard));
    int count = ce_shard_held_pieces(shard, pieces);
    for (const ce_shard_piece *piece = pieces; piece < pieces + count; piece++) {
        elements held = { piece->master, piece->dtype, { piece->place, piece->place + ce_range_length(piece->range) } };
        if (piece->entry != entry || !piece->gradient)
            continue;
        if (!ce_stage_one_copy(zero))
            hashes[MASTER] += hash_part(engine, held, part, key);
        held.dtype = piece->slot_dtype;
        for (uint64_t slot = 0; slot < CE_OPTIM_SLOTS && (held.data = piece->slots[slot]); slot++)
            hashes[STATE] += hash_part(engine, held, part, ce_rng_mix(key, slot));
    }
}

/* Ends the program if a copy of a part differs from the first copy. `all` has `each` hashes of every rank of the
 * tensor-parallel group. */
static void compare(const cs_engine *engine, const ce_unit_entry *entry, const ce_cut_part *part, const int64_t *all,
                    int64_t each, int64_t index)
{
    int own = engine->mesh.own[CE_AXIS_TP], first = own - part->copy, kind = 0;
    const int64_t *mine = all + own * each + index, *other = all + first * each + index;
    while (kind < KINDS && (mine[kind] & added) == (other[kind] & added))
        kind++;
    if (kind == KINDS)
        return;
    ce_fatal(CS_DISAGREE,
             "step %lld: the copies of %s differ in %s on ranks %d and %d (tensor-parallel ranks %d and %d), although "
             "they got the same updates: start again from a checkpoint; if this happens again with the same GPU or "
             "host, its memory is faulty; otherwise it is an error in cspeed (cspeed.mesh.check_interval)",
             (long long)engine->metrics.step, entry->full_name, kinds[kind],
             ce_mesh_first(&engine->mesh, CE_AXIS_TP) + first, engine->world.rank, first, own);
}

typedef void visit_part(cs_engine *engine, int unit, const ce_unit_entry *entry, int part, int64_t index, void *given);

/* Calls `visit` for each part of each parameter that has copies, with the number of its first hash, and returns how many
 * hashes there are. The numbers are the same on all ranks of a group, although ranks may have different numbers of parts. */
static int64_t visit_parts(cs_engine *engine, visit_part *visit, void *given)
{
    int64_t index = 0;
    for (int i = 0; i < engine->model->total; i++)
        for (int at = 0; at < engine->model->units[i]->entry_count; at++, index += CE_CUT_PARTS * KINDS) {
            const ce_unit_entry *entry = engine->model->units[i]->entries[at];
            for (int part = 0; visit && part < entry->cut.count; part++)
                if (entry->cut.part[part].copies > 1)
                    visit(engine, i, entry, part, index + part * KINDS, given);
        }
    return index;
}

static void take_hashes(cs_engine *engine, int unit, const ce_unit_entry *entry, int at, int64_t index, void *hashes)
{
    ce_shard *shard = engine->shards[unit];
    ce_shard_local_part held = ce_shard_local(shard, entry);
    ce_range part = ce_part_of_cut(entry, at); /* in the row of the unit */
    part = (ce_range){ part.from - entry->offset, part.to - entry->offset };
    int64_t *own = (int64_t *)hashes + index;
    own[VALUE] =
        hash_part(engine, (elements){ held.data, held.dtype, held.range }, part, ce_rng_key(0, entry->full_name));
    hash_state(engine, shard, entry, part, own);
}

typedef struct {
    int64_t *all, each;
} gathered;

static void compare_part(cs_engine *engine, int unit, const ce_unit_entry *entry, int part, int64_t index, void *given)
{
    const gathered *hashes = given;
    (void)unit;
    compare(engine, entry, &entry->cut.part[part], hashes->all, hashes->each, index);
}

/* Masters and optimizer state are divided among all ranks of ZeRO, values among those of a group of hybrid sharding. The
 * sum over all of them has every element at least once, and as often on each rank of the tensor-parallel group. */
static void check_copies(cs_engine *engine)
{
    ce_walk_settle(engine); /* the communication thread may be using zero.comm */
    gathered hashes = { .each = visit_parts(engine, NULL, NULL) };
    CE_FREED int64_t *mine = ce_must_alloc((size_t)hashes.each * sizeof *mine);
    hashes.all = ce_must_alloc((size_t)(hashes.each * engine->mesh.size[CE_AXIS_TP]) * sizeof *hashes.all);
    visit_parts(engine, take_hashes, mine);
    cs_comm_all_reduce(engine->zero.comm, mine, hashes.each, CS_I64, CS_SUM);
    if (engine->zero.across)
        cs_comm_all_reduce(engine->zero.across, mine, hashes.each, CS_I64, CS_SUM);
    cs_comm_all_gather(engine->tp.comm, hashes.all, mine, hashes.each, CS_I64);
    visit_parts(engine, compare_part, &hashes);
    free(hashes.all);
}

/* ---- the samples of a lane ---- */

/* Returns a hash of the elements of a tensor in host memory, which have 4 bytes; the tensor may be absent. */
static uint64_t hash_tensor(cs_tensor x, uint64_t key)
{
    uint64_t hash = key;
    for (int64_t i = 0; x.data && i < cs_count(x); i++) {
        uint32_t bits;
        memcpy(&bits, (const char *)x.data + (size_t)i * sizeof bits, sizeof bits);
        hash = ce_rng_mix(hash, bits);
    }
    return hash;
}

/* Ends the program if the ranks of the tensor-parallel group were given different samples: they compute parts of one
 * micro-batch. */
static void check_samples(cs_engine *engine, const cs_batch *batch)
{
    const cs_tensor parts[] = { batch->inputs, batch->targets, batch->starts, batch->references };
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        hash = hash_tensor(parts[i], ce_rng_mix(hash, i));
    int64_t mine = (int64_t)hash;
    CE_FREED int64_t *all = ce_must_alloc((size_t)engine->mesh.size[CE_AXIS_TP] * sizeof *all);
    cs_comm_all_gather(engine->tp.comm, all, &mine, 1, CS_I64);
    if (all[0] != mine)
        ce_fatal(CS_DISAGREE,
                 "cs_forward: ranks %d and %d are a tensor-parallel group and were given different micro-batches: "
                 "choose samples by cs_lane and cs_lanes, not by rank (cspeed.mesh.tp)",
                 ce_mesh_first(&engine->mesh, CE_AXIS_TP), engine->world.rank);
}

/* Ends the program if an input or a target is no token: each rank has some rows of the vocabulary, and would take it for a
 * token of another rank. Every micro-batch is checked, because its tokens are others than those of the one before. */
static void check_tokens(const cs_engine *engine, cs_tensor tokens, const char *what)
{
    const int32_t *token = tokens.data;
    for (int64_t i = 0; i < cs_count(tokens); i++)
        if (token[i] >= engine->facts.vocabulary)
            ce_fatal(CS_MISUSE, "cs_forward: %s %lld is token %d, and the tokens of the model are 0 to %lld", what,
                     (long long)i, (int)token[i], (long long)(engine->facts.vocabulary - 1));
}

static void check(cs_engine *engine, cs_batch *batch)
{
    int64_t interval = engine->settings->check_interval;
    if (!engine->tp.comm)
        return;
    if (engine->facts.vocabulary > 0) {
        check_tokens(engine, batch->inputs, "input");
        check_tokens(engine, batch->targets, "target");
    }
    if (interval == 0 || engine->metrics.step % interval != 0 || engine->micro > 0)
        return;
    check_samples(engine, batch);
    check_copies(engine);
}

const ce_observer ce_copies_observer = { .batch = check };
