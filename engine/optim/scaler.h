/* scaler.h - loss scaling, static or dynamic.
 *
 * Dynamic scaling follows DeepSpeed's DynamicLossScaler of stages 1 to 3, including its hysteresis. cspeed uses
 * dynamic scaling at every stage. */
#ifndef CE_OPTIM_SCALER_H
#define CE_OPTIM_SCALER_H

#include "base/host_device.h"
#include "base/status.h"

#include <math.h>

typedef struct {
    double loss_scale; /* static scale, or 0 if the scale is dynamic */
    int64_t initial_scale_power, loss_scale_window, hysteresis;
    bool consecutive_hysteresis;
    double min_loss_scale;
    double max_loss_scale; /* 0 means 2^126 */
} ce_scaler_settings;

typedef struct {
    bool dynamic;
    double scale;
    int64_t hysteresis;    /* n: the n-th overflow from now halves the scale; a number below 1 means 1 */
    int64_t iteration;     /* number of steps so far */
    int64_t last_overflow; /* iteration of the last overflow, or -1 */
} ce_scaler;

/* Returns the scaler of the next step. `overflow` says whether the gradients of this step overflowed. The algorithm is
 * DeepSpeed's with three corrections: a hysteresis of 0 or less means 1 (DeepSpeed would never lower the scale), a
 * scale below the minimum does not rise when gradients overflow, and the scale stays a finite float. */
CE_HOST_DEVICE ce_scaler ce_scaler_next(ce_scaler scaler, const ce_scaler_settings *settings, bool overflow)
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

/* Sets the scaler of the first step. If `enabled` is false (fp32, bf16), the scale is static and 1. */
void ce_scaler_open(ce_scaler *scaler, const ce_scaler_settings *settings, bool enabled);
/* Sets *scaler to the scaler of the next step. If gradients overflow at the minimum scale, returns CS_UNSUPPORTED with
 * a message, because training cannot continue. If `said` is not NULL, *said becomes DeepSpeed's log line about the
 * overflow, or "" if `overflow` is false. The text is in a static buffer of the thread. */
cs_status ce_scaler_judge(ce_scaler *scaler, const ce_scaler_settings *settings, bool overflow, const char **said);

#endif
