/* estimate.c - cs_estimate, cs_estimate_units: the memory and the units of a run that is not started. No device or
 * transport is opened; the dry run measures. */
#include "setup/setup.h"
#include "base/misuse.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>

/* Measures a run as rank number `rank` sees it. */
static cs_status measure(cs_engine *engine, int rank)
{
    CE_TRY(cs_config_finish(engine->config));
    engine->settings = &engine->config->settings;
    engine->world = engine->config->world;
    engine->world.rank = rank;
    ce_log_open(CE_LOG_WARNING, rank);
    return ce_initialize_dry(engine);
}

/* Takes a result of a measured run. */
typedef cs_status take_result(const cs_engine *engine, void *into);

static cs_status measure_and_take(cs_config *config, int rank, take_result *take, void *into, int *tp)
{
    cs_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return ce_fail(CS_NO_MEMORY, "out of memory for an engine");
    engine->config = config;
    cs_status status = measure(engine, rank);
    if (status == CS_OK)
        status = take(engine, into);
    *tp = status == CS_OK ? engine->settings->tp : 1;
    engine->config = NULL; /* the caller closes it */
    cs_destroy(engine);
    return status;
}

/* Measures the run as rank 0 sees it or, if `all` is true, as each rank of its tensor-parallel group does: their layers
 * may have different shapes. Closes the configuration. */
static cs_status measure_ranks(cs_config *config, bool all, take_result *take, void *into)
{
    int tp = 1;
    cs_status status = measure_and_take(config, 0, take, into, &tp);
    for (int rank = 1; all && rank < tp && status == CS_OK; rank++)
        status = measure_and_take(config, rank, take, into, &tp);
    ce_log_open(CE_LOG_WARNING, 0);
    cs_config_close(config);
    return status;
}

/* ---- memory ---- */

typedef struct {
    cs_memory *memory;
    int64_t parameters;
    size_t activations; /* the largest of all measured ranks */
    int world;
} estimate;

/* Sets the memory of the ranks that have the same coordinate on the axis tp as this engine's rank. All ranks of a
 * tensor-parallel group allocate as many bytes for activations as the rank that needs most. */
static cs_status take_memory(const cs_engine *engine, void *into)
{
    estimate *taken = into;
    int tp = engine->settings->tp;
    taken->parameters = engine->model->parameters;
    taken->world = engine->world.size;
    if (engine->memory.activations > taken->activations)
        taken->activations = engine->memory.activations;
    for (int i = engine->world.rank; taken->memory && i < engine->world.size; i += tp) {
        ce_mesh mesh = ce_mesh_of(i, engine->world.size, tp, engine->settings->shard_size);
        ce_zero zero = engine->zero;
        ce_stage_place(&zero, &mesh);
        taken->memory[i] = engine->memory;
        ce_dry_run_persistent(engine, &zero, &taken->memory[i]);
        ce_dry_run_sent(engine, &mesh, &taken->memory[i]);
    }
    return CS_OK;
}

cs_status cs_estimate(cs_config *config, cs_memory *memory, int64_t *parameters)
{
    CE_GIVEN(config);
    estimate taken = { .memory = memory };
    cs_status status = measure_ranks(config, memory != NULL, take_memory, &taken);
    *parameters = status == CS_OK ? taken.parameters : 0;
    for (int i = 0; memory && i < taken.world; i++)
        memory[i].activations = taken.activations;
    return status;
}

/* ---- units ---- */

typedef struct {
    cs_unit_size **units;
    int64_t *count;
} unit_list;

static cs_status take_units(const cs_engine *engine, void *into)
{
    const unit_list *taken = into;
    const ce_zero *zero = &engine->zero;
    size_t width = cs_dtype_bytes(zero->precision.values);
    *taken->count = engine->model->count;
    *taken->units = calloc((size_t)*taken->count, sizeof **taken->units);
    if (!*taken->units)
        return ce_fail(CS_NO_MEMORY, "out of memory for a list of units");
    for (int64_t i = 0; i < *taken->count; i++) {
        const cs_unit *unit = engine->model->units[i];
        cs_unit_size *size = &(*taken->units)[i];
        int64_t padded = ce_stage_padded(zero, unit->length);
        snprintf(size->name, sizeof size->name, "%s", ce_unit_label(unit));
        for (int at = 0; at < unit->entry_count; at++)
            size->elements += ce_cut_count(&unit->entries[at]->cut);
        size->values = (size_t)padded * width;
        size->part = (size_t)ce_stage_share(zero, zero->stage.params, padded) * width;
    }
    return CS_OK;
}

cs_status cs_estimate_units(cs_config *config, cs_unit_size **units, int64_t *count)
{
    CE_GIVEN(config);
    *units = NULL;
    return measure_ranks(config, false, take_units, &(unit_list){ units, count });
}

/* ---- cuts ---- */

typedef struct {
    cs_param_cut **cuts;
    int64_t *count, *ranks;
} cut_list;

static cs_param_cut describe(const ce_unit_entry *entry)
{
    const ce_cut *cut = &entry->cut;
    cs_param_cut made = { .shape = { cut->whole[0], entry->param.value.dims > 1 ? cut->whole[1] : 0 },
                          .dimension = cut->dim,
                          .parts = cut->count,
                          .partial = cut->partial };
    snprintf(made.name, sizeof made.name, "%s", entry->full_name);
    for (int i = 0; i < cut->count; i++) {
        made.part[i].from = cut->part[i].from;
        made.part[i].to = cut->part[i].from + cut->part[i].count;
        made.part[i].copies = cut->part[i].copies;
    }
    return made;
}

/* Appends what this engine's rank holds of each parameter. */
static cs_status take_cuts(const cs_engine *engine, void *into)
{
    const cut_list *taken = into;
    const cs_model *model = engine->model;
    int64_t count = 0, first = engine->world.rank;
    for (int i = 0; i < model->total; i++)
        count += model->units[i]->entry_count;
    cs_param_cut *cuts = realloc(*taken->cuts, (size_t)((first + 1) * count) * sizeof *cuts);
    if (!cuts)
        return ce_fail(CS_NO_MEMORY, "out of memory for a list of parameters");
    *taken->cuts = cuts;
    *taken->count = count;
    *taken->ranks = engine->settings->tp;
    cuts += first * count;
    for (int i = 0; i < model->total; i++)
        for (int at = 0; at < model->units[i]->entry_count; at++)
            *cuts++ = describe(model->units[i]->entries[at]);
    return CS_OK;
}

cs_status cs_estimate_cuts(cs_config *config, cs_param_cut **cuts, int64_t *count, int64_t *ranks)
{
    CE_GIVEN(config);
    *cuts = NULL;
    return measure_ranks(config, true, take_cuts, &(cut_list){ cuts, count, ranks });
}
