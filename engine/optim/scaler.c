/* scaler.c - loss scale: static or dynamic; says whether a step counts.
 *
 * The machine is DeepSpeed's DynamicLossScaler, with three corrections: hysteresis 0 or less means 1 (there, such a
 * scale is never lowered), a scale below the minimum does not rise when it overflows, and the scale stays a finite
 * float. */
#include "optim/scaler.h"

#include <math.h>
#include <stdio.h>

#define MOST_SCALE 0x1p126
#define SKIPPED    "[deepspeed] OVERFLOW! Rank 0 Skipping step." /* as readers of DeepSpeed's logs look for it */

void cs_scaler_open(cs_scaler *scaler, const cs_scaler_settings *settings, bool enabled)
{
    *scaler = (cs_scaler){.dynamic = enabled && settings->loss_scale == 0, .scale = 1, .last_overflow = -1};
    if (!enabled)
        return;
    scaler->hysteresis = settings->hysteresis;
    scaler->scale      = scaler->dynamic ? ldexp(1, (int)settings->initial_scale_power) : settings->loss_scale;
}

static cs_status lower(cs_scaler *scaler, const cs_scaler_settings *settings, char *text, size_t room)
{
    if (scaler->hysteresis > 1) {
        snprintf(text, room,
                 SKIPPED " Attempted loss scale: %.15g, but hysteresis is %lld. Reducing hysteresis to %lld",
                 scaler->scale, (long long)scaler->hysteresis, (long long)scaler->hysteresis - 1);
        scaler->hysteresis--;
    } else if (scaler->scale <= settings->min_loss_scale) {
        return cs_fail(
            CS_UNSUPPORTED,
            "gradients overflow at the smallest loss scale, %g, so fp16 cannot train this: use bf16 (\"bf16\": "
            "{\"enabled\": true}), or a lower learning rate or fp16.min_loss_scale",
            scaler->scale);
    } else {
        double next = fmax(scaler->scale / 2, settings->min_loss_scale);
        snprintf(text, room, SKIPPED " Attempted loss scale: %.15g, reducing to %.15g", scaler->scale, next);
        scaler->scale = next;
    }
    scaler->last_overflow = scaler->iteration;
    return CS_OK;
}

static void raise(cs_scaler *scaler, const cs_scaler_settings *settings)
{
    int64_t stable = scaler->iteration - scaler->last_overflow - 1;
    bool    whole  = stable > 0 && stable % settings->loss_scale_window == 0;
    if (settings->consecutive_hysteresis || whole)
        scaler->hysteresis = settings->hysteresis;
    if (whole)
        scaler->scale = fmin(scaler->scale * 2, settings->max_loss_scale > 0 ? settings->max_loss_scale : MOST_SCALE);
}

cs_status cs_scaler_judge(cs_scaler *scaler, const cs_scaler_settings *settings, bool overflow, const char **said)
{
    static _Thread_local char text[192];
    cs_status                 status = CS_OK;
    *text                            = 0;
    if (scaler->dynamic && overflow)
        status = lower(scaler, settings, text, sizeof text);
    else if (scaler->dynamic)
        raise(scaler, settings);
    else if (overflow)
        snprintf(text, sizeof text, SKIPPED);
    if (!scaler->dynamic && overflow)
        scaler->last_overflow = scaler->iteration;
    scaler->iteration++;
    if (said)
        *said = text;
    return status;
}
