/* fit.c - whether a run fits its device: asked before memory is taken, so that the answer can say what it is for. */
#include "engine.h"

#include <stdio.h>

#define GB (1024.0 * 1024.0 * 1024.0)

static size_t add_line(char *text, size_t room, size_t used, const char *what, size_t bytes)
{
    int added = used < room && bytes ? snprintf(text + used, room - used, "\n  %-34s %8.2f GB", what, (double)bytes / GB) : 0;
    return used + (size_t)added;
}

/* Of what this run does not do yet. */
static void advise(const cs_engine *engine, char *text, size_t room)
{
    const cs_settings *settings = engine->settings;
    const char        *stage    = settings->stage < 3 && engine->world.size > 1
                                      ? "a higher zero_optimization.stage, "
                                      : engine->world.size == 1 ? "more ranks with zero_optimization.stage 3, " : "more ranks, ";
    snprintf(text, room, "%s%s%s16-bit parameters (bf16.enabled), or a shorter cspeed.data.seq_len", stage,
             settings->micro_batch > 1 ? "a smaller train_micro_batch_size_per_gpu, " : "",
             settings->recompute ? "" : "cspeed.recompute, ");
}

cs_status cs_fit_check(const cs_engine *engine)
{
    const cs_memory *m = &engine->memory;
    const struct {
        const char *what;
        size_t      bytes;
    } parts[] = {
        { "parameters", m->values },
        { "gradients", m->gradients },
        { "fp32 masters", m->masters },
        { "optimizer states", m->slots },
        { "gathered parameters in flight", m->value_rows },
        { "unreduced gradients in flight", m->gradient_rows },
        { "activations of a micro-batch", m->activations },
    };
    size_t total = 0, used = 0, room = cs_device_room(engine->device);
    char   table[1024] = "", advice[512];
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        total += parts[i].bytes;
        used = add_line(table, sizeof table, used, parts[i].what, parts[i].bytes);
    }
    if (room == 0 || total <= room)
        return CS_OK;
    advise(engine, advice, sizeof advice);
    return cs_fail(CS_NO_MEMORY, "rank %d needs %.2f GB on its device, %s, where %.2f GB are free:%s\nwhat helps: %s",
                   engine->world.rank, (double)total / GB, cs_device_describe(engine->device), (double)room / GB, table,
                   advice);
}
