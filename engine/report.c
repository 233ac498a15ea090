/* report.c - what a step took, and the lines DeepSpeed's users know. */
#include "engine.h"
#include "base/log.h"

static void print_lines(const cs_engine *engine)
{
    const cs_settings *settings = engine->settings;
    const cs_metrics  *metrics  = &engine->metrics;
    if (settings->steps_per_print > 0 && metrics->step % settings->steps_per_print == 0) {
        bool sgd = settings->optim.kind == CS_OPTIM_SGD;
        if (sgd)
            cs_log(CS_LOG_INFO, "step=%lld, skipped=%lld, lr=[%.9g], mom=[%.9g]", (long long)metrics->step,
                   (long long)metrics->skipped, metrics->learning_rate, settings->optim.momentum);
        else
            cs_log(CS_LOG_INFO, "step=%lld, skipped=%lld, lr=[%.9g], mom=[[%.9g, %.9g]]", (long long)metrics->step,
                   (long long)metrics->skipped, metrics->learning_rate, settings->optim.betas[0],
                   settings->optim.betas[1]);
    }
    if (settings->wall_clock_breakdown)
        cs_log(CS_LOG_INFO, "time (ms) | fwd: %.2f | bwd: %.2f | step: %.2f", 1e3 * engine->seconds.forward,
               1e3 * engine->seconds.backward, 1e3 * engine->seconds.step);
}

cs_phase_seconds cs_phases(const cs_engine *engine)
{
    return engine->last_seconds;
}

cs_memory cs_memory_of(const cs_engine *engine)
{
    cs_memory memory = engine->memory;
    memory.workspace = cs_device_workspace(engine->device);
    return memory;
}

/* A step lasts from the end of the one before, so that the program's own time counts. */
void cs_report_step(cs_engine *engine)
{
    cs_metrics *metrics = &engine->metrics;
    double      now = cs_clock_seconds(), flops = cs_device_flops(engine->device);
    double      rows           = (double)(engine->settings->train_batch_size * engine->length);
    double      roof           = cs_device_roof(engine->device, engine->zero.dtype); /* measured now, the first time */
    metrics->step_seconds      = now - engine->started;
    metrics->tokens_per_second = rows / metrics->step_seconds;
    metrics->peak_share        = roof > 0 ? (flops - engine->flops_before) / (roof * metrics->step_seconds) : 0;
    metrics->epoch             = engine->windows ? (double)metrics->samples / (double)engine->windows : 0;
    engine->started            = cs_clock_seconds();
    engine->flops_before       = flops;
    print_lines(engine);
}
