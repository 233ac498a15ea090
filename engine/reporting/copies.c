/* copies.c - tensor parallelism: checks that parameters of which several ranks hold copies, such as norms, are equal on
 * these ranks. They begin equal and get equal gradients, so a difference is a fault: of a GPU, of memory, or of the
 * program. Without the check a training would go on with a model that no rank has. */
#include "reporting/reporting.h"
#include "base/must.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

/* Returns the sum, over the elements [from, to) of the tensor that begins at `data`, of a hash of each element's bits
 * and index, so that the sum does not depend on how ranks divide the elements. A hash has 30 bits: the sum over all
 * elements of a parameter, on all ranks of a sharding group, does not overflow. */
static int64_t hash_elements(const char *data, cs_dtype dtype, uint64_t key, ce_range range)
{
    size_t each = cs_dtype_bytes(dtype);
    uint64_t hash = 0;
    for (int64_t i = range.from; i < range.to; i++) {
        uint32_t bits = 0;
        memcpy(&bits, data + (size_t)(i - range.from) * each, each);
        hash += cs_rng_mix(key ^ bits, (uint64_t)i) >> 34;
    }
    return (int64_t)hash;
}

/* Returns the hash of those elements of part number `at` of a parameter that this rank holds. */
static int64_t hash_part(cs_engine *engine, const ce_shard *shard, const ce_unit_entry *entry, int at)
{
    ce_shard_local_part held = ce_shard_local(shard, entry);
    ce_range row = ce_part_of_cut(entry, at); /* in the row of the unit */
    int64_t from = row.from - entry->offset;
    ce_range part = ce_range_overlap(held.range, (ce_range){ from, row.to - entry->offset });
    size_t each = cs_dtype_bytes(held.dtype), bytes = (size_t)ce_range_length(part) * each;
    CE_FREED char *values = ce_must_alloc(bytes + 1);
    if (bytes == 0)
        return 0;
    ce_stream_fetch(ce_device_stream(engine->device, CE_COMPUTE), values,
                    (const char *)held.data + (size_t)(part.from - held.range.from) * each, bytes);
    return hash_elements(values, held.dtype, ce_rng_key(0, entry->full_name),
                         (ce_range){ part.from - from, part.to - from });
}

/* Ends the program if a copy of a part differs from the first copy. `all` has `each` hashes of every rank of the
 * tensor-parallel group. */
static void compare(const cs_engine *engine, const ce_unit_entry *entry, const ce_cut_part *part, const int64_t *all,
                    int64_t each, int64_t index)
{
    int own = engine->mesh.own[CE_AXIS_TP], first = own - part->copy;
    int64_t step = engine->metrics.step;
    if (all[own * each + index] == all[first * each + index])
        return;
    ce_fatal(
        CS_DISAGREE,
        "step %lld: the copies of %s differ on ranks %d and %d (tensor-parallel ranks %d and %d), although they got "
        "the same updates: start again from a checkpoint; if this happens again with the same GPU or host, its "
        "memory is faulty; otherwise it is an error in cspeed (cspeed.mesh.check_interval)",
        (long long)step, entry->full_name, ce_mesh_first(&engine->mesh, CE_AXIS_TP) + first, engine->world.rank, first,
        own);
}

typedef void visit_part(cs_engine *engine, int unit, const ce_unit_entry *entry, int part, int64_t index, void *given);

/* Calls `visit` for each part of each parameter, with the part's number in the whole model, and returns how many numbers
 * there are. They are the same on all ranks of a group, although ranks may have different numbers of parts. */
static int64_t visit_parts(cs_engine *engine, visit_part *visit, void *given)
{
    int64_t index = 0;
    for (int i = 0; i < engine->model->total; i++)
        for (int at = 0; at < engine->model->units[i]->entry_count; at++, index += CE_CUT_PARTS) {
            const ce_unit_entry *entry = engine->model->units[i]->entries[at];
            for (int part = 0; visit && part < entry->cut.count; part++)
                visit(engine, i, entry, part, index + part, given);
        }
    return index;
}

static void take_hash(cs_engine *engine, int unit, const ce_unit_entry *entry, int part, int64_t index, void *hashes)
{
    if (entry->cut.part[part].copies > 1)
        ((int64_t *)hashes)[index] = hash_part(engine, engine->shards[unit], entry, part);
}

typedef struct {
    int64_t *all, each;
} gathered;

static void compare_part(cs_engine *engine, int unit, const ce_unit_entry *entry, int part, int64_t index, void *given)
{
    const gathered *hashes = given;
    (void)unit;
    if (entry->cut.part[part].copies > 1)
        compare(engine, entry, &entry->cut.part[part], hashes->all, hashes->each, index);
}

static void check_copies(cs_engine *engine)
{
    ce_walk_settle(engine); /* the communication thread may be using zero.comm */
    gathered hashes = { .each = visit_parts(engine, NULL, NULL) };
    CE_FREED int64_t *mine = ce_must_alloc((size_t)hashes.each * sizeof *mine);
    hashes.all = ce_must_alloc((size_t)(hashes.each * engine->mesh.size[CE_AXIS_TP]) * sizeof *hashes.all);
    visit_parts(engine, take_hash, mine);
    cs_comm_all_reduce(engine->zero.comm, mine, hashes.each, CS_I64, CS_SUM);
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
        hash = cs_rng_mix(hash, bits);
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
        hash = hash_tensor(parts[i], cs_rng_mix(hash, i));
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
 * token of another rank. */
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
