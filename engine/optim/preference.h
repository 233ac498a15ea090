/* preference.h - the losses of preference training: DPO (Rafailov et al., NeurIPS 2023) and its variants, for pairs of
 * answers to the same prompt, a chosen and a rejected one. The same code runs on every device, in doubles.
 *
 * The ratio r of an answer is its log-probability by the model minus its log-probability by the reference model, and its
 * score s is a function of r (ce_preference_score). rc, sc, nc are the ratio, the score and the number of tokens of the
 * chosen answer, and rr, sr, nr those of the rejected one. With x = beta (sc - sr) and e = label_smoothing:
 *
 *   sigmoid       -log sigmoid(x)
 *   hinge         max(0, 1 - x)
 *   ipo           (sc / nc - sr / nr - 1 / (2 beta))^2
 *   robust        (-(1 - e) log sigmoid(x) + e log sigmoid(-x)) / (1 - 2 e), where e is the share of pairs whose labels
 *                 chosen and rejected are exchanged by mistake
 *   exo_pair      q (log q - log(1 - e)) + (1 - q) (log(1 - q) - log e), where q = sigmoid(x)
 *   nca_pair      -log sigmoid(beta rc) - log sigmoid(-beta rc) / 2 - log sigmoid(-beta rr) / 2
 *   bco_pair      -log sigmoid(beta rc) - log sigmoid(-beta rr)
 *   sppo_hard     (rc - 1 / (2 beta))^2 + (rr + 1 / (2 beta))^2
 *   aot           -(1 - e) log sigmoid(y) - e log sigmoid(-y), where y = beta (the i-th smallest difference of the
 *                 log-probabilities of a pair by the model - the i-th smallest difference by the reference model)
 *   aot_unpaired  the same, where y = beta (the i-th smallest rc - the i-th smallest rr)
 *   apo_zero      1 - sigmoid(beta rc) + sigmoid(beta rr)
 *   apo_down      sigmoid(beta rc) + 1 - sigmoid(beta (rc - rr))
 *   discopop      -(1 - m) log sigmoid(x) + m e^-x, where m = sigmoid(x / tau)
 *   sft           the mean of -log p over the tokens of all chosen answers
 *   sigmoid_norm  -log sigmoid(beta (sc / nc - sr / nr))
 *   simpo         -(1 - e) log sigmoid(y) - e log sigmoid(-y), where y = x - gamma
 *
 * Without a reference model (CPO, Xu et al. 2024, and SimPO, Meng et al. 2024) a ratio is the log-probability itself, for
 * ipo and simpo divided by the number of tokens, and sigmoid is simpo with gamma = 0.
 *
 * aot and aot_unpaired sort the pairs of a micro-batch, and sft takes the mean over it; the others take each pair alone.
 * These are the pairs of one lane, as those of one process are in TRL. */
#ifndef CE_OPTIM_PREFERENCE_H
#define CE_OPTIM_PREFERENCE_H

#include "base/host_device.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

/* The loss functions, by the names of the key cspeed.dpo.loss_type. */
#define CE_PREFERENCE_LOSSES(X)                                                                                        \
    X(SIGMOID, "sigmoid")                                                                                              \
    X(HINGE, "hinge")                                                                                                  \
    X(IPO, "ipo")                                                                                                      \
    X(ROBUST, "robust")                                                                                                \
    X(EXO_PAIR, "exo_pair")                                                                                            \
    X(NCA_PAIR, "nca_pair")                                                                                            \
    X(BCO_PAIR, "bco_pair")                                                                                            \
    X(SPPO_HARD, "sppo_hard")                                                                                          \
    X(AOT, "aot")                                                                                                      \
    X(AOT_UNPAIRED, "aot_unpaired")                                                                                    \
    X(APO_ZERO, "apo_zero")                                                                                            \
    X(APO_DOWN, "apo_down")                                                                                            \
    X(DISCOPOP, "discopop")                                                                                            \
    X(SFT, "sft")                                                                                                      \
    X(SIGMOID_NORM, "sigmoid_norm")                                                                                    \
    X(SIMPO, "simpo")

#define CE_PREFERENCE_KIND(name, text) CE_PREFERENCE_##name,
enum { CE_PREFERENCE_LOSSES(CE_PREFERENCE_KIND) CE_PREFERENCE_KINDS };

/* The functions from ratios to scores, in the order in which the key cspeed.dpo.f_divergence_type lists them. */
enum { CE_REVERSE_KL, CE_FORWARD_KL, CE_JS_DIVERGENCE, CE_ALPHA_DIVERGENCE };

