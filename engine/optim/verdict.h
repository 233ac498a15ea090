/* verdict.h - the verdict on a step. The verdict is computed at the end of gradient accumulation, from sums over all
 * ranks.
 *
 * The verdict says whether parameters change. It contains the factor of the gradients (unscaling, mean, clipping) and
 * the loss scale of the next step. The same code runs on every device, in doubles and in one order. So every device
 * computes the same verdict, bit for bit. */
#ifndef CE_OPTIM_VERDICT_H
#define CE_OPTIM_VERDICT_H

#include "base/exact.h"
#include "optim/preference.h"
#include "optim/scaler.h"

enum { CE_PAIR_MEANS = CE_PREFERENCE_TOKENS - CE_PREFERENCE_LOSS - 1 };
#define CE_END_ASKED (INT64_C(1) << 32)

/* The values that ranks add in one all-reduce. The values are integers, so the order of the additions does not change
 * the sums. */
typedef struct {
    ce_exact squares;              /* sum of the squares of (gradient / loss scale of this step) */
    ce_exact loss;                 /* sum of the losses of the rows that have a target */
    int64_t rows;                  /* number of rows that have a target; in preference training the number of pairs */
    int64_t saved;                 /* number of ranks that have written their part of the checkpoint in progress */
    int64_t targets;               /* number of rows that have a target, in preference training too */
    int64_t asked;                 /* number of ranks that are asked for a checkpoint, plus CE_END_ASKED for each that
                                    * is asked to end afterwards */
    ce_exact pairs[CE_PAIR_MEANS]; /* for preference training: sums over pairs; ce_verdict.pairs has their means */
} ce_step_sums;

/* Facts about one optimizer step that the host knows. Backward started from the gradient loss_scale / step_rows for
 * each row. The gradients were multiplied by prescale_factor before their reduction over ranks. */
typedef struct {
    double step_rows; /* number of rows in all micro-batches of one rank */
    /* factor that was applied before the reduction; ce_verdict_judge divides the gradients by this factor */
    double prescale_factor;
    double sum_factor; /* 1 if gradients are a mean over rows; the world size if they are the sum of the ranks' means */
    double clipping;   /* maximum of the gradients' norm; 0 means no clipping */
    int pairs;         /* CE_PAIR_MEANS in preference training, otherwise 0 */
    bool checked;      /* True if a step whose gradients are not finite is skipped. */
    ce_scaler_settings scaler;
} ce_step_terms;

/* The part of the verdict that an update reads. */
typedef struct {
    float factor; /* factor of the gradients: unscaling, mean over the rows that have a target, and clipping */
    int open;     /* 0 if the parameters do not change, otherwise 1 */
} ce_gate;

typedef struct {
    ce_gate gate;
    ce_scaler scaler; /* loss scaler of the next step; a step without any target does not change the scaler */
    double norm;      /* norm of the unscaled gradients before clipping */
    double loss;      /* mean over rows, or NaN if no row has a target */
    int64_t rows, saved, targets, asked;
    /* For preference training: five means over pairs. They are the reward of the chosen answer, the reward of the
     * rejected answer, the share of pairs whose chosen answer has the greater reward, the log-probability of the chosen
     * answer, and that of the rejected answer. */
    double pairs[CE_PAIR_MEANS];
} ce_verdict;

/* Returns the clipping factor as DeepSpeed and PyTorch compute it. The small constant avoids a division by zero. */
CE_HOST_DEVICE double ce_verdict_clip(double norm, double max)
{
    if (max <= 0 || !isfinite(norm))
        return 1;
    double factor = max / (norm + 1e-6);
    return factor < 1 ? factor : 1;
}

/* Returns the factor that makes the sums of backward the gradients of the mean loss of `rows` rows, summed over ranks;
 * `scale` is the loss scale of the step. */
CE_HOST_DEVICE double ce_verdict_factor(const ce_step_terms *terms, int64_t rows, double scale)
{
    double given = scale * terms->prescale_factor;
    return (rows ? terms->step_rows / ((double)rows * given) : 0) * terms->sum_factor;
}

CE_HOST_DEVICE ce_verdict ce_verdict_judge(const ce_step_sums *sum, const ce_step_terms *terms, ce_scaler scaler)
{
    ce_verdict verdict;
    bool overflow = terms->checked && sum->squares.nonfinite > 0;
    double factor = ce_verdict_factor(terms, sum->rows, scaler.scale);
    verdict.norm = (double)INFINITY;
    if (!sum->squares.nonfinite)
        verdict.norm = sqrt(ce_exact_value(&sum->squares)) * factor * scaler.scale;
    verdict.gate.factor = (float)(factor * ce_verdict_clip(verdict.norm, terms->clipping));
    verdict.gate.open = sum->rows != 0 && !overflow;
    verdict.scaler = sum->rows ? ce_scaler_next(scaler, &terms->scaler, overflow) : scaler;
    verdict.loss = sum->rows ? ce_exact_value(&sum->loss) / (double)sum->rows : (double)NAN;
    verdict.rows = sum->rows;
    verdict.saved = sum->saved;
    verdict.targets = sum->targets;
    verdict.asked = sum->asked;
    for (int i = 0; i < CE_PAIR_MEANS; i++)
        verdict.pairs[i] =
            i < terms->pairs && sum->rows ? ce_exact_value(&sum->pairs[i]) / (double)sum->rows : (double)NAN;
    return verdict;
}

#endif
