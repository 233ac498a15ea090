/* preference.c - the losses of pairs of answers in preference training, and the weights of the answers' rows. The
 * log-probabilities of all pairs are computed first, because some losses depend on those of other pairs. */
#include "device/cpu/cpu.h"

static float *fact_of(const ce_preference_rows *all, int fact, int64_t b)
{
    return (float *)all->facts.data + fact * cs_columns(all->facts) + b;
}

static const int32_t *targets_of(const ce_preference_rows *all, int64_t sequence)
{
    return (const int32_t *)all->targets.data + sequence * cs_columns(all->targets);
}

static int64_t count_tokens(const ce_preference_rows *all, int64_t sequence)
{
    const int32_t *target = targets_of(all, sequence);
    int64_t tokens = 0;
    for (int64_t t = 0; t < cs_columns(all->targets); t++)
        tokens += target[t] >= 0;
    return tokens;
}

/* Returns the number of rows of each answer of pair b whose log-probabilities have the factor 1. */
static int64_t whole_rows(const ce_preference_rows *all, int64_t b, int answer)
{
    int64_t length = cs_columns(all->targets);
    if (all->rule.ld_alpha >= 1)
        return length;
    float chosen = *fact_of(all, CE_PREFERENCE_TOKENS, b), rejected = *fact_of(all, CE_PREFERENCE_REJECTED_TOKENS, b);
    int64_t shared = (int64_t)(chosen < rejected ? chosen : rejected);
    return ce_preference_rows_of(targets_of(all, CE_ANSWERS * b + answer), length, shared);
}

static double divisor(const ce_preference_rows *all, int64_t b, int answer)
{
    return ce_preference_divisor(&all->rule, (double)*fact_of(all, CE_PREFERENCE_TOKENS + answer, b));
}

/* Adds up the losses of the rows of one answer in order. */
static void add_answer(const ce_preference_rows *all, int64_t b, int answer)
{
    int64_t length = cs_columns(all->targets), whole = whole_rows(all, b, answer);
    const float *loss = (const float *)all->losses.data + (CE_ANSWERS * b + answer) * length;
    double sum = 0, rest = 0;
    for (int64_t t = 0; t < whole; t++)
        sum += (double)loss[t];
    for (int64_t t = whole; t < length; t++)
        rest += (double)loss[t];
    *fact_of(all, CE_PREFERENCE_CHOSEN_LOGP + answer, b) =
        (float)(-(sum + all->rule.ld_alpha * rest) / divisor(all, b, answer));
    if (answer == CE_CHOSEN)
        *fact_of(all, CE_PREFERENCE_CHOSEN_SUM, b) = (float)-(sum + rest);
}

static void read_pairs(void *argument, ce_range range, int part)
{
    const ce_preference_rows *all = argument;
    (void)part;
    for (int64_t b = range.from; b < range.to; b++) {
        for (int i = 0; i < CE_ANSWERS; i++)
            *fact_of(all, CE_PREFERENCE_TOKENS + i, b) = (float)count_tokens(all, CE_ANSWERS * b + i);
        for (int i = 0; i < CE_ANSWERS; i++)
            add_answer(all, b, i);
    }
}

static void weigh_answer(const ce_preference_rows *all, const ce_preference_result *result, int64_t b, int answer)
{
    int64_t length = cs_columns(all->targets), whole = whole_rows(all, b, answer);
    float *weight = (float *)all->weights.data + (CE_ANSWERS * b + answer) * length;
    double slope = result->slope[answer] / divisor(all, b, answer), plain = answer == CE_CHOSEN ? result->plain : 0;
    /* the sign changes, because a row's loss is the negative of its log-probability */
    for (int64_t t = 0; t < length; t++)
        weight[t] = (float)((double)weight[t] * -((t < whole ? slope : all->rule.ld_alpha * slope) + plain));
}

static void judge_pairs(void *argument, ce_range range, int part)
{
    const ce_preference_rows *all = argument;
    ce_preference_pairs of = { all->facts.data, all->references.data, cs_columns(all->facts) };
    (void)part;
    for (int64_t b = range.from; b < range.to; b++) {
        ce_preference_result result = ce_preference_judge(&all->rule, &of, b);
        *fact_of(all, CE_PREFERENCE_LOSS, b) = (float)result.loss;
        *fact_of(all, CE_PREFERENCE_CHOSEN_REWARD, b) = (float)result.reward[CE_CHOSEN];
        *fact_of(all, CE_PREFERENCE_REJECTED_REWARD, b) = (float)result.reward[CE_REJECTED];
        *fact_of(all, CE_PREFERENCE_CORRECT, b) = result.reward[CE_CHOSEN] > result.reward[CE_REJECTED];
        for (int i = 0; i < CE_ANSWERS && all->weights.data; i++)
            weigh_answer(all, &result, b, i);
    }
}

void ce_cpu_preference(cs_stream *stream, const ce_preference_rows *rows)
{
    ce_cpu_walk(stream->device, cs_columns(rows->facts), 4, read_pairs, (void *)(uintptr_t)rows);
    ce_cpu_walk(stream->device, cs_columns(rows->facts), 4, judge_pairs, (void *)(uintptr_t)rows);
}
