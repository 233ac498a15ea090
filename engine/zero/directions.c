/* directions.c - the optimizers whose rule first returns a direction: LAMB and Muon. A quantity of the whole tensor is
 * computed from the direction, then the parameter moves along it.
 *
 * LAMB needs two norms for each tensor. The norms are computed from exact sums, which one all-reduce sums over ranks
 * for all tensors; so their bits are the same at every stage and world size. Muon needs whole matrices: a unit's row is
 * gathered, matrices are assigned to ranks in turn, each rank orthogonalizes its matrices and sets the others to zero,
 * and a sum over ranks returns every element to its owner. One rank computes a whole matrix, so the bits do not depend
 * on the world size. */
#include "zero/part.h"
#include "zero/update.h"
#include "base/must.h"

#include <math.h>
#include <stdlib.h>

struct ce_directions {
    void *scratch;
    int *first;     /* for each unit: index of its first parameter, counted over the parameters of all units */
    ce_exact *sums; /* two sums for each parameter: of the squares of its values, and of the squares of its direction */
    double *ratios; /* LAMB's trust ratio for each parameter */
    int entries;
    int64_t dealt; /* number of matrices that were assigned to ranks so far in this step */
};

static const ce_group *group_of(const ce_groups *groups, const ce_unit_entry *entry)
{
    return &groups->group[entry->group];
}

static bool has_kind(const ce_groups *groups, const cs_unit *unit, ce_optim_kind kind)
{
    for (int i = 0; i < unit->entry_count; i++)
        if (group_of(groups, unit->entries[i])->optimizer.kind == kind)
            return true;
    return false;
}

/* ---- opening ---- */

size_t ce_update_scratch(const ce_groups *groups, const cs_model *model)
{
    size_t max = 0, norms = 0;
    bool lamb = false;
    for (int i = 0; i < model->count; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++) {
            const ce_unit_entry *entry = model->units[i]->entries[at];
            cs_tensor value = entry->param.value;
            size_t bytes = ce_muon_scratch(cs_rows(value), cs_columns(value));
            if (group_of(groups, entry)->optimizer.kind == CE_OPTIM_MUON && bytes > max)
                max = bytes;
            norms += 2 * sizeof(ce_exact);
            lamb |= group_of(groups, entry)->optimizer.kind == CE_OPTIM_LAMB;
        }
    return lamb && norms > max ? norms : max;
}

void ce_directions_open(ce_update *update, void *scratch)
{
    const cs_model *model = update->model;
    bool any = false;
    for (int i = 0; i < update->zero->groups->count; i++)
        any |= update->zero->groups->group[i].optimizer.directs;
    if (!any)
        return;
    ce_directions *opened = update->directions = ce_must_alloc(sizeof *opened);
    opened->scratch = scratch;
    opened->first = ce_must_alloc((size_t)model->count * sizeof *opened->first);
    for (int i = 0; i < model->count; i++) {
        opened->first[i] = opened->entries;
        opened->entries += model->units[i]->entry_count;
    }
    opened->sums = ce_must_alloc(2 * (size_t)opened->entries * sizeof *opened->sums);
    opened->ratios = ce_must_alloc((size_t)opened->entries * sizeof *opened->ratios);
}

void ce_directions_close(ce_directions *directions)
{
    if (!directions)
        return;
    free(directions->first);
    free(directions->sums);
    free(directions->ratios);
    free(directions);
}

/* ---- LAMB ---- */

enum { WORDS = sizeof(ce_exact) / sizeof(int64_t) };

static void reduce_sums(void *argument)
{
    ce_update *update = argument;
    cs_comm_all_reduce(update->zero->comm, update->directions->scratch,
                       2 * (int64_t)update->directions->entries * WORDS, CS_I64, CS_SUM);
}

/* Reduces LAMB's sums over ranks, copies them to the host, and waits for the copy. */
static void fetch_sums(ce_update *update)
{
    cs_stream *compute = ce_device_stream(update->zero->device, CE_COMPUTE);
    cs_stream *comm = ce_device_stream(update->zero->device, CE_COMM);
    ce_stream_follow(comm, compute);
    ce_stream_call(comm, reduce_sums, update);
    ce_stream_follow(compute, comm);
    ce_stream_fetch(compute, update->directions->sums, update->directions->scratch,
                    2 * (size_t)update->directions->entries * sizeof *update->directions->sums);
}

