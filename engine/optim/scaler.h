/* scaler.h - loss scale: static or dynamic; says whether a step counts.
 *
 * DeepSpeed's DynamicLossScaler of stages 1-3 (hysteresis included), at every stage. */
#ifndef CS_OPTIM_SCALER_H
#define CS_OPTIM_SCALER_H

#include "base/status.h"
#include "optim/rule.h"

typedef struct {
    double loss_scale; /* 0: dynamic, else the static scale */
    int64_t initial_scale_power, loss_scale_window, hysteresis;
    bool consecutive_hysteresis;
    double min_loss_scale;
    double max_loss_scale; /* 0: as far as a float goes */
} cs_scaler_settings;

typedef struct {
    bool dynamic;
    double scale;
    int64_t hysteresis;    /* overflows still tolerated before lowering */
    int64_t iteration;     /* steps judged so far                        */
    int64_t last_overflow; /* iteration of the last overflow; -1: none   */
} cs_scaler;

/* The scale of the step after one whose gradients overflowed, or did not. The machine is DeepSpeed's, with three
 * corrections: hysteresis 0 or less means 1 (there, such a scale is never lowered), a scale below the minimum does not
 * rise when it overflows, and the scale stays a finite float. */
CS_RULE cs_scaler cs_scaler_next(cs_scaler scaler, const cs_scaler_settings *settings, bool overflow)
{
    bool stuck = scaler.dynamic && scaler.hysteresis <= 1 && scaler.scale <= settings->min_loss_scale;
    if (overflow && !stuck) {
        if (scaler.dynamic && scaler.hysteresis > 1)
            scaler.hysteresis--;
        else if (scaler.dynamic)
            scaler.scale = fmax(scaler.scale / 2, settings->min_loss_scale);
        scaler.last_overflow = scaler.iteration;
    } else if (scaler.dynamic && !overflow) {
        int64_t stable = scaler.iteration - scaler.last_overflow - 1;
        bool whole = stable > 0 && stable % settings->loss_scale_window == 0;
        if (settings->consecutive_hysteresis || whole)
            scaler.hysteresis = settings->hysteresis;
        if (whole)
            scaler.scale = fmin(scaler.scale * 2, settings->max_loss_scale > 0 ? settings->max_loss_scale : 0x1p126);
    }
    scaler.iteration++;
    return scaler;
}

/* enabled false (fp32, bf16): a static scale of 1. */
void cs_scaler_open(cs_scaler *scaler, const cs_scaler_settings *settings, bool enabled);
/* After each step's gradients were judged: *scaler becomes the next. CS_UNSUPPORTED with a sentence when the scale
 * overflows at its minimum: training cannot go on. *said, where not NULL, is set to DeepSpeed's line about it, or ""
 * (borrowed, static buffer of the thread). */
cs_status cs_scaler_judge(cs_scaler *scaler, const cs_scaler_settings *settings, bool overflow, const char **said);

#endif
