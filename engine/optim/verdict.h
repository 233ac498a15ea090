/* verdict.h - a step judged at its boundary, from what ranks added up: whether parameters move, what gradients are
 * multiplied with, and the loss scale of the next step. One text for every device, in doubles and in one order, so that
 * the bits are the same wherever it is judged. */
#ifndef CS_OPTIM_VERDICT_H
#define CS_OPTIM_VERDICT_H

#include "base/exact.h"
#include "optim/scaler.h"

/* What ranks tell each other, in one all-reduce of integers: sums in any order, the same bits. */
typedef struct {
    cs_exact squares; /* of gradients, unscaled by the scale of this step            */
    cs_exact loss;    /* of rows that have a target                                  */
    int64_t rows;     /* how many                                                    */
    int64_t saved;    /* ranks whose part of a checkpoint in flight is done          */
} cs_step_sums;

/* Facts about one optimizer step that the host knows. Backward started from loss_scale / step_rows for each row, and
 * gradients were multiplied by prescale_factor before their reduction over ranks. */
typedef struct {
    double step_rows;       /* rows of all micro-batches of one rank */
    double prescale_factor; /* see above; cs_verdict_judge divides it out again */
    double sum_factor;      /* 1: gradients are a mean over rows; the world size: the sum of the ranks' means */
    double clipping;        /* maximum of the gradients' norm; 0: no clipping */
    bool checked;           /* a step whose gradients are not finite is skipped */
    cs_scaler_settings scaler;
} cs_step_terms;

/* What an update asks. */
typedef struct {
    float factor; /* gradients are multiplied with it: unscaled, averaged over the rows that counted, and clipped */
    int open;     /* 0: nothing moves */
} cs_gate;

typedef struct {
    cs_gate gate;
    cs_scaler scaler; /* of the next step; one without a target tells nothing of it */
    double norm;      /* of gradients, unscaled, before clipping                    */
    double loss;      /* mean over rows; NaN where there are none                   */
    int64_t rows, saved;
} cs_verdict;

/* DeepSpeed's and PyTorch's: the small constant keeps a zero norm harmless. */
CS_RULE double cs_verdict_clip(double norm, double max)
{
    if (max <= 0 || !isfinite(norm))
        return 1;
    double factor = max / (norm + 1e-6);
    return factor < 1 ? factor : 1;
}

CS_RULE cs_verdict cs_verdict_judge(const cs_step_sums *sum, const cs_step_terms *terms, cs_scaler scaler)
{
    cs_verdict verdict;
    bool overflow = terms->checked && sum->squares.nonfinite > 0;
    double given = scaler.scale * terms->prescale_factor;
    double factor = (sum->rows ? terms->step_rows / ((double)sum->rows * given) : 0) * terms->sum_factor;
    verdict.norm = (double)INFINITY;
    if (!sum->squares.nonfinite)
        verdict.norm = sqrt(cs_exact_value(&sum->squares)) * factor * scaler.scale;
    verdict.gate.factor = (float)(factor * cs_verdict_clip(verdict.norm, terms->clipping));
    verdict.gate.open = sum->rows != 0 && !overflow;
    verdict.scaler = sum->rows ? cs_scaler_next(scaler, &terms->scaler, overflow) : scaler;
    verdict.loss = sum->rows ? cs_exact_value(&sum->loss) / (double)sum->rows : (double)NAN;
    verdict.rows = sum->rows;
    verdict.saved = sum->saved;
    return verdict;
}

#endif
