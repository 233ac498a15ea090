/* test_preference_pairs.c - the losses of pairs of answers. The operation for the pairs of a micro-batch is compared with
 * TRL's formulas in double, and its weights with finite differences of these formulas. */
#include "near.h"
#include "suite.h"

#include "device/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS = 5, EMPTY = 3, REAL = PAIRS - 1, ROWS = 9, ALL = 2 * PAIRS * ROWS };

/* One micro-batch in double. */
typedef struct {
    double loss[ALL], reference[2 * PAIRS];
    bool learnt[ALL];
} micro;

/* What the formulas read of one micro-batch; the pairs without tokens are left out. */
typedef struct {
    double logp[REAL][2], reference[REAL][2], ratio[REAL][2], score[REAL][2], tokens[REAL][2];
    double sum; /* of the chosen answers, without ld_alpha */
} view;

static double log_sigmoid(double x)
{
    return x < 0 ? x - log1p(exp(x)) : -log1p(exp(-x));
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double score_of(const ce_preference *rule, double ratio)
{
    double a = rule->alpha;
    return rule->divergence == CE_FORWARD_KL         ? 1 - exp(-ratio)
           : rule->divergence == CE_JS_DIVERGENCE    ? log(2) + log_sigmoid(ratio)
           : rule->divergence == CE_ALPHA_DIVERGENCE ? (exp((a - 1) * ratio) - 1) / (a - 1)
                                                     : ratio;
}

static view view_of(const ce_preference *rule, const micro *of)
{
    view seen = { 0 };
    for (int b = 0, k = 0; b < PAIRS; b++) {
        double tokens[2] = { 0, 0 }, shared, *at = NULL;
        for (int i = 0; i < 2 * ROWS; i++)
            tokens[i / ROWS] += of->learnt[2 * b * ROWS + i];
        shared = fmin(tokens[0], tokens[1]);
        if (tokens[0] + tokens[1] < 1)
            continue;
        for (int answer = 0; answer < 2; answer++) {
            double position = 0;
            at = &seen.logp[k][answer];
            for (int t = 0; t < ROWS; t++) {
                int row = (2 * b + answer) * ROWS + t;
                position += of->learnt[row];
                *at -= of->loss[row] * (position > shared ? rule->ld_alpha : 1);
                seen.sum -= answer == 0 ? of->loss[row] : 0;
            }
            if (rule->reference_free &&
                (rule->weights[CE_PREFERENCE_IPO] > 0 || rule->weights[CE_PREFERENCE_SIMPO] > 0))
                *at /= fmax(tokens[answer], 1);
            seen.tokens[k][answer] = tokens[answer];
            seen.reference[k][answer] = of->reference[2 * b + answer];
            seen.ratio[k][answer] = *at - seen.reference[k][answer];
            seen.score[k][answer] = score_of(rule, seen.ratio[k][answer]);
        }
        k++;
    }
    return seen;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns the sum of the losses of aot (`unpaired` false) or aot_unpaired. */
static double sorted_loss(const ce_preference *rule, const view *v, bool unpaired)
{
    double a[REAL], b[REAL], sum = 0, e = rule->smoothing;
    for (int k = 0; k < REAL; k++) {
        a[k] = unpaired ? v->ratio[k][0] : v->logp[k][0] - v->logp[k][1];
        b[k] = unpaired ? v->ratio[k][1] : v->reference[k][0] - v->reference[k][1];
    }
    qsort(a, REAL, sizeof *a, compare);
    qsort(b, REAL, sizeof *b, compare);
    for (int k = 0; k < REAL; k++) {
        double x = rule->beta * (a[k] - b[k]);
        sum -= (1 - e) * log_sigmoid(x) + e * log_sigmoid(-x);
    }
    return sum;
}

/* Returns the loss of one pair, as TRL writes it. */
static double pair_loss(const ce_preference *rule, int kind, const view *v, int k)
{
    double beta = rule->beta, e = rule->smoothing, c = v->ratio[k][0], r = v->ratio[k][1];
    double x = beta * (v->score[k][0] - v->score[k][1]);
    double margin = x - rule->gamma,
           mean = v->score[k][0] / fmax(v->tokens[k][0], 1) - v->score[k][1] / fmax(v->tokens[k][1], 1);
    switch (kind) {
    case CE_PREFERENCE_SIGMOID:
        return rule->reference_free ? -(1 - e) * log_sigmoid(x) - e * log_sigmoid(-x) : -log_sigmoid(x);
    case CE_PREFERENCE_SIMPO:
        return -(1 - e) * log_sigmoid(margin) - e * log_sigmoid(-margin);
    case CE_PREFERENCE_HINGE:
        return fmax(0, 1 - x);
    case CE_PREFERENCE_IPO:
        return pow((rule->reference_free ? c - r : mean) - 1 / (2 * beta), 2);
    case CE_PREFERENCE_ROBUST:
        return (-(1 - e) * log_sigmoid(x) + e * log_sigmoid(-x)) / (1 - 2 * e);
    case CE_PREFERENCE_EXO_PAIR:
        return sigmoid(x) * (log_sigmoid(x) - log1p(-e)) + sigmoid(-x) * (log_sigmoid(-x) - log(e));
    case CE_PREFERENCE_NCA_PAIR:
        return -log_sigmoid(beta * c) - 0.5 * log_sigmoid(-beta * c) - 0.5 * log_sigmoid(-beta * r);
    case CE_PREFERENCE_BCO_PAIR:
        return -log_sigmoid(beta * c) - log_sigmoid(-beta * r);
    case CE_PREFERENCE_SPPO_HARD:
        return pow(c - 0.5 / beta, 2) + pow(r + 0.5 / beta, 2);
    case CE_PREFERENCE_APO_ZERO:
        return 1 - sigmoid(beta * c) + sigmoid(beta * r);
    case CE_PREFERENCE_APO_DOWN:
        return sigmoid(beta * c) + 1 - sigmoid(beta * (c - r));
    case CE_PREFERENCE_DISCOPOP:
        return -log_sigmoid(x) * (1 - sigmoid(x / rule->tau)) + exp(-x) * sigmoid(x / rule->tau);
    default:
        ck_assert_int_eq(kind, CE_PREFERENCE_SIGMOID_NORM);
        return -log_sigmoid(beta * mean);
    }
}

/* Returns the sum of the losses of all pairs. */
static double total(const ce_preference *rule, const micro *of)
{
    view v = view_of(rule, of);
    double sum = 0, tokens = 0;
    for (int k = 0; k < REAL; k++)
        tokens += v.tokens[k][0];
    for (int kind = 0; kind < CE_PREFERENCE_KINDS; kind++) {
        double loss = 0;
        if (rule->weights[kind] <= 0)
            continue;
        if (kind == CE_PREFERENCE_AOT || kind == CE_PREFERENCE_AOT_UNPAIRED)
            loss = sorted_loss(rule, &v, kind == CE_PREFERENCE_AOT_UNPAIRED);
        else if (kind == CE_PREFERENCE_SFT)
            loss = -v.sum / tokens * REAL;
        else
            for (int k = 0; k < REAL; k++)
                loss += pair_loss(rule, kind, &v, k);
        sum += rule->weights[kind] * loss;
    }
    return sum;
}

static ce_preference rule_of(int kind)
{
    ce_preference rule = { .beta = 0.3, .smoothing = 0.1, .ld_alpha = 1, .alpha = 0.7, .tau = 0.5, .gamma = 0.4 };
    rule.weights[kind] = 1;
    return rule;
}

/* ---- the operation ---- */

static void check_weights(const ce_preference *rule, const micro *of, cs_tensor weights)
{
    for (int64_t i = 0; i < ALL; i++) {
        micro up = *of, down = *of;
        if (!of->learnt[i])
            continue; /* its loss does not depend on parameters */
        up.loss[i] += 1e-5;
        down.loss[i] -= 1e-5;
        double slope = (total(rule, &up) - total(rule, &down)) / 2e-5;
        ck_assert_double_eq_tol(near_element(weights, i), 0.25 * slope, 2e-6 * (1 + fabs(slope)));
    }
}

static void check_facts(const ce_preference *rule, const micro *of, cs_tensor facts)
{
    view v = view_of(rule, of);
    double sum = 0, want = total(rule, of);
    for (int b = 0, k = 0; b < PAIRS; k += b != EMPTY, b++)
        for (int fact = 0; fact < CE_PREFERENCE_TOKENS; fact++) {
            double value = near_element(facts, fact * PAIRS + b);
            double wanted = fact == CE_PREFERENCE_CHOSEN_REWARD     ? rule->beta * v.ratio[k][0]
                            : fact == CE_PREFERENCE_REJECTED_REWARD ? rule->beta * v.ratio[k][1]
                            : fact == CE_PREFERENCE_CORRECT         ? v.ratio[k][0] > v.ratio[k][1]
                            : fact == CE_PREFERENCE_CHOSEN_LOGP     ? v.logp[k][0]
                            : fact == CE_PREFERENCE_REJECTED_LOGP   ? v.logp[k][1]
                                                                    : value;
            sum += fact == CE_PREFERENCE_LOSS ? value : 0;
            ck_assert_double_eq_tol(value, b != EMPTY ? wanted : 0, 1e-5 * (1 + fabs(wanted)));
        }
    ck_assert_msg(fabs(sum - want) < 1e-5 * (1 + fabs(want)), "the losses are %.9g, not %.9g", sum, want);
}

static void check(cs_device *device, ce_preference rule)
{
    cs_tensor losses = near_random(CS_F32, ALL, 1, 1, 1), weights = near_new(CS_F32, ALL, 1);
    cs_tensor targets = near_new(CS_I32, 2 * PAIRS, ROWS), references = near_random(CS_F32, 2 * PAIRS, 1, 2, 1);
    cs_tensor facts = near_new(CS_F32, CE_PREFERENCE_FACTS, PAIRS);
    micro of = { 0 };
    for (int64_t i = 0; i < ALL; i++) {
        int64_t length = ROWS - i / ROWS % 4; /* answers of different lengths */
        of.learnt[i] = i % ROWS >= 2 && i % ROWS < length && i / ROWS / 2 != EMPTY && i % 7 != 0;
        ((int32_t *)targets.data)[i] = of.learnt[i] ? 1 : -1;
        near_set(weights, i, 0.25);
        if (!of.learnt[i])
            near_set(losses, i, 0); /* cs_op_cross_entropy sets the loss of a masked row to 0 */
        of.loss[i] = near_element(losses, i);
    }
    for (int i = 0; i < 2 * PAIRS; i++)
        of.reference[i] = near_element(references, i);
    ce_preference_rows rows = { rule,          near_at(losses), near_at(targets), near_at(references), near_at(weights),
                                near_at(facts) };
    ce_state_preference(ce_device_stream(device, CE_COMPUTE), &rows);
    near_fetch();
    check_facts(&rule, &of, facts);
    check_weights(&rule, &of, weights);
    near_free(losses);
    near_free(weights);
    near_free(targets);
    near_free(references);
    near_free(facts);
}

START_TEST(each_loss_is_its_formula)
{
    cs_device *device = near_open(near_threads(3));
    for (int kind = 0; kind < CE_PREFERENCE_KINDS; kind++) {
        ce_preference rule = rule_of(kind);
        check(device, rule);
        rule.ld_alpha = 0.3;
        check(device, rule);
    }
    near_close();
}
END_TEST

START_TEST(losses_without_a_reference_are_their_formulas)
{
    static const int kinds[] = { CE_PREFERENCE_SIGMOID, CE_PREFERENCE_HINGE, CE_PREFERENCE_IPO, CE_PREFERENCE_SIMPO };
    cs_device *device = near_open(near_threads(3));
    for (int i = 0; i < 4; i++) {
        ce_preference rule = rule_of(kinds[i]);
        rule.reference_free = true;
        check(device, rule);
        rule.weights[CE_PREFERENCE_SFT] = 0.5;
        check(device, rule);
    }
    near_close();
}
END_TEST

START_TEST(divergences_and_sums_are_their_formulas)
{
    cs_device *device = near_open(near_threads(3));
    for (int divergence = 0; divergence <= CE_ALPHA_DIVERGENCE; divergence++) {
        ce_preference rule = rule_of(CE_PREFERENCE_IPO);
        rule.weights[CE_PREFERENCE_SIGMOID] = 0.7;
        rule.weights[CE_PREFERENCE_SFT] = 0.5;
        rule.divergence = divergence;
        check(device, rule);
    }
    near_close();
}
END_TEST

/* ---- extreme values ---- */

START_TEST(large_margins_stay_finite)
{
    for (int kind = 0; kind < CE_PREFERENCE_KINDS; kind++)
        for (int sign = -1; sign <= 1; sign += 2) {
            ce_preference rule = rule_of(kind);
            float facts[CE_PREFERENCE_FACTS] = { [CE_PREFERENCE_CHOSEN_LOGP] = (float)sign * 1e3F,
                                                 [CE_PREFERENCE_TOKENS] = 5,
                                                 [CE_PREFERENCE_REJECTED_TOKENS] = 8,
                                                 [CE_PREFERENCE_CHOSEN_SUM] = (float)sign * 1e3F };
            ce_preference_pairs of = { facts, NULL, 1 };
            ce_preference_result result = ce_preference_judge(&rule, &of, 0);
            ck_assert(isfinite(result.loss) && isfinite(result.slope[0]) && isfinite(result.slope[1]));
            facts[CE_PREFERENCE_CHOSEN_LOGP] = facts[CE_PREFERENCE_CHOSEN_SUM] = NAN;
            ck_assert(isnan(ce_preference_judge(&rule, &of, 0).loss));
        }
}
END_TEST

SUITE_MAIN("preference_pairs", each_loss_is_its_formula, losses_without_a_reference_are_their_formulas,
           divergences_and_sums_are_their_formulas, large_margins_stay_finite)
