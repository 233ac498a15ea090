/* scaler.c - loss scaling: the initial scale, and DeepSpeed's log lines about changes of the scale. */
#include "optim/scaler.h"

#include <math.h>
#include <stdio.h>

/* Programs that read DeepSpeed's logs search for this text. */
#define SKIPPED "[deepspeed] OVERFLOW! Rank 0 Skipping step."

void ce_scaler_open(ce_scaler *scaler, const ce_scaler_settings *settings, bool enabled)
{
    *scaler = (ce_scaler){ .dynamic = enabled && settings->loss_scale == 0, .scale = 1, .last_overflow = -1 };
    if (!enabled)
        return;
    scaler->hysteresis = settings->hysteresis;
    scaler->scale = scaler->dynamic ? ldexp(1, (int)settings->initial_scale_power) : settings->loss_scale;
}

/* Writes the log line that says how ce_scaler_next changes a dynamic scale after an overflow of the gradients. */
static cs_status describe(const ce_scaler *before, const ce_scaler_settings *settings, char *text, size_t capacity)
{
    if (before->hysteresis > 1)
        snprintf(text, capacity,
                 SKIPPED " Attempted loss scale: %.15g, but hysteresis is %lld. Reducing hysteresis to %lld",
                 before->scale, (long long)before->hysteresis, (long long)before->hysteresis - 1);
    else if (before->scale <= settings->min_loss_scale)
        return ce_fail(
            CS_UNSUPPORTED,
            "gradients overflow at the smallest loss scale, %g, so fp16 cannot train this: use bf16 (\"bf16\": "
            "{\"enabled\": true}), or a lower learning rate or fp16.min_loss_scale",
            before->scale);
    else
        snprintf(text, capacity, SKIPPED " Attempted loss scale: %.15g, reducing to %.15g", before->scale,
                 ce_scaler_next(*before, settings, true).scale);
    return CS_OK;
}

cs_status ce_scaler_judge(ce_scaler *scaler, const ce_scaler_settings *settings, bool overflow, const char **said)
{
    static _Thread_local char text[192];
    ce_scaler before = *scaler;
    *text = 0;
    *scaler = ce_scaler_next(before, settings, overflow);
    if (said)
        *said = text;
    if (overflow && before.dynamic)
        return describe(&before, settings, text, sizeof text);
    if (overflow)
        snprintf(text, sizeof text, SKIPPED);
    return CS_OK;
}