/* Adds to sums[0] the squares of this rank's elements of a parameter, and to sums[1] the squares of the same elements
 * of the parameter's direction. `sums` is in device memory. */
static void add_norms(ce_shard *shard, int entry, ce_exact sums[2])
{
    const ce_unit_entry *from = shard->unit->entries[entry];
    ce_precision types = shard->zero->precision;
    ce_range range = ce_range_overlap(shard->part, (ce_range){ from->offset, from->offset + from->count });
    int64_t count = ce_range_length(range), lead = range.from % CE_ZERO_ALIGN;
    if (count == 0)
        return;
    ce_state_sum_squares(ce_part_stream(shard, CE_COMPUTE), &sums[0],
                         cs_vector(ce_part_master(shard, range.from), types.masters, count), lead, 1);
    ce_state_sum_squares(ce_part_stream(shard, CE_COMPUTE), &sums[1],
                         cs_vector(ce_part_sum(shard, range.from), types.sums, count), lead, 1);
}

static double ratio_of(const ce_exact sums[2], const ce_optim_settings *settings)
{
    double value = sqrt(ce_exact_value(&sums[0])), direction = sqrt(ce_exact_value(&sums[1]));
    if (value == 0 || direction == 0 || !isfinite(value / direction))
        return 1;
    return fmin(fmax(value / direction, settings->min_ratio), settings->max_ratio);
}

static void find_ratios(ce_update *update)
{
    const ce_groups *groups = update->zero->groups;
    ce_exact *sums = update->directions->scratch;
    /* cs_op_fill writes the fp32 number 0, whose bits are all zero; an exact sum whose bits are all zero is 0 */
    cs_op_fill(ce_device_stream(update->zero->device, CE_COMPUTE),
               cs_vector(sums, CS_F32, 2 * (int64_t)update->directions->entries * WORDS * 2), 0);
    for (int i = 0; i < update->model->count; i++) {
        const cs_unit *unit = update->model->units[i];
        ce_apply_rules(update, i, CE_OPTIM_LAMB);
        for (int at = 0; at < unit->entry_count; at++)
            if (group_of(groups, unit->entries[at])->optimizer.kind == CE_OPTIM_LAMB)
                add_norms(update->shards[i], at, &sums[2 * (update->directions->first[i] + at)]);
    }
    fetch_sums(update);
    for (int i = 0; i < update->model->count; i++)
        for (int at = 0; at < update->model->units[i]->entry_count; at++) {
            int number = update->directions->first[i] + at;
            update->directions->ratios[number] =
                ratio_of(&update->directions->sums[2 * number],
                         &group_of(groups, update->model->units[i]->entries[at])->settings);
        }
}

/* ---- Muon ---- */

static void collect(void *argument)
{
    ce_shard *shard = argument;
    cs_comm_all_gather(shard->zero->comm, shard->reducing, ce_part_sum(shard, shard->part.from),
                       ce_range_length(shard->part), CS_F32);
}

/* Gathers the whole row of directions (fp32) on each rank, so that ranks can process whole matrices. If gradients are
 * REPLICATED, `sum` is a whole row, but only this rank's part of it holds directions, so the other
 * parts are gathered into it. */
static float *collect_row(ce_shard *shard)
{
    shard->reducing = shard->sum;
    if (shard->zero->stage.grads == CE_SHARDED) {
        shard->grad_row = ce_pool_borrow(shard->grads_pool, shard->padded);
        shard->reducing = ce_pool_data(shard->grad_row);
        if (ce_pool_after(shard->grad_row).stream)
            ce_stream_wait(ce_part_stream(shard, CE_COMM), ce_pool_after(shard->grad_row));
    }
    if (shard->zero->stage.optim == CE_SHARDED) {
        ce_part_follow(shard, CE_COMM, CE_COMPUTE);
        ce_stream_call(ce_part_stream(shard, CE_COMM), collect, shard);
        ce_part_follow(shard, CE_COMPUTE, CE_COMM);
    }
    return shard->reducing;
}

