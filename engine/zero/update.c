/* update.c - the optimizer's update of all parameters. Most rules update each element by itself. LAMB and Muon first
 * compute a direction, then a quantity of the whole tensor, then a step along the direction.
 *
 * LAMB needs two norms for each tensor. The norms are computed from exact sums, which one all-reduce sums over ranks
 * for all tensors; so their bits are the same at every stage and world size. Muon needs whole matrices: a unit's row is
 * gathered, matrices are assigned to ranks in turn, each rank orthogonalizes its matrices and sets the others to zero,
 * and a sum over ranks returns every element to its owner. One rank computes a whole matrix, so the bits do not depend
 * on the world size. */
#include "zero/zero.h"

#include <math.h>
#include <stdlib.h>

struct ce_update {
    const ce_zero *zero;
    ce_shard **shards;
    const cs_model *model;
    void *scratch;
    ce_ranges ranges;
    int *first;     /* for each unit: index of its first parameter, counted over the parameters of all units */
    ce_exact *sums; /* two sums for each parameter: of the squares of its values, and of the squares of its direction */
    double *ratios; /* LAMB's trust ratio for each parameter */
    int entries;
    int64_t dealt; /* number of matrices that were assigned to ranks so far in this step */
    const ce_gate *gate;
    ce_hyper hyper[CE_GROUPS];
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

cs_status ce_update_open(ce_update **update, const ce_zero *zero, ce_shard **shards, const cs_model *model,
                         void *scratch, void *table)
{
    ce_update *opened = *update = calloc(1, sizeof **update);
    if (!opened)
        return ce_fail(CS_NO_MEMORY, "out of memory for the optimizer");
    *opened = (ce_update){ .zero = zero, .shards = shards, .model = model, .scratch = scratch };
    opened->first = calloc((size_t)model->count, sizeof *opened->first);
    for (int i = 0; opened->first && i < model->count; i++) {
        opened->first[i] = opened->entries;
        opened->entries += model->units[i]->entry_count;
    }
    opened->sums = calloc(2 * (size_t)opened->entries, sizeof *opened->sums);
    opened->ratios = calloc((size_t)opened->entries, sizeof *opened->ratios);
    if (!opened->first || !opened->sums || !opened->ratios)
        return ce_fail(CS_NO_MEMORY, "out of memory for the optimizer");
    return ce_ranges_open(&opened->ranges, zero, shards, model, table);
}

void ce_update_close(ce_update *update)
{
    if (!update)
        return;
    ce_ranges_close(&update->ranges);
    free(update->first);
    free(update->sums);
    free(update->ratios);
    free(update);
}

/* ---- a group's parameters ---- */

/* Returns the consecutive ranges of shard `number`, from range number `from` on, that belong to the same group as range
 * `from`. */
static ce_range group_from(const ce_update *update, int number, int from)
{
    const cs_unit *unit = ce_shard_unit(update->shards[number]);
    const ce_ranges *ranges = &update->ranges;
    int group = unit->entries[ranges->entry[from]]->group, to = from + 1;
    while (to < ranges->first[number + 1] && unit->entries[ranges->entry[to]]->group == group)
        to++;
    return (ce_range){ from, to };
}

/* Runs the rules of all groups whose optimizer is of the given kind, with one launch for each group. The kind DIRECTLY
 * stands for all optimizers whose rule returns no direction. */
enum { DIRECTLY = -1 };
static void run_rules(ce_update *update, int number, int kind)
{
    ce_shard *shard = update->shards[number];
    const ce_ranges *ranges = &update->ranges;
    ce_range some;
    for (int at = ranges->first[number]; at < ranges->first[number + 1]; at = (int)some.to) {
        int group = ce_shard_unit(shard)->entries[ranges->entry[at]]->group;
        const ce_optimizer *optimizer = &update->zero->groups->group[group].optimizer;
        some = group_from(update, number, at);
        if (kind == DIRECTLY ? !optimizer->directs : (int)optimizer->kind == kind)
            ce_apply_rule(shard, ce_ranges_some(ranges, some), optimizer, update->hyper[group], update->gate);
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
    double ratio = update->ratios[update->first[number] + entry];
    ce_hyper step = { .rate = lamb ? (float)((double)hyper.rate * (double)hyper.correction1 * ratio) : hyper.rate,
                      .decay = lamb ? 0 : hyper.decay,
                      .grad_scale = 1 };
    ce_apply_rule(shard, ce_ranges_some(&update->ranges, (ce_range){ range, range + 1 }), &along, step, NULL);
}

/* ---- LAMB ---- */

enum { WORDS = sizeof(ce_exact) / sizeof(int64_t) };

static void reduce_sums(void *argument)
{
    ce_update *update = argument;
    cs_comm_all_reduce(update->zero->comm, update->scratch, 2 * (int64_t)update->entries * WORDS, CS_I64, CS_SUM);
}

/* Reduces LAMB's sums over ranks, copies them to the host, and waits for the copy. */
static void fetch_sums(ce_update *update)
{
    cs_stream *compute = ce_device_stream(update->zero->device, CE_COMPUTE);
    cs_stream *comm = ce_device_stream(update->zero->device, CE_COMM);
    ce_stream_follow(comm, compute);
    ce_stream_call(comm, reduce_sums, update);
    ce_stream_follow(compute, comm);
    ce_stream_fetch(compute, update->sums, update->scratch, 2 * (size_t)update->entries * sizeof *update->sums);
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
    ce_exact *sums = update->scratch;
    /* cs_op_fill writes the fp32 number 0, whose bits are all zero; an exact sum whose bits are all zero is 0 */
    cs_op_fill(ce_device_stream(update->zero->device, CE_COMPUTE),
               cs_vector(sums, CS_F32, 2 * (int64_t)update->entries * WORDS * 2), 0);
    for (int i = 0; i < update->model->count; i++) {
        const cs_unit *unit = update->model->units[i];
        run_rules(update, i, CE_OPTIM_LAMB);
        for (int at = 0; at < unit->entry_count; at++)
            if (group_of(groups, unit->entries[at])->optimizer.kind == CE_OPTIM_LAMB)
                ce_apply_norms(update->shards[i], at, &sums[2 * (update->first[i] + at)]);
    }
    fetch_sums(update);
    for (int i = 0; i < update->model->count; i++)
        for (int at = 0; at < update->model->units[i]->entry_count; at++) {
            int number = update->first[i] + at;
            update->ratios[number] =
                ratio_of(&update->sums[2 * number], &group_of(groups, update->model->units[i]->entries[at])->settings);
        }
}

/* ---- Muon ---- */

static void work_on_matrices(ce_update *update, ce_shard *shard)
{
    const ce_zero *zero = update->zero;
    const cs_unit *unit = ce_shard_unit(shard);
    cs_stream *stream = ce_device_stream(zero->device, CE_COMPUTE);
    float *row = ce_apply_collect(shard);
    for (int i = 0; i < unit->entry_count; i++) {
        const ce_unit_entry *entry = unit->entries[i];
        cs_tensor matrix = entry->param.value;
        matrix.data = row + entry->offset;
        matrix.dtype = CS_F32;
        bool muon = group_of(zero->groups, entry)->optimizer.kind == CE_OPTIM_MUON;
        if (muon && update->dealt++ % zero->world == zero->rank)
            ce_muon_orthogonalize(stream, matrix, update->scratch);
        else if (zero->world > 1)
            cs_op_fill(stream, matrix, 0);
    }
    ce_apply_distribute(shard);
}

/* ---- the step ---- */

void ce_update_begin(ce_update *update, const ce_update_terms *move)
{
    const ce_groups *groups = update->zero->groups;
    bool lamb = false;
    update->dealt = 0;
    update->gate = move->gate;
    for (int i = 0; i < groups->count; i++) {
        ce_optim_settings settings = groups->group[i].settings;
        if (move->cycles && ce_optim_has_betas(&settings)) {
            settings.betas[0] = move->betas[0];
            settings.betas[1] = move->betas[1];
        }
        update->hyper[i] = ce_optim_hyper(&settings, move->rate * groups->group[i].ratio, move->t, 1);
        lamb |= settings.kind == CE_OPTIM_LAMB;
    }
    if (lamb)
        find_ratios(update);
}

/* Rules that return no direction run first: they read the row of gradients, which Muon's work overwrites. */
void ce_update_take(ce_update *update, int number)
{
    const ce_ranges *ranges = &update->ranges;
    const ce_groups *groups = update->zero->groups;
    const cs_unit *unit = ce_shard_unit(update->shards[number]);
    run_rules(update, number, DIRECTLY);
    if (has_kind(groups, unit, CE_OPTIM_MUON)) {
        run_rules(update, number, CE_OPTIM_MUON);
        work_on_matrices(update, update->shards[number]);
    }
    for (int range = ranges->first[number]; range < ranges->first[number + 1]; range++)
        if (group_of(groups, unit->entries[ranges->entry[range]])->optimizer.directs)
            step_along(update, number, range);
}