typedef struct {
    bool reference_free;                 /* true: there is no reference model */
    double gamma;                        /* margin of CE_PREFERENCE_SIMPO */
    double beta;                         /* factor beta; 0 means that this is no preference training */
    double weights[CE_PREFERENCE_KINDS]; /* factor of each loss; the loss of a pair is the sum of all losses */
    double smoothing;                    /* e */
    double tau;
    double ld_alpha; /* factor of the log-probabilities of tokens beyond the length of the shorter answer (LD-DPO) */
    int divergence;  /* a value CE_REVERSE_KL ... */
    double alpha;    /* coefficient of CE_ALPHA_DIVERGENCE */
} ce_preference;

enum { CE_CHOSEN, CE_REJECTED, CE_ANSWERS };

/* The values (facts) that are computed for each pair of answers. CE_PREFERENCE_CORRECT is 1 if the chosen answer has
 * the greater reward, otherwise 0. A fact of the chosen answer stands before the one of the rejected answer. The facts
 * from CE_PREFERENCE_TOKENS on are only used to compute the others: the number of the answer's tokens, and the sum of
 * the log-probabilities of the chosen answer's tokens, to each of which the factor 1 is applied. */
enum {
    CE_PREFERENCE_LOSS,
    CE_PREFERENCE_CHOSEN_REWARD,
    CE_PREFERENCE_REJECTED_REWARD,
    CE_PREFERENCE_CORRECT,
    CE_PREFERENCE_CHOSEN_LOGP,
    CE_PREFERENCE_REJECTED_LOGP,
    CE_PREFERENCE_TOKENS,
    CE_PREFERENCE_REJECTED_TOKENS,
    CE_PREFERENCE_CHOSEN_SUM,
    CE_PREFERENCE_FACTS
};

/* The pairs of a micro-batch. */
typedef struct {
    const float *facts;      /* (CE_PREFERENCE_FACTS, pairs): the log-probabilities and numbers of tokens are set */
    const float *references; /* (pairs, CE_ANSWERS): log-probabilities by the reference model; NULL: all are 0 */
    int64_t pairs;
} ce_preference_pairs;