static void distribute(void *argument)
{
    ce_shard *shard = argument;
    cs_comm *comm = shard->zero->comm;
    if (shard->zero->stage.optim == CE_SHARDED)
        cs_comm_reduce_scatter(comm, ce_part_sum(shard, shard->part.from), shard->reducing,
                               ce_range_length(shard->part), CS_F32, CS_SUM);
    else
        cs_comm_all_reduce(comm, shard->reducing, shard->padded, CS_F32, CS_SUM);
}

/* Sums the rows of directions over the ranks, and gives each rank its own elements of the sum. */
static void distribute_row(ce_shard *shard)
{
    ce_part_follow(shard, CE_COMM, CE_COMPUTE);
    ce_stream_call(ce_part_stream(shard, CE_COMM), distribute, shard);
    ce_event done = ce_stream_record(ce_part_stream(shard, CE_COMM));
    ce_stream_wait(ce_part_stream(shard, CE_COMPUTE), done);
    if (shard->grad_row)
        ce_pool_return(shard->grads_pool, shard->grad_row, done);
    shard->grad_row = NULL;
}

static void work_on_matrices(ce_update *update, ce_shard *shard)
{
    const ce_zero *zero = update->zero;
    const cs_unit *unit = ce_shard_unit(shard);
    cs_stream *stream = ce_device_stream(zero->device, CE_COMPUTE);
    float *row = collect_row(shard);
    for (int i = 0; i < unit->entry_count; i++) {
        const ce_unit_entry *entry = unit->entries[i];
        cs_tensor matrix = entry->param.value;
        matrix.data = row + entry->offset;
        matrix.dtype = CS_F32;
        bool muon = group_of(zero->groups, entry)->optimizer.kind == CE_OPTIM_MUON;
        if (muon && update->directions->dealt++ % zero->world == zero->rank)
            ce_muon_orthogonalize(stream, matrix, update->directions->scratch);
        else if (zero->world > 1)
            cs_op_fill(stream, matrix, 0);
    }
    distribute_row(shard);
}

/* ---- the step ---- */

void ce_directions_begin(ce_update *update)
{
    update->directions->dealt = 0;
    for (int i = 0; i < update->zero->groups->count; i++)
        if (update->zero->groups->group[i].optimizer.kind == CE_OPTIM_LAMB) {
            find_ratios(update);
            return;
        }
}

/* The step along a direction is plain gradient descent, with one launch for each parameter, because LAMB has a ratio
 * for each parameter. LAMB's direction includes weight decay. Muon's direction does not, so the step applies weight
 * decay for Muon. */
static void step_along(ce_update *update, int number, int range)
{
    static const ce_optimizer along = { .kind = CE_OPTIM_SGD, .name = "SGD" };
    ce_shard *shard = update->shards[number];
    int entry = update->ranges.entry[range];
    const ce_unit_entry *moved = ce_shard_unit(shard)->entries[entry];
    ce_hyper hyper = update->hyper[moved->group];
    bool lamb = group_of(update->zero->groups, moved)->optimizer.kind == CE_OPTIM_LAMB;
    double ratio = update->directions->ratios[update->directions->first[number] + entry];
    ce_hyper step = { .rate = lamb ? (float)((double)hyper.rate * (double)hyper.correction1 * ratio) : hyper.rate,
                      .decay = lamb ? 0 : hyper.decay,
                      .grad_scale = 1 };
    ce_apply_rule(shard, ce_ranges_some(&update->ranges, (ce_range){ range, range + 1 }), &along, step, NULL);
}

void ce_directions_take(ce_update *update, int number)
{
    const ce_ranges *ranges = &update->ranges;
    const ce_groups *groups = update->zero->groups;
    const cs_unit *unit = ce_shard_unit(update->shards[number]);
    if (has_kind(groups, unit, CE_OPTIM_MUON)) {
        ce_apply_rules(update, number, CE_OPTIM_MUON);
        work_on_matrices(update, update->shards[number]);
    }
    for (int range = ranges->first[number]; range < ranges->first[number + 1]; range++)
        if (group_of(groups, unit->entries[ranges->entry[range]])->optimizer.directs)
            step_along(update, number, range);
}
