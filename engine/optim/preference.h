/* preference.h - the losses of preference training: DPO (Rafailov et al., NeurIPS 2023) and its variants, for one pair
 * of answers to the same prompt, a chosen and a rejected one. The same code runs on every device, in doubles.
 *
 * The ratio of an answer is its log-probability by the model minus its log-probability by the reference model.
 * With x = beta (ratio of the chosen answer - ratio of the rejected one):
 *
 *   sigmoid   -log sigmoid(x)
 *   hinge     max(0, 1 - x)
 *   ipo       (rc / nc - rr / nr - 1 / (2 beta))^2, where rc and rr are the ratios, and nc and nr the numbers of
 *             tokens, of the chosen and of the rejected answer
 *   robust    (-(1 - s) log sigmoid(x) + s log sigmoid(-x)) / (1 - 2 s), where s is the share of pairs whose labels
 *             chosen and rejected are exchanged by mistake */
#ifndef CE_OPTIM_PREFERENCE_H
#define CE_OPTIM_PREFERENCE_H

#include "base/host_device.h"

#include <math.h>
#include <stdint.h>

/* The loss functions, in the order in which the key cspeed.dpo.loss_type lists its values. */
enum { CE_PREFERENCE_SIGMOID, CE_PREFERENCE_HINGE, CE_PREFERENCE_IPO, CE_PREFERENCE_ROBUST };

typedef struct {
    int kind;         /* a value CE_PREFERENCE_* */
    double beta;      /* factor beta; 0 means that this is no preference training */
    double smoothing; /* share s of CE_PREFERENCE_ROBUST, below 0.5 */
} ce_preference;

enum { CE_CHOSEN, CE_REJECTED, CE_ANSWERS };

/* A pair of answers. Each array has one element for each answer, CE_CHOSEN and CE_REJECTED. */
typedef struct {
    float logp[CE_ANSWERS]; /* sum over the answer's tokens of their log-probabilities by the model */
    /* sum over the answer's tokens of their log-probabilities by the reference model */
    float reference[CE_ANSWERS];
    int64_t tokens[CE_ANSWERS];
} ce_preference_pair;

typedef struct {
    double loss;
    double slope[CE_ANSWERS];  /* derivative of the loss by the log-probability of each answer */
    double reward[CE_ANSWERS]; /* beta times the ratio of each answer */
} ce_preference_result;

CE_HOST_DEVICE double ce_preference_log_sigmoid(double x)
{
    return (x < 0 ? x : 0) - log1p(exp(-fabs(x)));
}

CE_HOST_DEVICE double ce_preference_sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

/* Computes the losses that depend on x alone, where x is beta times the difference of the answers' ratios. Sets *slope
 * to the derivative of the loss by x. */
CE_HOST_DEVICE double ce_preference_of_margin(const ce_preference *rule, double x, double *slope)
{
    double s = rule->kind == CE_PREFERENCE_ROBUST ? rule->smoothing : 0;
    if (rule->kind == CE_PREFERENCE_HINGE) {
        *slope = x < 1 ? -1 : 0;
        return x < 1 ? 1 - x : 0 * x; /* NaN stays NaN. */
    }
    *slope = -((1 - s) * ce_preference_sigmoid(-x) + s * ce_preference_sigmoid(x)) / (1 - 2 * s);
    return (s * ce_preference_log_sigmoid(-x) - (1 - s) * ce_preference_log_sigmoid(x)) / (1 - 2 * s);
}

CE_HOST_DEVICE ce_preference_result ce_preference_judge(const ce_preference *rule, const ce_preference_pair *pair)
{
    ce_preference_result result;
    double ratio[CE_ANSWERS], slope;
    for (int i = 0; i < CE_ANSWERS; i++) {
        ratio[i] = (double)pair->logp[i] - (double)pair->reference[i];
        result.reward[i] = rule->beta * ratio[i];
    }
    if (rule->kind == CE_PREFERENCE_IPO) {
        double chosen = (double)(pair->tokens[CE_CHOSEN] > 0 ? pair->tokens[CE_CHOSEN] : 1);
        double rejected = (double)(pair->tokens[CE_REJECTED] > 0 ? pair->tokens[CE_REJECTED] : 1);
        double apart = ratio[CE_CHOSEN] / chosen - ratio[CE_REJECTED] / rejected - 1 / (2 * rule->beta);
        result.loss = apart * apart;
        result.slope[CE_CHOSEN] = 2 * apart / chosen;
        result.slope[CE_REJECTED] = -2 * apart / rejected;
        return result;
    }
    result.loss = ce_preference_of_margin(rule, result.reward[CE_CHOSEN] - result.reward[CE_REJECTED], &slope);
    result.slope[CE_CHOSEN] = rule->beta * slope;
    result.slope[CE_REJECTED] = -rule->beta * slope;
    return result;
}

#endif