typedef struct {
    double loss;
    double slope[CE_ANSWERS];  /* derivative of the loss by the log-probability of each answer */
    double plain;              /* derivative of the loss by CE_PREFERENCE_CHOSEN_SUM */
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

/* ---- one answer ---- */

/* Returns the number by which the log-probability of an answer is divided. */
CE_HOST_DEVICE double ce_preference_divisor(const ce_preference *rule, double tokens)
{
    bool mean =
        rule->reference_free && (rule->weights[CE_PREFERENCE_IPO] > 0 || rule->weights[CE_PREFERENCE_SIMPO] > 0);
    return mean && tokens > 1 ? tokens : 1;
}

/* Returns the number of rows of an answer up to its token number `most`, including it. `target` has `length` rows; those
 * of the answer's tokens are at least 0. */
CE_HOST_DEVICE int64_t ce_preference_rows_of(const int32_t *target, int64_t length, int64_t most)
{
    int64_t row = 0;
    for (int64_t tokens = 0; row < length && tokens < most; row++)
        tokens += target[row] >= 0;
    return row;
}

/* Returns the score of a ratio and sets *slope to its derivative: f'(t), where t = e^ratio and f defines the divergence
 * that keeps the model near the reference model (f-DPO, Wang et al. 2024). */
CE_HOST_DEVICE double ce_preference_score(const ce_preference *rule, double ratio, double *slope)
{
    double a = rule->alpha - 1, power;
    switch (rule->divergence) {
    case CE_FORWARD_KL:
        *slope = exp(-ratio);
        return 1 - *slope;
    case CE_JS_DIVERGENCE:
        *slope = ce_preference_sigmoid(-ratio);
        return log(2.0) + ce_preference_log_sigmoid(ratio);
    case CE_ALPHA_DIVERGENCE:
        if (fabs(a) < 1e-6)
            break;
        power = exp(a * ratio > 80 ? 80 : a * ratio); /* TRL's limit */
        *slope = a * ratio > 80 ? 0 : power;
        return (power - 1) / a;
    }
    *slope = 1;
    return ratio;
}

/* ---- functions of x ---- */

/* Returns -(1 - e) log sigmoid(x) - e log sigmoid(-x). */
CE_HOST_DEVICE double ce_preference_smoothed(double x, double e, double *slope)
{
    *slope = e * ce_preference_sigmoid(x) - (1 - e) * ce_preference_sigmoid(-x);
    return -(1 - e) * ce_preference_log_sigmoid(x) - e * ce_preference_log_sigmoid(-x);
}

CE_HOST_DEVICE double ce_preference_exo(double x, double e, double *slope)
{
    double q = ce_preference_sigmoid(x), other = ce_preference_sigmoid(-x);
    double log_q = ce_preference_log_sigmoid(x) - log1p(-e), log_other = ce_preference_log_sigmoid(-x) - log(e);
    *slope = q * other * (log_q - log_other);
    return q * log_q + other * log_other;
}

/* The products of m and e^-x are computed from the sums of their logarithms, so that they are finite. */
CE_HOST_DEVICE double ce_preference_discopop(double x, double tau, double *slope)
{
    double log_m = ce_preference_log_sigmoid(x / tau), log_other = ce_preference_log_sigmoid(-x / tau);
    double m = exp(log_m), rise = exp(log_m + log_other) / tau, loss = -ce_preference_log_sigmoid(x);
    *slope =
        -ce_preference_sigmoid(-x) * exp(log_other) - loss * rise - exp(log_m - x) + exp(log_m + log_other - x) / tau;
    return loss * (1 - m) + exp(log_m - x);
}

/* Computes the losses that depend on x alone. For ipo, x is not multiplied by beta. Sets *slope to the derivative of the
 * loss by x. */
CE_HOST_DEVICE double ce_preference_of_margin(const ce_preference *rule, int kind, double x, double *slope)
{
    double s = kind == CE_PREFERENCE_ROBUST ? rule->smoothing : 0;
    if (kind == CE_PREFERENCE_SIGMOID && rule->reference_free)
        return ce_preference_smoothed(x, rule->smoothing, slope);
    switch (kind) {
    case CE_PREFERENCE_HINGE:
        *slope = x < 1 ? -1 : 0;
        return x < 1 ? 1 - x : 0 * x; /* NaN stays NaN. */
    case CE_PREFERENCE_IPO:
        x -= 1 / (2 * rule->beta);
        *slope = 2 * x;
        return x * x;
    case CE_PREFERENCE_SIMPO:
        return ce_preference_smoothed(x - rule->gamma, rule->smoothing, slope);
    case CE_PREFERENCE_EXO_PAIR:
        return ce_preference_exo(x, rule->smoothing, slope);
    case CE_PREFERENCE_DISCOPOP:
        return ce_preference_discopop(x, rule->tau, slope);
    }
    *slope = -((1 - s) * ce_preference_sigmoid(-x) + s * ce_preference_sigmoid(x)) / (1 - 2 * s);
    return (s * ce_preference_log_sigmoid(-x) - (1 - s) * ce_preference_log_sigmoid(x)) / (1 - 2 * s);
}

/* ---- one pair ---- */

CE_HOST_DEVICE float ce_preference_fact(const ce_preference_pairs *of, int fact, int64_t b)
{
    return of->facts[fact * of->pairs + b];
}

CE_HOST_DEVICE double ce_preference_reference(const ce_preference_pairs *of, int answer, int64_t b)
{
    return of->references ? (double)of->references[CE_ANSWERS * b + answer] : 0;
}

CE_HOST_DEVICE double ce_preference_ratio(const ce_preference_pairs *of, int answer, int64_t b)
{
    return (double)ce_preference_fact(of, CE_PREFERENCE_CHOSEN_LOGP + answer, b) -
           ce_preference_reference(of, answer, b);
}

/* Returns whether the pair has tokens; pairs without tokens fill up a micro-batch. */
CE_HOST_DEVICE bool ce_preference_is_real(const ce_preference_pairs *of, int64_t b)
{
    return ce_preference_fact(of, CE_PREFERENCE_TOKENS, b) + ce_preference_fact(of, CE_PREFERENCE_REJECTED_TOKENS, b) >
           0;
}

/* Computes a loss that depends on sc and sr. */
CE_HOST_DEVICE double ce_preference_of_scores(const ce_preference *rule, int kind, const ce_preference_pairs *of,
                                              int64_t b, double slope[CE_ANSWERS])
{
    bool by_length = (kind == CE_PREFERENCE_IPO && !rule->reference_free) || kind == CE_PREFERENCE_SIGMOID_NORM;
    double factor = kind == CE_PREFERENCE_IPO ? 1 : rule->beta, terms[CE_ANSWERS], by_ratio, by_x;
    for (int i = 0; i < CE_ANSWERS; i++) {
        double tokens = (double)ce_preference_fact(of, CE_PREFERENCE_TOKENS + i, b);
        double length = by_length && tokens > 1 ? tokens : 1;
        terms[i] = factor * ce_preference_score(rule, ce_preference_ratio(of, i, b), &by_ratio) / length;
        slope[i] = (i == CE_CHOSEN ? factor : -factor) * by_ratio / length;
    }
    double loss = ce_preference_of_margin(rule, kind, terms[CE_CHOSEN] - terms[CE_REJECTED], &by_x);
    slope[CE_CHOSEN] *= by_x;
    slope[CE_REJECTED] *= by_x;
    return loss;
}

/* Computes nca_pair and bco_pair; c and r are beta rc and beta rr. */
CE_HOST_DEVICE double ce_preference_of_logs(int kind, double c, double r, double slope[CE_ANSWERS])
{
    double half = kind == CE_PREFERENCE_NCA_PAIR ? 0.5 : 0, rest = kind == CE_PREFERENCE_NCA_PAIR ? 0.5 : 1;
    slope[CE_CHOSEN] = half * ce_preference_sigmoid(c) - ce_preference_sigmoid(-c);
    slope[CE_REJECTED] = rest * ce_preference_sigmoid(r);
    return -ce_preference_log_sigmoid(c) - half * ce_preference_log_sigmoid(-c) - rest * ce_preference_log_sigmoid(-r);
}

/* Computes apo_zero and apo_down; c and r are beta rc and beta rr. */
CE_HOST_DEVICE double ce_preference_of_sigmoids(int kind, double c, double r, double slope[CE_ANSWERS])
{
    bool zero = kind == CE_PREFERENCE_APO_ZERO;
    double x = zero ? r : r - c, sign = zero ? -1 : 1, rise = ce_preference_sigmoid(x) * ce_preference_sigmoid(-x);
    slope[CE_CHOSEN] = sign * ce_preference_sigmoid(c) * ce_preference_sigmoid(-c) - (zero ? 0 : rise);
    slope[CE_REJECTED] = rise;
    return ce_preference_sigmoid(sign * c) + ce_preference_sigmoid(x);
}

/* Computes the losses that depend on rc and rr alone, without a score. */
CE_HOST_DEVICE double ce_preference_of_ratios(const ce_preference *rule, int kind, const ce_preference_pairs *of,
                                              int64_t b, double slope[CE_ANSWERS])
{
    double c = rule->beta * ce_preference_ratio(of, CE_CHOSEN, b), factor = rule->beta;
    double r = rule->beta * ce_preference_ratio(of, CE_REJECTED, b), loss;
    if (kind == CE_PREFERENCE_SPPO_HARD) {
        factor = 1;
        slope[CE_CHOSEN] = 2 * (c - 0.5) / rule->beta;
        slope[CE_REJECTED] = 2 * (r + 0.5) / rule->beta;
        loss = (slope[CE_CHOSEN] * slope[CE_CHOSEN] + slope[CE_REJECTED] * slope[CE_REJECTED]) / 4;
    } else if (kind == CE_PREFERENCE_NCA_PAIR || kind == CE_PREFERENCE_BCO_PAIR) {
        loss = ce_preference_of_logs(kind, c, r, slope);
    } else {
        loss = ce_preference_of_sigmoids(kind, c, r, slope);
    }
    slope[CE_CHOSEN] *= factor;
    slope[CE_REJECTED] *= factor;
    return loss;
}

/* ---- all pairs of a micro-batch ---- */

/* The values that aot and aot_unpaired sort. */
enum { CE_SORT_CHOSEN, CE_SORT_REJECTED, CE_SORT_MODEL, CE_SORT_REFERENCE };

CE_HOST_DEVICE double ce_preference_sortable(const ce_preference_pairs *of, int what, int64_t b)
{
    if (what == CE_SORT_CHOSEN || what == CE_SORT_REJECTED)
        return ce_preference_ratio(of, what == CE_SORT_CHOSEN ? CE_CHOSEN : CE_REJECTED, b);
    if (what == CE_SORT_REFERENCE)
        return ce_preference_reference(of, CE_CHOSEN, b) - ce_preference_reference(of, CE_REJECTED, b);
    return (double)ce_preference_fact(of, CE_PREFERENCE_CHOSEN_LOGP, b) -
           (double)ce_preference_fact(of, CE_PREFERENCE_REJECTED_LOGP, b);
}

/* Returns how many real pairs stand before pair b in the order of the values; equal values keep the order of the
 * pairs. */
CE_HOST_DEVICE int64_t ce_preference_rank(const ce_preference_pairs *of, int what, int64_t b)
{
    double own = ce_preference_sortable(of, what, b);
    int64_t rank = 0;
    for (int64_t other = 0; other < of->pairs; other++) {
        double value = ce_preference_sortable(of, what, other);
        rank += ce_preference_is_real(of, other) && (value < own || (other < b && !(own < value)));
    }
    return rank;
}

/* Returns the value of the pair with this rank; NaN if values are NaN, so that no pair may have it. */
CE_HOST_DEVICE double ce_preference_ranked(const ce_preference_pairs *of, int what, int64_t rank)
{
    for (int64_t b = 0; b < of->pairs; b++)
        if (ce_preference_is_real(of, b) && ce_preference_rank(of, what, b) == rank)
            return ce_preference_sortable(of, what, b);
    return (double)NAN;
}

/* Returns the loss whose first value is that of pair b, where `what` and `against` are sorted. Sets *slope to its
 * derivative by that value. `sign` is -1 if the value is subtracted. */
CE_HOST_DEVICE double ce_preference_of_sorted(const ce_preference *rule, const ce_preference_pairs *of, int64_t b,
                                              int what, int against, double sign, double *slope)
{
    double other = ce_preference_ranked(of, against, ce_preference_rank(of, what, b));
    double x = sign * rule->beta * (ce_preference_sortable(of, what, b) - other);
    double loss = ce_preference_smoothed(x, rule->smoothing, slope);
    *slope *= sign * rule->beta;
    return loss;
}

/* Returns this pair's share of sft: its tokens' part of the mean, times the number of pairs over which the caller takes
 * the mean. */
CE_HOST_DEVICE double ce_preference_of_tokens(const ce_preference_pairs *of, int64_t b, double *plain)
{
    double tokens = 0, pairs = 0;
    for (int64_t other = 0; other < of->pairs; other++) {
        tokens += (double)ce_preference_fact(of, CE_PREFERENCE_TOKENS, other);
        pairs += ce_preference_is_real(of, other);
    }
    *plain = tokens > 0 ? -pairs / tokens : 0;
    return *plain * (double)ce_preference_fact(of, CE_PREFERENCE_CHOSEN_SUM, b);
}

/* Adds one loss of pair b, times its weight, to *result. */
CE_HOST_DEVICE void ce_preference_add(ce_preference_result *result, const ce_preference *rule, int kind,
                                      const ce_preference_pairs *of, int64_t b)
{
    double slope[CE_ANSWERS] = { 0, 0 }, plain = 0, loss, weight = rule->weights[kind];
    switch (kind) {
    case CE_PREFERENCE_SFT:
        loss = ce_preference_of_tokens(of, b, &plain);
        break;
    case CE_PREFERENCE_AOT:
        loss = ce_preference_of_sorted(rule, of, b, CE_SORT_MODEL, CE_SORT_REFERENCE, 1, &slope[CE_CHOSEN]);
        slope[CE_REJECTED] = -slope[CE_CHOSEN];
        break;
    case CE_PREFERENCE_AOT_UNPAIRED:
        ce_preference_of_sorted(rule, of, b, CE_SORT_REJECTED, CE_SORT_CHOSEN, -1, &slope[CE_REJECTED]);
        loss = ce_preference_of_sorted(rule, of, b, CE_SORT_CHOSEN, CE_SORT_REJECTED, 1, &slope[CE_CHOSEN]);
        break;
    case CE_PREFERENCE_NCA_PAIR:
    case CE_PREFERENCE_BCO_PAIR:
    case CE_PREFERENCE_SPPO_HARD:
    case CE_PREFERENCE_APO_ZERO:
    case CE_PREFERENCE_APO_DOWN:
        loss = ce_preference_of_ratios(rule, kind, of, b, slope);
        break;
    default:
        loss = ce_preference_of_scores(rule, kind, of, b, slope);
    }
    result->loss += weight * loss;
    result->plain += weight * plain;
    for (int i = 0; i < CE_ANSWERS; i++)
        result->slope[i] += weight * slope[i];
}

/* Computes the loss of pair b; all results for a pair without tokens are 0. */
CE_HOST_DEVICE ce_preference_result ce_preference_judge(const ce_preference *rule, const ce_preference_pairs *of,
                                                        int64_t b)
{
    ce_preference_result result = { 0, { 0, 0 }, 0, { 0, 0 } };
    if (!ce_preference_is_real(of, b))
        return result;
    for (int i = 0; i < CE_ANSWERS; i++)
        result.reward[i] = rule->beta * ce_preference_ratio(of, i, b);
    for (int kind = 0; kind < CE_PREFERENCE_KINDS; kind++)
        if (rule->weights[kind] > 0)
            ce_preference_add(&result, rule, kind, of, b);
    return result;
}

#endif
