/* parameters.c - the parameters of a model by name, this rank's shard of each parameter, and the parameter groups. */
#include "core/engine.h"
#include "base/misuse.h"
#include "base/must.h"

#include <stdlib.h>

static const ce_unit_entry *entry_at(const cs_engine *engine, int64_t index, const ce_shard **shard)
{
    for (int i = 0; i < engine->model->total; i++) {
        const cs_unit *unit = engine->model->units[i];
        if (index < unit->entry_count) {
            *shard = engine->shards[i];
            return unit->entries[index];
        }
        index -= unit->entry_count;
    }
    return NULL;
}

int64_t cs_param_count(const cs_engine *engine)
{
    CE_GIVEN(engine);
    int64_t count = 0;
    for (int i = 0; i < engine->model->total; i++)
        count += engine->model->units[i]->entry_count;
    return count;
}

const char *cs_param_name(const cs_engine *engine, int64_t index)
{
    CE_GIVEN(engine);
    const ce_shard *shard;
    const ce_unit_entry *entry = index >= 0 ? entry_at(engine, index, &shard) : NULL;
    if (!entry)
        ce_fatal(CS_MISUSE, "cs_param_name: there is no parameter number %lld; the model has %lld", (long long)index,
                 (long long)cs_param_count(engine));
    return entry->full_name;
}

static cs_status not_found(const cs_engine *engine, const char *name)
{
    int64_t count = cs_param_count(engine);
    const char **names = ce_must_alloc(((size_t)count + 1) * sizeof *names);
    for (int64_t i = 0; i < count; i++)
        names[i] = cs_param_name(engine, i);
    const char *nearest = cs_nearest(name, names);
    cs_status status = ce_fail(CS_NOT_FOUND, "the model has no parameter %s%s%s", name,
                               nearest ? "; the most similar name is " : "", nearest ? nearest : "");
    free(names);
    return status;
}

/* Describes the boxes of the whole parameter of which the local parameter consists. */
static void describe_boxes(cs_param_part *part, const ce_cut *cut)
{
    part->shape.shape[0] = cut->whole[0];
    if (part->shape.dims > 1)
        part->shape.shape[1] = cut->whole[1];
    part->boxes = cut->count;
    for (int i = 0; i < cut->count; i++) {
        int64_t from = cut->part[i].from, count = cut->part[i].count;
        part->box[i] = cut->dim == 0 ? (cs_param_box){ from, 0, count, cut->whole[1] }
                                     : (cs_param_box){ 0, from, cut->whole[0], count };
    }
}

cs_status cs_param_local(const cs_engine *engine, const char *name, cs_param_part *part)
{
    CE_GIVEN(engine, name, part);
    int unit;
    const ce_unit_entry *entry = ce_model_locate(engine->model, name, &unit);
    if (!entry)
        return not_found(engine, name);
    const ce_shard *shard = engine->shards[unit];
    /* cs_step does not wait for the update and for the all-gather of the new values. */
    ce_stream_sync(ce_device_stream(engine->device, CE_COMPUTE));
    ce_stream_sync(ce_device_stream(engine->device, CE_COMM));
    ce_shard_local_part held = ce_shard_local(shard, entry);
    int64_t columns = entry->param.value.dims > 1 ? cs_columns(entry->param.value) : 1;
    *part = (cs_param_part){ .local = entry->param.value,
                             .sharded = held.sharded,
                             .from = held.range.from,
                             .to = held.range.to,
                             .first = held.range.from / columns,
                             .last = ce_divide_up(held.range.to, columns),
                             .data = held.data };
    part->local.data = NULL;
    part->local.dtype = held.dtype;
    part->shape = part->local;
    describe_boxes(part, &entry->cut);
    return CS_OK;
}

int cs_param_group_count(const cs_engine *engine)
{
    CE_GIVEN(engine);
    return engine->settings->groups.count;
}

cs_param_group cs_param_group_at(const cs_engine *engine, int index)
{
    CE_GIVEN(engine);
    const ce_groups *groups = &engine->settings->groups;
    if (index < 0 || index >= groups->count)
        ce_fatal(CS_MISUSE, "cs_param_group_at: there is no group %d; the optimizer has %d", index, groups->count);
    const ce_group *group = &groups->group[index];
    ce_assigned has = ce_assign_count(groups, engine->model, index);
    return (cs_param_group){
        .optimizer = group->optimizer.name,
        .learning_rate = cs_schedule_rate(engine, engine->scheduled) * group->ratio,
        .weight_decay = group->settings.weight_decay,
        .tensors = has.tensors,
        .elements = has.elements,
        .frozen = group->frozen,
    };
}
