/* estimate.c - cs_estimate, cs_estimate_units: the memory and the units of a run that is not started. No device or
 * transport is opened; the dry run measures. */
#include "setup/setup.h"
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
    ce_log_open(CE_LOG_WARNING, 0);
    return ce_initialize_dry(engine);
}

/* Sets the memory of the ranks that have the same coordinate on the axis tp as this engine's rank: their layers have the
 * same shapes. */
static void fill(cs_engine *engine, cs_memory *memory)
{
    int tp = engine->settings->tp;
    for (int i = engine->world.rank; i < engine->world.size; i += tp) {
        ce_mesh mesh = ce_mesh_of(i, engine->world.size, tp, engine->settings->shard_size);
        ce_stage_place(&engine->zero, &mesh);
        memory[i] = engine->memory;
        ce_dry_run_persistent(engine, &memory[i]);
    }
}

cs_status cs_estimate(cs_config *config, cs_memory *memory, int64_t *parameters)
{
    cs_status status = CS_OK;
    *parameters = 0;
    for (int rank = 0, ranks = 1; rank < ranks && status == CS_OK; rank++) {
        cs_engine *engine = calloc(1, sizeof *engine);
        if (!engine) {
            status = ce_fail(CS_NO_MEMORY, "out of memory for an engine");
            break;
        }
        engine->config = config;
        status = measure(engine, rank);
        if (status == CS_OK && memory)
            fill(engine, memory);
        if (status == CS_OK && memory)
            ranks = engine->settings->tp;
        *parameters = status == CS_OK ? engine->model->parameters : 0;
        engine->config = NULL; /* it is closed below */
        cs_destroy(engine);
    }
    cs_config_close(config);
    return status;
}

static cs_status list_units(const cs_engine *engine, cs_unit_size **units, int64_t *count)
{
    const ce_zero *zero = &engine->zero;
    size_t width = cs_dtype_bytes(zero->precision.values);
    *count = engine->model->count;
    *units = calloc((size_t)*count, sizeof **units);
    if (!*units)
        return ce_fail(CS_NO_MEMORY, "out of memory for a list of units");
    for (int64_t i = 0; i < *count; i++) {
        const cs_unit *unit = engine->model->units[i];
        cs_unit_size *size = &(*units)[i];
        int64_t padded = ce_stage_padded(zero, unit->length);
        snprintf(size->name, sizeof size->name, "%s", ce_walk_name(unit));
        for (int at = 0; at < unit->entry_count; at++)
            size->elements += ce_cut_count(&unit->entries[at]->cut);
        size->values = (size_t)padded * width;
        size->part = (size_t)ce_stage_share(zero, zero->stage.params, padded) * width;
    }
    return CS_OK;
}

cs_status cs_estimate_units(cs_config *config, cs_unit_size **units, int64_t *count)
{
    cs_engine *engine = calloc(1, sizeof *engine);
    *units = NULL;
    if (!engine) {
        cs_config_close(config);
        return ce_fail(CS_NO_MEMORY, "out of memory for an engine");
    }
    engine->config = config;
    cs_status status = measure(engine, 0);
    if (status == CS_OK)
        status = list_units(engine, units, count);
    cs_destroy(engine);
    return status;
}
