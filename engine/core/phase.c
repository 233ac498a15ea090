/* phase.c - what happens when a training phase begins and when it ends: the order of the calls is checked, clocks are
 * read, and the observers are called. */
#include "core/engine.h"
#include "base/beat.h"
#include "base/misuse.h"
#include "base/must.h"
#include "base/trace.h"

/* `due` must be the engine's phase when the phase begins; `next` is the engine's phase after the end of the phase. */
static const struct {
    const char *verb, *range;
    ce_phase due, next;
} phases[] = {
    [CE_FORWARD] = { "cs_forward", "forward", CE_FORWARD, CE_BACKWARD },
    [CE_BACKWARD] = { "cs_backward", "backward", CE_BACKWARD, CE_STEP },
    [CE_STEP] = { "cs_step", "step", CE_STEP, CE_FORWARD },
    [CE_EVALUATE] = { "cs_evaluate", "evaluate", CE_FORWARD, CE_FORWARD },
};

void ce_phase_expect(const cs_engine *engine, ce_phase due, const char *verb)
{
    if (engine->failed)
        ce_fatal(CS_MISUSE, "%s: an earlier call of a step failed, so this engine can only be destroyed", verb);
    if (engine->phase != due)
        ce_fatal(CS_MISUSE, "%s was called, and %s must be called next: the order is cs_forward, cs_backward, cs_step",
                 verb, phases[engine->phase].verb);
}

double ce_phase_clock(cs_engine *engine)
{
    if (engine->settings->wall_clock_breakdown && ce_device_has_own_memory(engine->device))
        ce_walk_settle(engine);
    return ce_clock_seconds();
}

void ce_phase_begin(cs_engine *engine, ce_phase phase)
{
    ce_misuse_given(phases[phase].verb, "engine", (const void *const[]){ engine }, 1);
    ce_phase_expect(engine, phases[phase].due, phases[phase].verb);
    if (phase == CE_FORWARD && engine->micro == 0)
        engine->seconds = (cs_phase_seconds){ 0 };
    CE_OBSERVE(engine, phase_begin, (engine, phase));
    engine->phase_traced = ce_trace_begin();
    engine->phase_started = ce_clock_seconds();
    engine->phase_flops = ce_device_flops(engine->device);
    ce_device_enter(engine->device, phases[phase].range);
}

/* Returns the seconds since the phase began, and restarts the phase's clock. */
static double lap(cs_engine *engine)
{
    double now = ce_phase_clock(engine), seconds = now - engine->phase_started;
    engine->phase_started = now;
    return seconds;
}

void ce_phase_reduced(cs_engine *engine)
{
    double seconds = lap(engine);
    engine->seconds.backward += seconds;
    engine->seconds.reduce += seconds;
}

/* Subtracts an evaluation between two steps from the next step's time and from its number of floating-point
 * operations. */
static void exclude_from_step(cs_engine *engine)
{
    engine->started += lap(engine);
    engine->flops_before += ce_device_flops(engine->device) - engine->phase_flops;
}

void ce_phase_end(cs_engine *engine, ce_phase phase)
{
    ce_device_leave(engine->device);
    ce_trace_end(CE_TRACE_STEP, phases[phase].range, "", engine->phase_traced);
    engine->phase = phases[phase].next;
    if (phase == CE_FORWARD)
        engine->seconds.forward += lap(engine);
    else if (phase == CE_BACKWARD)
        engine->seconds.backward += lap(engine);
    else if (phase == CE_STEP)
        engine->seconds.step += lap(engine);
    else
        exclude_from_step(engine);
    bool stepped = phase == CE_STEP && engine->micro == 0;
    if (stepped)
        engine->last_seconds = engine->seconds;
    CE_OBSERVE(engine, phase_end, (engine, phase));
    if (stepped)
        ce_beat_step(engine->metrics.step);
}

cs_status ce_phase_end_run(cs_engine *engine, const char **kept)
{
    cs_status status = CS_OK;
    *kept = NULL;
    for (const ce_observer *const *each = engine->observers; each && *each; each++)
        if ((*each)->run_end && status == CS_OK)
            status = (*each)->run_end(engine, kept);
    return status;
}
