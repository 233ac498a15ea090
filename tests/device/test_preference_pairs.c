/* test_preference_pairs.c - the loss of a pair of answers. The function for one pair is compared with TRL's formulas
 * and with finite differences; the operation for many pairs on a device is compared with plain loops. */
#include "near.h"
#include "suite.h"

#include "device/state.h"

#include <math.h>

enum { KINDS = 4 };

static const char *const kinds[KINDS] = { "sigmoid", "hinge", "ipo", "robust" };

/* ---- one pair ---- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* The losses as TRL writes them. */
static double loss_of(const ce_preference *rule, const double ratio[2], const int64_t tokens[2])
{
    double x = rule->beta * (ratio[0] - ratio[1]), s = rule->smoothing, apart;
    switch (rule->kind) {
    case CE_PREFERENCE_SIGMOID:
        return -log(sigmoid(x));
    case CE_PREFERENCE_HINGE:
        return x < 1 ? 1 - x : 0;
    case CE_PREFERENCE_IPO:
        apart = ratio[0] / (double)tokens[0] - ratio[1] / (double)tokens[1] - 1 / (2 * rule->beta);
        return apart * apart;
    default:
        return (-(1 - s) * log(sigmoid(x)) + s * log(sigmoid(-x))) / (1 - 2 * s);
    }
}

static ce_preference rule_of(int kind)
{
    return (ce_preference){ kind, 0.1, kind == CE_PREFERENCE_ROBUST ? 0.1 : 0 };
}

START_TEST(slopes_are_those_of_finite_differences)
{
    static const float logps[][2] = { { -20, -31 }, { -31, -20 }, { -25, -25 }, { -12.5F, -13 } };
    for (int kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < sizeof logps / sizeof *logps; i++) {
            ce_preference rule = rule_of(kind);
            ce_preference_pair pair = { { logps[i][0], logps[i][1] }, { -22, -24 }, { 5, 8 } };
            ce_preference_result result = ce_preference_judge(&rule, &pair);
            double ratio[2] = { (double)logps[i][0] + 22, (double)logps[i][1] + 24 };
            ck_assert_double_eq_tol(result.loss, loss_of(&rule, ratio, pair.tokens), 1e-12);
            for (int answer = 0; answer < 2; answer++) {
                double up[2] = { ratio[0], ratio[1] }, down[2] = { ratio[0], ratio[1] };
                up[answer] += 1e-5;
                down[answer] -= 1e-5;
                double slope = (loss_of(&rule, up, pair.tokens) - loss_of(&rule, down, pair.tokens)) / 2e-5;
                ck_assert_msg(fabs(slope - result.slope[answer]) < 1e-8, "%s: %g, not %g", kinds[kind],
                              result.slope[answer], slope);
                ck_assert_double_eq_tol(result.reward[answer], rule.beta * ratio[answer], 1e-12);
            }
        }
}
END_TEST

START_TEST(large_margins_stay_finite)
{
    for (int kind = 0; kind < KINDS; kind++)
        for (int sign = -1; sign <= 1; sign += 2) {
            ce_preference rule = rule_of(kind);
            ce_preference_pair pair = { { (float)(sign * 1e5), 0 }, { 0, 0 }, { 5, 8 } };
            ce_preference_result result = ce_preference_judge(&rule, &pair);
            ck_assert(isfinite(result.loss) && isfinite(result.slope[0]) && isfinite(result.slope[1]));
            pair.logp[0] = NAN;
            ck_assert(isnan(ce_preference_judge(&rule, &pair).loss));
        }
}
END_TEST

/* ---- the operation ---- */

enum { PAIRS = 5, EMPTY = 3, ROWS = 9 };

static void check_pair(const ce_preference *rule, int b, cs_tensor losses, cs_tensor targets, cs_tensor references,
                       cs_tensor weights, cs_tensor facts)
{
    double ratio[2], logp[2] = { 0, 0 };
    int64_t tokens[2] = { 0, 0 };
    for (int64_t i = 0; i < 2 * ROWS; i++) {
        logp[i / ROWS] -= near_element(losses, 2 * b * ROWS + i);
        tokens[i / ROWS] += ((const int32_t *)targets.data)[2 * b * ROWS + i] >= 0;
    }
    for (int i = 0; i < 2; i++)
        ratio[i] = logp[i] - near_element(references, 2 * b + i);
    bool real = b != EMPTY;
    double want[CE_PREFERENCE_FACTS] = { loss_of(rule, ratio, tokens),
                                         rule->beta * ratio[0],
                                         rule->beta * ratio[1],
                                         ratio[0] > ratio[1],
                                         logp[0],
                                         logp[1] };
    for (int i = 0; i < CE_PREFERENCE_FACTS; i++)
        ck_assert_double_eq_tol(near_element(facts, i * PAIRS + b), real ? want[i] : 0, 1e-5 * (1 + fabs(want[i])));
    for (int64_t i = 0; i < 2 * ROWS && real; i++) {
        double up[2] = { ratio[0], ratio[1] }, down[2] = { ratio[0], ratio[1] };
        up[i / ROWS] += 1e-4;
        down[i / ROWS] -= 1e-4;
        /* derivative with respect to the loss of a row */
        double slope = -(loss_of(rule, up, tokens) - loss_of(rule, down, tokens)) / 2e-4;
        ck_assert_double_eq_tol(near_element(weights, 2 * b * ROWS + i), 0.25 * slope, 1e-6 * (1 + fabs(slope)));
    }
}

START_TEST(facts_and_weights_are_those_of_loops)
{
    cs_device *device = near_open(near_threads(3));
    for (int kind = 0; kind < KINDS; kind++) {
        cs_tensor losses = near_random(CS_F32, 2 * PAIRS * ROWS, 1, 1, 1),
                  weights = near_new(CS_F32, 2 * PAIRS * ROWS, 1);
        cs_tensor targets = near_new(CS_I32, 2 * PAIRS, ROWS), references = near_random(CS_F32, 2 * PAIRS, 1, 2, 1);
        cs_tensor facts = near_new(CS_F32, CE_PREFERENCE_FACTS, PAIRS);
        for (int64_t i = 0; i < 2 * PAIRS * ROWS; i++) {
            bool learnt = i % ROWS >= 2 && i / ROWS / 2 != EMPTY && i % 7 != 0;
            ((int32_t *)targets.data)[i] = learnt ? 1 : -1;
            near_set(weights, i, 0.25);
            if (!learnt)
                near_set(losses, i, 0); /* cs_op_cross_entropy sets the loss of a masked row to 0 */
        }
        ce_preference_rows rows = { rule_of(kind),       near_at(losses),  near_at(targets),
                                    near_at(references), near_at(weights), near_at(facts) };
        ce_state_preference(ce_device_stream(device, CE_COMPUTE), &rows);
        near_fetch();
        for (int b = 0; b < PAIRS; b++)
            check_pair(&rows.rule, b, losses, targets, references, weights, facts);
        near_free(losses);
        near_free(weights);
        near_free(targets);
        near_free(references);
        near_free(facts);
    }
    near_close();
}
END_TEST

SUITE_MAIN("preference_pairs", slopes_are_those_of_finite_differences, large_margins_stay_finite,
           facts_and_weights_are_those_of_loops)
